"""What the Gymnasium environments have in common: scenarios, seeds, spaces and what is told.

An episode is the accounted part of a scenario; its warm-up runs inside `reset`, with nobody in
the seat. Observations are a controller's, never the world's truth; rewards may know it.
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
from models.compare.calibrate import tuning_scenarios
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
"""Of the cluster when none is given: small enough to learn on, and what is learned carries over."""
SEEDS: Final = (1 << 20, 1 << 31)
"""Seeds are drawn from here, so that those of the benchmark, which begin at 0, stay unseen."""


class Episode(Generic[S]):
    """Drives the world as `models.compare.run` does, one tick per call; the warm-up at once."""

    seen: F32
    """[E, numbers] what the policy sees now."""

    def __init__(
        self, world: World, adapter: PolicyAdapter[S], forecaster: Forecaster[Any] | None
    ) -> None:
        self.world, self.adapter = world, adapter
        self._forecaster = forecaster
        first = world.observe(adapter.pipeline)
        self._state = adapter.start(first)
        self._foreseen = forecaster.start(first) if forecaster is not None else None
        self._look()
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
        """Advance under the action [E, actions] in force, and look."""
        observation, forecast = self._observation, None
        if self._forecaster is not None:
            forecast, self._foreseen = self._forecaster.step(observation, self._foreseen)
        plan, self._state = self.adapter.act(observation, forecast, self._state, action)
        self.world.step(plan)
        self._look()

    def _look(self) -> None:
        self._observation = self.world.observe(self.adapter.pipeline)
        self.seen, self._state = self.adapter.look(self._observation, self._state)


class Environment(Env[F32, F32], ABC, Generic[S]):
    """Subclasses give the seat and the reward."""

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
        self._population = generate(plain)
        self._forecaster_of = forecaster_of(forecast)
        self._copies = copies
        self._episode: Episode[S] | None = None
        adapter = self._adapter_of(self._world(self._scenarios[0], 0))
        self.observation_space = Box(adapter.limits.low, adapter.limits.high, dtype=np.float32)
        self.action_space = Box(-1.0, 1.0, (adapter.actions,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[F32, dict[str, Any]]:
        """Begin an episode.

        The seed decides about the scenario and the seed of its world; `options` may name them:
        `scenario` of those given, and `world_seed`.
        """
        super().reset(seed=seed)
        scenario, world_seed = self._draw(options or {})
        world = self._world(scenario, world_seed)
        forecaster = self._forecaster_of(world) if self._forecaster_of is not None else None
        self._episode = Episode(world, self._adapter_of(world), forecaster)
        self._begin(world)
        return self._episode.seen[0], {"scenario": scenario.name, "world_seed": world_seed}

    def step(self, action: F32) -> tuple[F32, float, bool, bool, dict[str, Any]]:
        """Act until the next decision is due."""
        episode = self._running()
        actions = np.zeros((self._copies, episode.adapter.actions), np.float32)
        actions[0] = action
        episode.tick(actions)
        self._after_tick(episode)
        while not (episode.due or episode.over):
            episode.tick(actions)
            self._after_tick(episode)
        results = results_of(episode.world)
        reward = self._reward(results)
        return episode.seen[0], reward, False, episode.over, told(results[0])

    @abstractmethod
    def _adapter_of(self, world: World) -> PolicyAdapter[S]:
        """Where the policy sits."""

    @abstractmethod
    def _begin(self, world: World) -> None:
        """Forget the last episode."""

    def _after_tick(self, episode: Episode[S]) -> None:
        """Note what the reward needs of each tick."""

    @abstractmethod
    def _reward(self, results: list[Result]) -> float:
        """Of the ticks since the last decision; `results` are those of the episode so far."""

    def _world(self, scenario: Scenario, world_seed: int) -> World:
        return World(self._cluster, scenario, [world_seed] * self._copies, self._population)

    def _draw(self, options: dict[str, Any]) -> tuple[Scenario, int]:
        place = int(self.np_random.integers(len(self._scenarios)))
        drawn = int(self.np_random.integers(*SEEDS))
        by_name = {scenario.name: scenario for scenario in self._scenarios}
        name = options.get("scenario", self._scenarios[place].name)
        if name not in by_name:
            raise InputError(f"scenario: {name}: expected one of {', '.join(by_name)}")
        return by_name[name], int(options.get("world_seed", drawn))

    def _running(self) -> Episode[S]:
        if self._episode is None or self._episode.over:
            raise ResetNeeded("reset() begins an episode; the last one is over or there was none")
        return self._episode


def results_of(world: World) -> list[Result]:
    """The one definition of J and its parts, of the episode so far; [E]."""
    nothing = np.zeros(world.environments, np.int64)
    return summarise(world, NONE, Decisions(missing_data_decreases=nothing))


def told(result: Result) -> dict[str, Any]:
    """What `info` tells: J of the episode so far, and its parts."""
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
    """Those to tune on, where none are given: the benchmark's are for judging."""
    if scenarios is None:
        return tuning_scenarios(cluster)
    if not scenarios:
        raise InputError("scenarios: expected at least one")
    return tuple(
        one if isinstance(one, Scenario) else load_scenario(one, cluster) for one in scenarios
    )
