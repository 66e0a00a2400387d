"""The same search for any controller: same scenarios, seeds, number of trials and objective.

A comparison is only fair if every controller is tuned with the same care: on the same scenarios,
on seeds that they are not compared on, with points in proportion to their parameters. The fields of
an entry in `tuned.json` say what it came from, where it is of another search.
"""

import hashlib
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

import msgspec

from models.compare.families import Family
from models.compare.provenance import family_code, hash_of_world
from models.compare.run import run
from models.compare.search import Point, Search, Tried, best
from models.control.tuned import Tuned, tuned
from models.sim.apps import Population
from models.sim.config.physics import SimCluster, with_scheduling
from models.sim.config.scenario import Scenario
from models.sim.population.generate import generate
from models.sim.results.summary import summarise
from models.sim.world import World

_STEEP: Final = 20.0
"""Penalty on the objective per unit of relative excess over a bound: 1 % too much costs 20 %.
Proportional, so that the search tells a point close to the bound from one far away."""


class Aggregate(NamedTuple):
    """How the J of the scenarios become the objective to minimise."""

    name: str
    of: Callable[[Iterable[float]], float]


MEAN: Final = Aggregate("mean of J over scenarios", statistics.fmean)


class Setting(NamedTuple):
    """What every family is tuned on."""

    cluster: SimCluster
    scenarios: tuple[Scenario, ...]
    seeds: tuple[int, ...]
    aggregate: Aggregate = MEAN
    bounds: Mapping[str, float] = MappingProxyType({})
    """Largest J by scenario; exceeding it outweighs any gain elsewhere."""

    def value(self, by_scenario: Mapping[str, float]) -> float:
        """The objective to minimise: the aggregate, with a steep penalty above the bounds."""
        excess = sum(max(0.0, by_scenario[name] / most - 1.0) for name, most in self.bounds.items())
        return self.aggregate.of(by_scenario.values()) * (1.0 + _STEEP * excess)


class Job(NamedTuple):
    """One parameter set in one scenario, over all seeds."""

    family: Family
    point: Point
    cluster: SimCluster
    scenario: Scenario
    seeds: tuple[int, ...]


Runner: TypeAlias = Callable[[Sequence[Job]], Iterator[tuple[Job, float]]]
"""Evaluates jobs and yields them in the order in which they finish."""


def calibrate(
    family: Family,
    setting: Setting,
    trials: int,
    runner: Runner,
    storage: Path | None = None,
    search_seed: int = 0,
    on_done: Callable[[], None] = lambda: None,
) -> Tuned:
    """Search the family's ranges; `on_done` is called once for each point, stored ones included."""
    worlds, code, starts = _world_hashes(family, setting), family_code(family), _starts(family)
    search = Search(
        _identity(family, setting, starts, worlds, code, search_seed),
        starts,
        family.ranges,
        search_seed,
        storage,
    )
    for _ in search.tried[:trials]:
        on_done()
    while len(search.tried) < trials:
        trial, point = search.ask()
        jobs = [
            Job(family, point, setting.cluster, scenario, setting.seeds)
            for scenario in setting.scenarios
        ]
        by_scenario = {job.scenario.name: value for job, value in runner(jobs)}
        search.tell(trial, Tried(point, setting.value(by_scenario), by_scenario))
        on_done()
    tried = search.tried[:trials]
    winner = best(tried)
    return Tuned(
        parameters=winner.point,
        objective=winner.value,
        default_objective=tried[0].value,
        # Jobs finish in any order.
        by_scenario=dict(sorted(winner.by_scenario.items())),
        aggregate=setting.aggregate.name,
        bounds=dict(setting.bounds),
        apps=setting.cluster.apps,
        seeds=setting.seeds,
        search=search.label,
        trials=trials,
        search_seed=search_seed,
        worlds=worlds,
        code=code,
    )


def _starts(family: Family) -> list[Point]:
    """The defaults, and what is in force where that is something else."""
    defaults, in_force = family.defaults(), dict[str, float]()
    for name, value in tuned(family.name).items():
        if name in family.ranges:
            low, high = family.ranges[name]
            in_force[name] = min(max(value, low), high)
    found = [defaults, defaults | in_force]
    return found if found[0] != found[1] else found[:1]


def _identity(
    family: Family,
    setting: Setting,
    starts: list[Point],
    worlds: dict[str, str],
    code: str,
    search_seed: int,
) -> str:
    """Name of a search in its file: a search of anything else starts from the beginning."""
    depends = (
        *(starts, family.ranges, worlds, code, setting.seeds, search_seed),
        *(setting.aggregate.name, dict(setting.bounds)),
    )
    digest = hashlib.sha256(msgspec.json.encode(depends, order="sorted")).hexdigest()[:12]
    return f"{family.name} {digest}"


def _world_hashes(family: Family, setting: Setting) -> dict[str, str]:
    population = _population(_encoded(setting.cluster))
    return {
        scenario.name: hash_of_world(setting.cluster, scenario, family.scheduling, population)
        for scenario in setting.scenarios
    }


def _encoded(cluster: SimCluster) -> bytes:
    return msgspec.json.encode(cluster)


@lru_cache(maxsize=2)
def _population(cluster: bytes) -> Population:
    """Cached per process: it is the same for all scenarios."""
    # By its text, because a cluster is not hashable.
    return generate(msgspec.json.decode(cluster, type=SimCluster))


def objective(job: Job) -> float:
    """Mean J over the seeds of one job."""
    cluster = with_scheduling(job.cluster, job.family.scheduling)
    world = World(cluster, job.scenario, job.seeds, _population(_encoded(job.cluster)))
    forecaster = job.family.forecaster(world) if job.family.forecaster is not None else None
    decisions = run(world, job.family.make(world, job.point), forecaster)
    return statistics.fmean(row.objective for row in summarise(world, job.family.name, decisions))


def in_process(jobs: Sequence[Job]) -> Iterator[tuple[Job, float]]:
    """One job after the other, in this process."""
    for job in jobs:
        yield job, objective(job)


@contextmanager
def in_processes(workers: int) -> Iterator[Runner]:
    """That many jobs at a time, in spawned processes: forking with threads can hang."""
    if workers == 1:
        yield in_process
        return
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))

    def runner(jobs: Sequence[Job]) -> Iterator[tuple[Job, float]]:
        waiting = {pool.submit(objective, job): job for job in jobs}
        for future in as_completed(waiting):
            yield waiting[future], future.result()

    try:
        yield runner
    finally:
        # On interrupt, cancel queued jobs instead of running them.
        pool.shutdown(wait=True, cancel_futures=True)
