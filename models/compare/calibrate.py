"""The same search for every controller: same scenarios, seeds, budget and objective.

A comparison is only fair if every controller is tuned with the same care. All of them are tuned
here, on scenarios (`tuning`) that differ from those they are compared on.
"""

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
from models.compare.journal import Entry, Journal, controller_digest, key_of
from models.compare.run import run
from models.compare.search import Point, Tried, batches, best
from models.control.tuned import Tuned
from models.sim.apps import Population
from models.sim.config.physics import SimCluster, with_scheduling
from models.sim.config.scenario import Scenario, load_scenario
from models.sim.population.generate import generate
from models.sim.results.summary import summarise
from models.sim.world import World

FOLDER: Final = Path(__file__).with_name("tuning")
"""Scenarios to tune on, one YAML file each."""
_STEEP: Final = 20.0
"""Penalty on the objective per unit of relative excess over a bound: 1 % too much costs 20 %."""


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


def tuning_scenarios(cluster: SimCluster) -> tuple[Scenario, ...]:
    """The scenarios to tune on, checked against the cluster."""
    return tuple(load_scenario(file, cluster) for file in sorted(FOLDER.glob("*.yaml")))


def calibrate(
    family: Family,
    setting: Setting,
    budget: int,
    runner: Runner,
    journal: Journal,
    search_seed: int = 0,
    on_done: Callable[[], None] = lambda: None,
) -> Tuned:
    """Search the family's ranges; `on_done` is called `budget` x scenarios times."""
    worlds = {
        scenario.name: _world_hash(family, setting, scenario) for scenario in setting.scenarios
    }
    # What runs and scores an evaluation counts, too.
    code = controller_digest(family.factory.__module__) + controller_digest(run.__module__)
    found: list[dict[str, float]] = []
    tried: list[Tried] = []
    for points in batches(family.defaults(), family.ranges, budget, search_seed, tried):
        jobs = [
            Job(family, point, setting.cluster, scenario, setting.seeds)
            for point in points
            for scenario in setting.scenarios
        ]
        keys = [_key(job, worlds, code) for job in jobs]
        values = _evaluate(jobs, keys, runner, journal, on_done)
        for index, point in enumerate(points):
            # Jobs are in the order of points, then scenarios.
            rows = range(index * len(setting.scenarios), (index + 1) * len(setting.scenarios))
            by_scenario = {jobs[k].scenario.name: values[keys[k]] for k in rows}
            found.append(by_scenario)
            tried.append(Tried(point, setting.value(by_scenario)))
    winner = best(tried)
    return Tuned(
        parameters=winner.point,
        objective=winner.value,
        default_objective=tried[0].value,
        by_scenario=found[tried.index(winner)],
        aggregate=setting.aggregate.name,
        bounds=dict(setting.bounds),
        apps=setting.cluster.apps,
        seeds=setting.seeds,
        budget=budget,
        search_seed=search_seed,
        worlds=worlds,
        code=code,
    )


def _evaluate(
    jobs: Sequence[Job],
    keys: Sequence[str],
    runner: Runner,
    journal: Journal,
    on_done: Callable[[], None],
) -> dict[str, float]:
    """J by key; evaluations in the journal are not repeated."""
    values: dict[str, float] = {}
    open_jobs: dict[str, Job] = {}
    for key, job in zip(keys, jobs, strict=True):
        found = journal.get(key)
        if found is not None:
            values[key] = found
            on_done()
        # Points are clipped and rounded, so a batch may contain one twice.
        elif key in open_jobs:
            on_done()
        else:
            open_jobs[key] = job
    # By identity, because a job holds a dict and cannot be a key. Jobs finish in any order.
    key_by_id = {id(job): key for key, job in open_jobs.items()}
    for job, value in runner(list(open_jobs.values())):
        key = key_by_id[id(job)]
        values[key] = value
        journal.add(Entry(key, job.family.name, job.scenario.name, job.point, value))
        on_done()
    return values


def _key(job: Job, worlds: Mapping[str, str], code: str) -> str:
    return key_of(job.family.name, code, job.point, worlds[job.scenario.name], job.seeds)


def _world_hash(family: Family, setting: Setting, scenario: Scenario) -> str:
    cluster = _scheduled(family, setting.cluster)
    # One seed is enough: the hash covers the rules of a world, not its seeds.
    return World(cluster, scenario, setting.seeds[:1], _population(_encoded(setting.cluster))).hash


def _scheduled(family: Family, cluster: SimCluster) -> SimCluster:
    return with_scheduling(cluster, family.scheduling)


def _encoded(cluster: SimCluster) -> bytes:
    return msgspec.json.encode(cluster)


@lru_cache(maxsize=2)
def _population(cluster: bytes) -> Population:
    """Cached per process: it is the same for all scenarios."""
    # By its text, because a cluster is not hashable.
    return generate(msgspec.json.decode(cluster, type=SimCluster))


def objective(job: Job) -> float:
    """Mean J over the seeds of one job."""
    cluster = _scheduled(job.family, job.cluster)
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
