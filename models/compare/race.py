"""A race: one world per controller, advanced together, each recorded as if it ran alone."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from models.compare.hashes import combined
from models.compare.jobs import (
    Finished,
    Job,
    finished,
    match_of,
    timeline_of,
    violating_share,
    worst_p99,
)
from models.compare.outcome import BenchmarkOutcome
from models.compare.request import Request
from models.sim.results.failures import FailureWatch, setting_of
from models.sim.results.findings import Finding
from models.sim.results.recording import Recorder
from models.sim.results.summary import Result, summarise
from models.sim.world import World


class LaneSnapshot(NamedTuple):
    """Figures of one controller after a tick."""

    p0_violating: float
    """Share of P0's requests in this tick."""
    p0_p99: float
    """Over its target, of the worst P0 domain."""
    pending: int
    """Pods of all priorities without a node."""
    nodes_ready: int
    nodes_coming: int
    """Booting, or requested from the cloud."""
    counted: Result | None
    """Figures so far; None during the warm-up, which does not count."""


class Lane:
    """One controller in its own world, with a recorder and a failure watch."""

    def __init__(self, job: Job) -> None:
        began = time.perf_counter()
        match = match_of(job)
        self.name, self.world = job.controller, match.world
        self._job, self._run = job, match.begin()
        self._recorder, self._watch = Recorder(self.world), FailureWatch(setting_of(self.world))
        self._p0 = self.world.given.rules.domains["priority"] == 0
        self._seconds = time.perf_counter() - began

    @property
    def finished(self) -> bool:
        """Whether the scenario has ended."""
        return self._run.finished

    def step(self) -> list[Finding]:
        """Advance one tick; return the failures that begin in it."""
        began = time.perf_counter()
        self._run.step()
        self._recorder(self.world)
        findings = self._watch.look(self._recorder.recording, self._tick)
        # Lanes advance in turn, so each adds up its own time.
        self._seconds += time.perf_counter() - began
        return findings

    def snapshot(self) -> LaneSnapshot:
        """Figures now; call it after at least one tick."""
        record, tick = self._recorder.recording, self._tick
        now = slice(tick, tick + 1)
        # Requested nodes count too: an accepted request cannot be withdrawn.
        coming = record.nodes_booting[tick].sum() + record.nodes_asked[tick].sum()
        return LaneSnapshot(
            p0_violating=float(violating_share(record, self._p0, now)[0]),
            p0_p99=float(worst_p99(record, self._p0, now)[0]),
            pending=int(record.pending[tick].sum()),
            nodes_ready=int(record.nodes_ready[tick].sum()),
            nodes_coming=int(coming),
            # Accounting starts with the first tick after the warm-up; before, the sums are empty.
            counted=self.result() if tick >= self.world.timeline.warmup_ticks else None,
        )

    def demand(self) -> list[float]:
        """External P0 requests per second by tick so far; equal in all lanes."""
        outside = self._recorder.recording.outside[: self.world.tick, self._p0]
        demand: list[float] = outside.sum(axis=1).tolist()
        return demand

    def result(self) -> Result:
        """The figures so far."""
        (result,) = summarise(self.world, self.name, self._run.decisions())
        return result

    def findings(self) -> list[Finding]:
        """All failures so far, with figures over their whole length."""
        return self._watch.findings(self._recorder.recording)

    def finish(self) -> Finished:
        """The same result as a job of a benchmark."""
        timeline = timeline_of(self.world, self._recorder.recording)
        return finished(self._job, [self.result()], timeline, self._seconds)

    @property
    def _tick(self) -> int:
        # The tick that has just ended: a world counts on as soon as it has advanced.
        return self.world.tick - 1


class StartedFailure(NamedTuple):
    """A failure that begins, and under which controller."""

    controller: str
    finding: Finding


class Race:
    """Lanes of the same scenario and seed, so that their ticks agree."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.lanes = [Lane(job) for job in jobs]

    @property
    def world(self) -> World:
        """The first world, for what all have in common."""
        return self.lanes[0].world

    @property
    def finished(self) -> bool:
        """All lanes end together."""
        return self.lanes[0].finished

    def step(self) -> list[StartedFailure]:
        """Advance all lanes by one tick; return the failures that begin in it."""
        return [
            StartedFailure(lane.name, finding) for lane in self.lanes for finding in lane.step()
        ]


def outcome_of(race: Race, request: Request, seconds: float, command: str) -> BenchmarkOutcome:
    """The race as a benchmark with one seed, so that both share a report."""
    finished_jobs = {lane.name: lane.finish() for lane in race.lanes}
    worlds = {name: job.world_hash for name, job in finished_jobs.items()}
    return BenchmarkOutcome(
        request=request,
        world_hash=combined(worlds.values()),
        world_hashes={request.shown.name: worlds},
        code_hash=combined(job.code_hash for job in finished_jobs.values()),
        jobs=list(finished_jobs.values()),
        reused=0,
        seconds=seconds,
        command=command,
    )
