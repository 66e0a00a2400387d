"""The worlds of a race: one per controller, advanced together, each watched as if it ran alone."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from models.compare.jobs import (
    Finished,
    Job,
    contest_of,
    finished,
    timeline_of,
    violating_share,
    worst_p99,
)
from models.sim.results.failures import FailureWatch, setting_of
from models.sim.results.findings import Finding
from models.sim.results.recording import Recorder
from models.sim.results.summary import Result, summarise
from models.sim.world import World


class Standing(NamedTuple):
    """How a controller fares after a tick."""

    p0_violating: float
    """Share of P0's requests in this tick."""
    p0_p99: float
    """Over its target, of the P0 domain that fares worst."""
    pending: int
    """Pods of all priorities without a node."""
    nodes_ready: int
    nodes_coming: int
    """Booting, or asked of the cloud."""
    counted: Result | None
    """Figures so far; None in the warm-up, of which nothing counts."""


class Lane:
    """One controller in its own world, with the recorder and the watch that look on."""

    def __init__(self, job: Job) -> None:
        began = time.perf_counter()
        contest = contest_of(job)
        self.name, self.world = job.controller, contest.world
        self._job, self._run = job, contest.begin()
        self._recorder, self._watch = Recorder(self.world), FailureWatch(setting_of(self.world))
        self._p0 = self.world.given.rules.domains["priority"] == 0
        self._seconds = time.perf_counter() - began

    @property
    def finished(self) -> bool:
        """Whether the scenario has come to its end."""
        return self._run.finished

    def step(self) -> list[Finding]:
        """Advance one tick; the failures that begin to show in it."""
        began = time.perf_counter()
        self._run.step()
        self._recorder(self.world)
        begun = self._watch.look(self._recorder.recording, self._tick)
        self._seconds += time.perf_counter() - began
        return begun

    def standing(self) -> Standing:
        """Where this lane is now, after at least one tick."""
        record, tick = self._recorder.recording, self._tick
        now = slice(tick, tick + 1)
        coming = record.nodes_booting[tick].sum() + record.nodes_asked[tick].sum()
        return Standing(
            p0_violating=float(violating_share(record, self._p0, now)[0]),
            p0_p99=float(worst_p99(record, self._p0, now)[0]),
            pending=int(record.pending[tick].sum()),
            nodes_ready=int(record.nodes_ready[tick].sum()),
            nodes_coming=int(coming),
            counted=self.result() if tick >= self.world.timeline.warmup_ticks else None,
        )

    def demand(self) -> list[float]:
        """P0 requests per second from outside, tick by tick so far: the same in every lane."""
        outside = self._recorder.recording.outside[: self.world.tick, self._p0]
        demand: list[float] = outside.sum(axis=1).tolist()
        return demand

    def result(self) -> Result:
        """The figures so far."""
        (result,) = summarise(self.world, self.name, self._run.decisions())
        return result

    def findings(self) -> list[Finding]:
        """All failures so far, with the figures of their whole length."""
        return self._watch.findings(self._recorder.recording)

    def leave(self) -> Finished:
        """What a job of a benchmark would have left behind."""
        timeline = timeline_of(self.world, self._recorder.recording)
        return finished(self._job, [self.result()], timeline, self._seconds)

    @property
    def _tick(self) -> int:
        return self.world.tick - 1


class Begun(NamedTuple):
    """A failure that begins to show, and where."""

    controller: str
    finding: Finding


class Race:
    """Lanes of the same scenario and seed, so that their clocks agree."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.lanes = [Lane(job) for job in jobs]

    @property
    def world(self) -> World:
        """Any of the worlds, for what they have in common."""
        return self.lanes[0].world

    @property
    def finished(self) -> bool:
        """All lanes end together."""
        return self.lanes[0].finished

    def step(self) -> list[Begun]:
        """Advance every lane by one tick."""
        return [Begun(lane.name, finding) for lane in self.lanes for finding in lane.step()]
