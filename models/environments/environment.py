"""What the Gymnasium environments have in common: scenarios, seeds, spaces and `info`.

An episode is the accounted part of a scenario; `reset` runs the warm-up without policy actions.
A policy observes what a controller does. Rewards may use the true simulator state.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import numpy as np
from gymnasium import Env
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box

from models.cluster.arrays import F32
from models.compare.breakers import Breakers
from models.compare.provenance import tuning_scenarios
from models.environments.policy import PolicyAdapter, is_due
from models.forecaster.port import Forecaster
from models.forecaster.simulated.catalogue import NONE, forecaster_of
from models.inputs.errors import InputError
from models.sim.config.physics import (
    Scheduling,
    SimCluster,
    load_sim_cluster,
    with_apps,
    with_scheduling,
)
from models.sim.config.scenario import Scenario, load_scenario
from models.sim.population.generate import generate
from models.sim.results.summary import Decisions, Result, summarise
from models.sim.world import World

S = TypeVar("S")

APPS: Final = 155
"""Apps of the default cluster: small enough to train on. Policies of a prototype transferred to ten
times as many; none of this project has been trained yet."""
SEEDS: Final = (1 << 20, 1 << 31)
"""Range of training seeds; disjoint from the benchmark's, which start at 0."""


class Episode(Generic[S]):
    """Runs a world as `models.compare.run` does, one tick per call, after the warm-up."""

    observed: F32
    """[E, numbers] the policy's observation now."""

    def __init__(
        self, world: World, adapter: PolicyAdapter[S], forecaster: Forecaster[Any] | None
    ) -> None:
        self.world, self.adapter = world, adapter
        self._forecaster = forecaster
        first = world.observe(adapter.pipeline)
        self._state = adapter.start(first)
        self._forecaster_state = forecaster.start(first) if forecaster is not None else None
        self._breakers = Breakers(world, adapter, first)
        self._observe()
        while world.tick < world.timeline.warmup_ticks:
            self.tick(None)

    @property
    def over(self) -> bool:
        """Whether the scenario has ended."""
        return self.world.tick >= self.world.timeline.total_ticks

    @property
    def due(self) -> bool:
        """Whether the policy decides now."""
        return is_due(self.world.tick, self.adapter.every)

    def tick(self, action: F32 | None) -> None:
        """Advance by a tick under an action [E, actions], and observe."""
        observation, forecast = self._observation, None
        if self._forecaster is not None:
            forecast, self._forecaster_state = self._forecaster.step(
                observation, self._forecaster_state
            )
        state = self._breakers.limit(observation.tick, self._state)
        plan, self._state = self.adapter.act(observation, forecast, state, action)
        self._breakers.cut(observation, forecast, plan, self._state)
        self.world.step(plan)
        self._observe()

    def _observe(self) -> None:
        self._observation = self.world.observe(self.adapter.pipeline)
        self.observed, self._state = self.adapter.observe(self._observation, self._state)


