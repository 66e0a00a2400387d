"""A world: E environments of one cluster and scenario, advanced by plans, seen by observations."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.cluster.observation import CPU_REQUEST, MEMORY_REQUEST, REPLICAS, Observation, Pipeline
from models.cluster.plan import Plan, empty_plan
from models.inputs.errors import InputError
from models.sim.accounting import Accounts, copy_accounts, empty_accounts, reset_accounts
from models.sim.apps import Apps, Population, app_records
from models.sim.describe.compile import compile_scenario
from models.sim.describe.overlays import script_of
from models.sim.describe.physics import SimCluster
from models.sim.describe.scenario import Scenario
from models.sim.erlang import build_tables
from models.sim.fingerprint import world_hash
from models.sim.layout import compile_rules
from models.sim.observe import empty_observation, observe, scrape_ages
from models.sim.population.fitted import load_fitted
from models.sim.population.generate import generate
from models.sim.scheduler import empty_failed
from models.sim.service import SCRATCH_ROWS
from models.sim.service_rows import call_rows, service_traits
from models.sim.start import fill, hide_late_apps, start_replicas
from models.sim.state import State, copy_state, empty_state
from models.sim.tick import Given, Scratch, advance
from models.sim.traffic import TrafficShape

_SEEDS = 1 << 63


class Snapshot(NamedTuple):
    """All that changes in a world; restoring it continues bit for bit."""

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
        self._ages = scrape_ages(apps.domain.size, float(rules.physics["hpa_lag_ticks"][0]))
        self._observations = {pipeline: empty_observation(self.state) for pipeline in Pipeline}

    @property
    def environments(self) -> int:
        """How many environments run side by side."""
        return int(self.state.env.size)

    @property
    def tick(self) -> int:
        """Ticks since the warm-up began."""
        return int(self.state.env["tick"][0])

    @property
    def hash(self) -> str:
        """Fingerprint of the parameters and the rules of this world."""
        return world_hash(self.cluster, self.scenario, self.population, self.given.script.replay)

    def observe(self, pipeline: Pipeline = Pipeline.OURS) -> Observation:
        """What a controller may see now; the buffers are used again at the next call."""
        given, observation = self.given, self._observations[pipeline]
        observe(
            self.state,
            observation,
            given.rules,
            given.script,
            self._ages,
            int(pipeline),
        )
        return observation

    def hold(self) -> Plan:
        """A plan that changes nothing, for a controller to fill."""
        plan = empty_plan(self.environments, self.given.apps.size, self.layout.pools)
        plan.replicas[:] = self.state.status[:, REPLICAS]
        plan.cpu[:] = self.state.status[:, CPU_REQUEST]
        plan.memory[:] = self.state.status[:, MEMORY_REQUEST]
        return plan

    def step(self, plan: Plan) -> None:
        """Advance one tick under `plan`; accounts start when the warm-up ends."""
        if self.tick == self.timeline.warmup_ticks:
            reset_accounts(self.accounts)
        advance(self.state, self.accounts, plan, self.given, self._scratch)

    def save(self) -> Snapshot:
        """An independent copy of everything that changes."""
        return Snapshot(copy_state(self.state), copy_accounts(self.accounts))

    def restore(self, snapshot: Snapshot) -> None:
        """Continue from a snapshot of this world, or of one of the same scenario and seeds."""
        mine: tuple[NDArray[Any], ...] = (*self.state, *self.accounts)
        saved: tuple[NDArray[Any], ...] = (*snapshot.state, *snapshot.accounts)
        for array, value in zip(mine, saved, strict=True):
            array[...] = value


def traffic_shape(cluster: SimCluster, apps: Apps, start_minute_of_week: int) -> TrafficShape:
    """What all apps' traffic has in common, from the cluster file and the fitted noise."""
    noise = load_fitted().noise
    return TrafficShape(
        start_minute_of_week=start_minute_of_week,
        weekend=np.array([d.weekend_factor for d in cluster.domain_physics], np.float32),
        weights=noise.weights,
        periods=_whole(noise.periods_minutes),
        own_rps=apps.own_rps,
        noise=apps.noise,
        bursts_per_hour=apps.bursts_per_day / np.float32(24),
        day_profiles=apps.day_profiles,
    )


def _whole(periods: tuple[float, float, float]) -> tuple[int, int, int]:
    first, second, third = (max(1, round(period)) for period in periods)
    return first, second, third


def _check_seeds(seeds: Sequence[int]) -> None:
    if not seeds:
        raise InputError("seeds: expected at least one")
    bad = [seed for seed in seeds if not 0 <= seed < _SEEDS]
    if bad:
        raise InputError(f"seed: expected a whole number from 0 to {_SEEDS - 1}, got {bad[0]}")
