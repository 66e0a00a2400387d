"""A world: environments of one cluster and scenario, each with its own seed.

Plans advance it tick by tick, observations show it to controllers. `world_hash` identifies it, and
the history functions return the traffic before its first tick.
"""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from models.cluster import rows
from models.cluster.arrays import F32
from models.cluster.calendar import HISTORY_MINUTES
from models.cluster.inventory import Inventory
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan, empty_plan
from models.inputs.errors import InputError
from models.jit import code_digest
from models.sim.accounting import Accounts, copy_accounts, empty_accounts, reset_accounts
from models.sim.apps import Apps, Population, app_records, service_traits
from models.sim.call_graph import call_rows
from models.sim.config.compile import compile_scenario
from models.sim.config.physics import SimCluster
from models.sim.config.scenario import Scenario
from models.sim.config.script import script_of
from models.sim.declarations import declare
from models.sim.initial_state import fill, hide_late_apps, start_replicas
from models.sim.observe import empty_observation, observe, scrape_ages, window_weights
from models.sim.population.fitted import FITTED, load_fitted
from models.sim.population.generate import generate
from models.sim.queueing import build_tables
from models.sim.rules import compile_rules
from models.sim.scheduler import empty_failed
from models.sim.service import SCRATCH_ROWS
from models.sim.state import State, copy_state, empty_state
from models.sim.tick import Given, Scratch, advance
from models.sim.traffic import TrafficShape, fill_history

# Seeds are stored as signed 64-bit integers.
_SEEDS: Final = 1 << 63


class WorldSnapshot(NamedTuple):
    """Everything that changes in a world; a restored world continues bit for bit."""

    state: State
    accounts: Accounts


class World:
    """Environments that share a cluster, a scenario and a population; each has its own seed."""

    def __init__(
        self,
        cluster: SimCluster,
        scenario: Scenario,
        seeds: Sequence[int],
        population: Population | None = None,
    ) -> None:
        _check_seeds(seeds)
        self.cluster = cluster
        self.scenario = scenario
        self.timeline = scenario.timeline(cluster.tick_seconds)
        self.population = population or generate(cluster)
        apps = self.population.apps
        script = script_of(compile_scenario(scenario, cluster, apps, list(seeds)))
        shape = traffic_shape(cluster, apps, self.timeline.start_minute_of_week)
        # Pools are sized for the replicas at tick 0, so these come before the rules.
        replicas = start_replicas(self.population, shape, script)
        self.layout, rules = compile_rules(cluster, self.population, replicas)
        self.given = Given(
            apps=app_records(apps),
            traits=service_traits(apps),
            calls=call_rows(self.population.calls),
            rules=rules,
            shape=shape,
            script=script,
            tables=build_tables(),
        )
        self.state = empty_state(list(seeds), apps, self.layout)
        self.accounts = empty_accounts(len(seeds), apps.domain.size, self.layout)
        fill(self.state, cluster, apps, rules, script, replicas)
        hide_late_apps(self.state, script)
        self._scratch = Scratch(
            per_app=np.zeros((SCRATCH_ROWS, apps.domain.size), np.float32),
            counts=np.zeros(apps.domain.size, np.int32),
            cells=np.zeros(apps.domain.size, np.uint32),
            failed=empty_failed(self.layout.pools),
        )
        metrics, tick_s = cluster.physics.metrics, cluster.tick_seconds
        self._ages = scrape_ages(apps.domain.size, metrics.hpa_lag_s / tick_s)
        self._window = window_weights(metrics.lag_s, metrics.window_s, tick_s)
        self._observations = {pipeline: empty_observation(self.state) for pipeline in Pipeline}

    @cached_property
    def inventory(self) -> Inventory:
        """What is declared about the cluster and its apps; a controller gets nothing else."""
        seeds = self.state.env["seed"].tolist()
        return declare(self.population, self.cluster, seeds)

    @property
    def environments(self) -> int:
        """Number of environments."""
        return int(self.state.env.size)

    @property
    def window_ticks(self) -> int:
        """Ticks from the oldest measurement in a sample of our pipeline to the present."""
        return int(self._window.size)

    @property
    def tick(self) -> int:
        """Ticks since the warm-up began."""
        return int(self.state.env["tick"][0])

    @property
    def hash(self) -> str:
        """Fingerprint of the parameters and the rules of this world."""
        return world_hash(self.cluster, self.scenario, self.population, self.given.script.replay)

    def observe(self, pipeline: Pipeline = Pipeline.OURS) -> Observation:
        """What a controller may observe now. The next call reuses the buffers."""
        given, observation = self.given, self._observations[pipeline]
        observe(
            self.state, observation, given.rules, given.script, self._ages, self._window,
            int(pipeline),
        )  # fmt: skip
        return observation

    def hold(self) -> Plan:
        """A plan that changes nothing, for a controller to fill."""
        plan = empty_plan(self.environments, self.given.apps.size, self.layout.pools)
        plan.replicas[:] = self.state.status[:, rows.REPLICAS]
        plan.cpu[:] = self.state.status[:, rows.CPU_REQUEST]
        plan.memory[:] = self.state.status[:, rows.MEMORY_REQUEST]
        return plan

    def step(self, plan: Plan) -> None:
        """Advance one tick under `plan`; accounts start from zero when the warm-up ends."""
        # The warm-up is neither billed nor counted.
        if self.tick == self.timeline.warmup_ticks:
            reset_accounts(self.accounts)
        advance(self.state, self.accounts, plan, self.given, self._scratch)

    def save(self) -> WorldSnapshot:
        """An independent copy of everything that changes."""
        return WorldSnapshot(copy_state(self.state), copy_accounts(self.accounts))

    def restore(self, snapshot: WorldSnapshot) -> None:
        """Continue from a snapshot of this world, or of another one of the same shape."""
        current: tuple[NDArray[Any], ...] = (*self.state, *self.accounts)
        saved: tuple[NDArray[Any], ...] = (*snapshot.state, *snapshot.accounts)
        for array, value in zip(current, saved, strict=True):
            # In place, because observations have views of the state.
            array[...] = value


