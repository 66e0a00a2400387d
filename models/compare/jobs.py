"""A job: one controller in one scenario with a few seeds, in one vectorised world.

A seed's result doesn't depend on the seeds beside it, so jobs can be cut to suit the cores.
Finished jobs are kept on disk, so that an interrupted benchmark resumes.
"""

import hashlib
import os
import time
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import Mask
from models.compare.catalogue import Match, enter
from models.compare.request import Request
from models.inputs.errors import InputError
from models.sim.apps import Population
from models.sim.config.physics import SimCluster
from models.sim.config.scenario import Scenario
from models.sim.population.generate import generate
from models.sim.results.recording import Recorder, Recording
from models.sim.results.summary import Result, summarise
from models.sim.world import World

F64 = NDArray[np.float64]

FOLDER: Final = Path(".hirl/bench-control")
"""Default folder of finished jobs."""
EVERY_TICK: Final = slice(None)
SEEDS_PER_JOB: Final = 10
"""All seeds of a default comparison: a tick of our controller has a fixed cost, which they share,
and scenarios and controllers make enough jobs to keep all cores busy."""


class Job(NamedTuple):
    """A unit of work for one process; it can be pickled."""

    controller: str
    cluster: SimCluster
    scenario: Scenario
    seeds: tuple[int, ...]
    recorded: bool
    """Whether to keep the timeline of the first seed."""
    world_hash: str
    code_hash: str
    variant: str = ""
    """Name of a changed world that is compared with the world as described; its results are kept
    beside those of that world, not in their place."""

    @property
    def label(self) -> str:
        """Name in messages; also identifies the file of the result."""
        seeds = ",".join(map(str, self.seeds))
        label = f"{self.controller}, {self.scenario.name}, {self.cluster.apps} apps, seeds {seeds}"
        return f"{label}, {self.variant}" if self.variant else label


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """One seed, tick by tick; P0 is all domains of that priority together."""

    seed: int
    minutes: list[float]
    """From the end of the warm-up, which is negative."""
    demand: list[float]
    """P0 requests per second from outside the cluster, before anything is lost."""
    ready: list[float]
    """P0 pods."""
    p99_over_target: list[float]
    """Of the worst P0 domain."""
    violating: list[float]
    """Share of P0's requests."""
    pending: list[float]
    """Pods of all priorities without a node."""
    nodes: list[float]
    """Ready, all pools."""


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a job."""

    label: str
    world_hash: str
    code_hash: str
    seconds: float
    results: list[Result]
    timeline: Timeline | None


def jobs_of(request: Request, worlds: dict[str, dict[str, str]], code: dict[str, str]) -> list[Job]:
    """All jobs, the longest first, so that no core works alone on one at the end."""
    jobs = [
        Job(
            controller,
            request.cluster,
            scenario,
            seeds,
            # Only what the report plots is recorded: one scenario, one seed, no frontier.
            scenario is request.shown
            and seeds[0] == request.seeds[0]
            and controller in request.controllers,
            worlds[scenario.name][controller],
            code[controller],
        )
        for scenario in request.scenarios
        for controller in request.entrants
        for seeds in _chunks(request.seeds)
    ]
    return sorted(jobs, key=lambda job: -work(job))


def work(job: Job) -> int:
    """App-ticks to be simulated."""
    ticks = job.scenario.timeline(job.cluster.tick_seconds).total_ticks
    return ticks * len(job.seeds) * job.cluster.apps


def play(job: Job) -> Finished:
    """Run a job to its end."""
    began = time.perf_counter()
    match = match_of(job)
    recorder = Recorder(match.world) if job.recorded else None
    decisions = match.play(recorder)
    results = summarise(match.world, job.controller, decisions)
    timeline = timeline_of(match.world, recorder.recording) if recorder is not None else None
    return finished(job, results, timeline, time.perf_counter() - began)


def match_of(job: Job) -> Match:
    """The world of the job with its controller, before the first tick."""
    population = population_of(job.cluster)
    return enter(job.controller, job.cluster, job.scenario, job.seeds, population)


def finished(
    job: Job, results: list[Result], timeline: Timeline | None, seconds: float
) -> Finished:
    """The result of a job, with its name and hashes."""
    return Finished(
        label=job.label,
        world_hash=job.world_hash,
        code_hash=job.code_hash,
        seconds=seconds,
        results=results,
        timeline=timeline,
    )


def population_of(cluster: SimCluster) -> Population:
    """The apps of a cluster, generated once per process: all jobs share the cluster."""
    return _generated(msgspec.json.encode(cluster))


@lru_cache(maxsize=1)
def _generated(text: bytes) -> Population:
    # The cluster itself isn't hashable; its text is.
    return generate(msgspec.json.decode(text, type=SimCluster))


def _chunks(seeds: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    return [seeds[at : at + SEEDS_PER_JOB] for at in range(0, len(seeds), SEEDS_PER_JOB)]


def timeline_of(world: World, record: Recording) -> Timeline:
    """The parts of a recording that a report plots."""
    p0 = world.given.rules.domains["priority"] == 0
    since = np.arange(world.timeline.total_ticks) - world.timeline.warmup_ticks
    return Timeline(
        seed=int(world.state.env["seed"][0]),
        minutes=_brief(since * world.cluster.tick_seconds / 60),
        demand=_brief(record.outside[:, p0].sum(axis=1)),
        ready=_brief(record.ready[:, p0].sum(axis=1)),
        p99_over_target=_brief(worst_p99(record, p0)),
        violating=_brief(violating_share(record, p0)),
        pending=_brief(record.pending.sum(axis=1)),
        nodes=_brief(record.nodes_ready.sum(axis=1)),
    )


def violating_share(record: Recording, domains: Mask, ticks: slice = EVERY_TICK) -> F64:
    """[ticks] of the requests of these domains together."""
    rps = record.rps[ticks, domains]
    violating = (record.violating[ticks, domains] * rps).sum(axis=1)
    share: F64 = violating / np.maximum(rps.sum(axis=1), 1e-9)
    return share


def worst_p99(record: Recording, domains: Mask, ticks: slice = EVERY_TICK) -> F64:
    """[ticks] p99 over target of the worst of these domains; 0 if there are none."""
    worst: F64 = record.p99_over_target[ticks, domains].max(axis=1, initial=0)
    return worst


def _brief(values: NDArray[np.number]) -> list[float]:
    """Five digits are enough for a plot."""
    return [float(f"{value:.5g}") for value in values.tolist()]


def load_finished(folder: Path, job: Job) -> Finished | None:
    """The stored result of a job; None if there is none, or if the world or the code changed.

    An unreadable file counts as none: running again is always correct.
    """
    try:
        found = msgspec.json.decode(_file(folder, job).read_bytes(), type=Finished)
    except (OSError, msgspec.DecodeError):
        return None
    # A result of another world or of other code has the same file name; see `_file`.
    same = (found.world_hash, found.code_hash) == (job.world_hash, job.code_hash)
    return found if same else None


def save_finished(folder: Path, job: Job, finished: Finished) -> None:
    """Store a result atomically: readers see all of it or nothing."""
    file = _file(folder, job)
    # Named by process: two benchmarks at once must not write into the same draft.
    draft = file.with_suffix(f".{os.getpid()}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(msgspec.json.encode(finished))
        draft.replace(file)
    except OSError as error:
        raise InputError(f"{file}: cannot be written ({error.strerror})") from None


def _file(folder: Path, job: Job) -> Path:
    """Named after the job, not its hashes: results of a changed world replace the old ones."""
    # With and without a timeline are different results: one must not hide the other.
    identity = f"{job.label}, recorded {job.recorded}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    return folder / f"{job.scenario.name}-{digest}.json"
