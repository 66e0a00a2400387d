"""A finished benchmark and everything there is to tell about it."""

from functools import cached_property

import msgspec

from models.compare.jobs import Finished, Timeline
from models.compare.request import Request
from models.compare.standings import FrontierPoint, Standing, frontier, standings
from models.compare.tally import tally
from models.sim.results.summary import Result


class Outcome(msgspec.Struct, kw_only=True, dict=True):
    """What was run and what came of it; comparisons are drawn when they are first looked at."""

    request: Request
    world_hash: str
    """Of all worlds together."""
    world_hashes: dict[str, dict[str, str]]
    """By scenario and entrant."""
    code_hash: str
    jobs: list[Finished]
    reused: int
    """Jobs that an earlier run had left."""
    seconds: float
    command: str
    """Repeats the benchmark."""

    @cached_property
    def rows(self) -> list[Result]:
        """In the order asked: scenario, entrant, seed."""
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
    def frontier(self) -> list[FrontierPoint]:
        """HPA at its targets."""
        return frontier(tally(self.rows, self.request), self.request)

    @property
    def timelines(self) -> dict[str, Timeline]:
        """By controller, of the scenario that is shown."""
        return {
            job.results[0].controller: job.timeline for job in self.jobs if job.timeline is not None
        }