def traffic_shape(cluster: SimCluster, apps: Apps, start_minute_of_week: int) -> TrafficShape:
    """The parameters of all apps' traffic, from the physics and the fitted noise."""
    noise = load_fitted().noise
    return TrafficShape(
        start_minute_of_week=start_minute_of_week,
        weekend=np.array([d.weekend_factor for d in cluster.domain_physics], np.float32),
        weights=noise.weights,
        periods=_whole_minutes(noise.periods_minutes),
        own_rps=apps.own_rps,
        noise=apps.noise,
        bursts_per_hour=apps.bursts_per_day / np.float32(24),
        day_profiles=apps.day_profiles,
    )


def _whole_minutes(periods: tuple[float, float, float]) -> tuple[int, int, int]:
    first, second, third = (max(1, round(period)) for period in periods)
    return first, second, third


def _check_seeds(seeds: Sequence[int]) -> None:
    if not seeds:
        raise InputError("seeds: expected at least one")
    bad = [seed for seed in seeds if not 0 <= seed < _SEEDS]
    if bad:
        raise InputError(f"seed: expected a whole number from 0 to {_SEEDS - 1}, got {bad[0]}")


def world_hash(cluster: SimCluster, scenario: Scenario, population: Population, replay: F32) -> str:
    """Sixteen hexadecimal digits that change when the world does.

    They cover the cluster, the scenario, the population and the meaning of the simulator's code, so
    that results of two different worlds are not compared by accident. Of a replayed trace the
    values count, not the location of its file.
    """
    # What a world is made of. Controllers act on a world and are not part of it.
    digest = hashlib.sha256(code_digest(Path(__file__)).encode())
    # The noise of the traffic is read from this file; it is not part of the population.
    digest.update(FITTED.read_bytes())
    digest.update(msgspec.json.encode(cluster))
    nameless = [msgspec.structs.replace(entry, file="") for entry in scenario.replay]
    digest.update(msgspec.json.encode(msgspec.structs.replace(scenario, replay=tuple(nameless))))
    digest.update(replay.tobytes())
    columns: dict[str, NDArray[Any]] = population.apps._asdict() | population.calls._asdict()
    for name, column in columns.items():
        digest.update(name.encode())
        digest.update(column.tobytes())
    return digest.hexdigest()[:16]


def domain_history(world: World, minutes: int = HISTORY_MINUTES) -> F32:
    """[E, D, minutes] requests per second per domain, calls included, up to tick 0."""
    history = np.zeros((world.environments, world.layout.domains, minutes), np.float32)
    for e in range(world.environments):
        by_app = app_history(world, e, minutes)
        domain = world.state.status[e, rows.DOMAIN]
        for d in range(world.layout.domains):
            history[e, d] = by_app[:, domain == d].sum(axis=1)
    return history


def app_history(world: World, environment: int, minutes: int = HISTORY_MINUTES) -> F32:
    """[minutes, A] requests per second of every app of one environment, up to tick 0.

    The same function of (seed, app, minute) as the scenario's own traffic, without its events:
    the history contains nothing of what is going to happen.
    """
    if not 1 <= minutes <= HISTORY_MINUTES:
        raise ValueError(f"expected 1 to {HISTORY_MINUTES} minutes, got {minutes}")
    given = world.given
    rates = np.zeros((minutes, given.apps.size), np.float32)
    # As at tick 0: a move within the scenario must not change the history.
    domain = world.population.apps.domain.astype(np.int32)
    seed = int(world.state.env["seed"][environment])
    passed = np.ones_like(rates[0])
    fill_history(given.apps, domain, given.shape, given.script, given.calls, seed, passed, rates)
    return rates
