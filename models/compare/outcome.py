"""A finished benchmark with its rows, comparisons and timelines."""

from functools import cached_property
from typing import Any

import msgspec

from models.compare.jobs import Finished, Timeline
from models.compare.pooled import Pooled, pooled
from models.compare.request import Request
from models.compare.standings import FrontierPoint, Standing, frontier, standings, tally
from models.sim.results.summary import Result


# `dict=True`, because cached properties store their values in `__dict__`.
class BenchmarkOutcome(msgspec.Struct, kw_only=True, dict=True):
    """What was run and its results; comparisons are computed on first access."""

    request: Request
    world_hash: str
    """Of all worlds together."""
    world_hashes: dict[str, dict[str, str]]
    """By scenario and entrant."""
    code_hash: str
    jobs: list[Finished]
    reused: int
    """Jobs whose results an earlier run had stored."""
    seconds: float
    outdated: dict[str, str] = {}
    """Families that were tuned for other code or other worlds, with what changed."""
    command: str
    """Command line that repeats the benchmark."""

    @cached_property
    def rows(self) -> list[Result]:
        """In the requested order: scenario, entrant, seed."""
        scenarios = [scenario.name for scenario in self.request.scenarios]
        entrants = self.request.entrants
        return sorted(
            (row for job in self.jobs for row in job.results),
            key=lambda row: (
                scenarios.index(row.scenario),
                entrants.index(row.controller),
                row.seed,
            ),
        )

    @cached_property
    def standings(self) -> list[Standing]:
        """Each controller against the reference."""
        return standings(tally(self.rows, self.request), self.request)

    @cached_property
    def pooled(self) -> list[Pooled]:
        """Ratios over all scenarios, with and without the largest."""
        return pooled(self.rows, self.request)

    @cached_property
    def frontier(self) -> list[FrontierPoint]:
        """HPA at several targets."""
        return frontier(tally(self.rows, self.request), self.request)

    @property
    def timelines(self) -> dict[str, Timeline]:
        """By controller, of the plotted scenario."""
        return {
            job.results[0].controller: job.timeline for job in self.jobs if job.timeline is not None
        }


def payload(outcome: BenchmarkOutcome) -> dict[str, Any]:
    """As JSON. `world_hash` and `rows` are the contract; the rest explains them."""
    request = outcome.request
    return {
        "world_hash": outcome.world_hash,
        "rows": outcome.rows,
        "reference": request.reference,
        "standings": outcome.standings,
        "pooled": outcome.pooled,
        "frontier": outcome.frontier,
        "world_hashes": outcome.world_hashes,
        "code_hash": outcome.code_hash,
        "outdated": outcome.outdated,
        "reduced": request.reduced,
        "seconds": outcome.seconds,
        "reused": outcome.reused,
        "command": outcome.command,
    }