class Environment(Env[F32, F32], ABC, Generic[S]):
    """Subclasses define the adapter and the reward."""

    def __init__(
        self,
        scenarios: Sequence[Scenario | str | Path] | None,
        cluster: SimCluster | None,
        forecast: str,
        scheduling: Scheduling,
        copies: int = 1,
    ) -> None:
        plain = cluster or with_apps(load_sim_cluster(), APPS)
        self._cluster = with_scheduling(plain, scheduling)
        self._scenarios = _load(scenarios, plain)
        # Once for all episodes: it depends on the cluster only, not on scenario or seed.
        self._population = generate(plain)
        self._forecaster_of = forecaster_of(forecast)
        self._copies = copies
        self._episode: Episode[S] | None = None
        # A world is needed for the sizes of the spaces, which gymnasium wants before `reset`.
        adapter = self._adapter_of(self._world(self._scenarios[0], 0))
        self.observation_space = Box(adapter.limits.low, adapter.limits.high, dtype=np.float32)
        self.action_space = Box(-1.0, 1.0, (adapter.actions,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[F32, dict[str, Any]]:
        """Begin an episode.

        The seed selects the scenario and the seed of its world; `options` may set them:
        `scenario`, one of those given, and `world_seed`.
        """
        super().reset(seed=seed)
        scenario, world_seed = self._draw(options or {})
        world = self._world(scenario, world_seed)
        forecaster = self._forecaster_of(world) if self._forecaster_of is not None else None
        self._episode = Episode(world, self._adapter_of(world), forecaster)
        self._begin(world)
        return self._episode.observed[0], {"scenario": scenario.name, "world_seed": world_seed}

    def step(self, action: F32) -> tuple[F32, float, bool, bool, dict[str, Any]]:
        """Act until the next decision is due."""
        episode = self._running()
        # The policy acts in the first copy; zeros leave the others to the plain heuristic.
        actions = np.zeros((self._copies, episode.adapter.actions), np.float32)
        actions[0] = action
        episode.tick(actions)
        self._after_tick(episode)
        while not (episode.due or episode.over):
            episode.tick(actions)
            self._after_tick(episode)
        results = results_of(episode.world)
        reward = self._reward(results)
        # Truncated, never terminated: a cluster has no final state, the scenario just ends.
        return episode.observed[0], reward, False, episode.over, info_of(results[0])

    @abstractmethod
    def _adapter_of(self, world: World) -> PolicyAdapter[S]:
        """The adapter between policy and controller."""

    @abstractmethod
    def _begin(self, world: World) -> None:
        """Reset per-episode reward state."""

    def _after_tick(self, episode: Episode[S]) -> None:
        """Accumulate what the reward needs of each tick."""

    @abstractmethod
    def _reward(self, results: list[Result]) -> float:
        """Reward of the ticks since the last decision; `results` cover the episode so far."""

    def _world(self, scenario: Scenario, world_seed: int) -> World:
        return World(self._cluster, scenario, [world_seed] * self._copies, self._population)

    def _draw(self, options: dict[str, Any]) -> tuple[Scenario, int]:
        index = int(self.np_random.integers(len(self._scenarios)))
        # Drawn even where options replace it: the generator moves on alike for every episode.
        drawn = int(self.np_random.integers(*SEEDS))
        by_name = {scenario.name: scenario for scenario in self._scenarios}
        name = options.get("scenario", self._scenarios[index].name)
        if name not in by_name:
            raise InputError(f"scenario: {name}: expected one of {', '.join(by_name)}")
        return by_name[name], int(options.get("world_seed", drawn))

    def _running(self) -> Episode[S]:
        if self._episode is None or self._episode.over:
            raise ResetNeeded("call reset() first: no episode is running")
        return self._episode


def results_of(world: World) -> list[Result]:
    """J and its parts, of the episode so far, one result per environment."""
    # Decisions on missing data are counted in the benchmark only; J does not depend on them.
    no_decreases = np.zeros(world.environments, np.int64)
    return summarise(world, NONE, Decisions(missing_data_decreases=no_decreases))


def info_of(result: Result) -> dict[str, Any]:
    """The `info` of a step: J of the episode so far, and its parts."""
    return {
        "objective": result.objective,
        "pw": result.pw,
        "node_hours": result.node_hours,
        "violation_minutes": dict(result.violation_minutes),
        "scaling_actions": result.scaling_actions,
    }


def _load(
    scenarios: Sequence[Scenario | str | Path] | None, cluster: SimCluster
) -> tuple[Scenario, ...]:
    """The given scenarios, or those to tune on: the benchmark's are for evaluation."""
    if scenarios is None:
        return tuning_scenarios(cluster)
    if not scenarios:
        raise InputError("scenarios: expected at least one")
    return tuple(
        one if isinstance(one, Scenario) else load_scenario(one, cluster) for one in scenarios
    )
