"""Policies as controllers: one line enters a policy in the benchmark.

In your own module, write `mine = commander_entrant(PPO.load("mine.zip"))`, then run
`hirl bench control --controllers hpa,my_module:mine`. The policy takes over after the warm-up, as
in training.
"""

from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from models.cluster.arrays import F32, F64, I8, I32
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan
from models.compare.catalogue import Entrant
from models.compare.families import HEURISTIC, family_of
from models.environments.app_adapter import AppAdapter, AppAdapterState
from models.environments.heuristic_adapters import (
    CommanderAdapter,
    HeuristicAdapter,
    HeuristicAdapterState,
    SoldierAdapter,
)
from models.environments.policy import Policy, PolicyAdapter, is_due
from models.forecaster.port import Forecast
from models.forecaster.simulated.catalogue import forecaster_of
from models.sim.world import World

S = TypeVar("S")


class PolicyControllerState(NamedTuple):
    """The adapter's state and the current action."""

    adapter: Any
    action: F32 | None
    """[E, actions]; None before the first decision."""


class PolicyController(Generic[S]):
    """Calls the policy when a decision is due, environment by environment.

    Policies are trained on one observation at a time. A batch could change an environment's
    decisions in the last bit, depending on the environments beside it.
    """

    def __init__(self, adapter: PolicyAdapter[S], policy: Policy, first_tick: int) -> None:
        self.name: str = adapter.name
        self.pipeline: Pipeline = adapter.pipeline
        self._adapter, self._policy, self._first_tick = adapter, policy, first_tick

    def start(self, observation: Observation) -> PolicyControllerState:
        """Initial state, without an action."""
        return PolicyControllerState(self._adapter.start(observation), None)

    def step(
        self, observation: Observation, forecast: Forecast | None, state: PolicyControllerState
    ) -> tuple[Plan, PolicyControllerState]:
        """The plan under the last action; before `first_tick` without the policy."""
        observed, inner = self._adapter.observe(observation, state.adapter)
        tick, action = int(observation.tick[0]), state.action
        # Environments share their tick, so the first stands for all.
        if tick >= self._first_tick and is_due(tick, self._adapter.every):
            action = np.stack([self._predict(row) for row in observed])
        plan, inner = self._adapter.act(observation, forecast, inner, action)
        return plan, PolicyControllerState(inner, action)

    def _predict(self, observed: F32) -> F32:
        # A copy, so that a policy may keep or change what it is given.
        action, _ = self._policy.predict(observed.copy(), deterministic=True)
        return np.asarray(action, np.float32).reshape(self._adapter.actions)


class BudgetedPolicyController(PolicyController[HeuristicAdapterState]):
    """A policy on the heuristic, which counts increases beyond its budgets."""

    def __init__(self, adapter: HeuristicAdapter, policy: Policy, first_tick: int) -> None:
        super().__init__(adapter, policy, first_tick)
        self._budgeted = adapter
        self.guarded = adapter.guarded

    def may_hold(self, tick: I32, state: PolicyControllerState) -> F64:
        """[E, 2, D] under the budgets in force."""
        return self._budgeted.may_hold(tick, state.adapter)

    def load(self, state: PolicyControllerState) -> F32:
        """[E, A] as the heuristic saw it."""
        return self._budgeted.load(state.adapter)

    def at_level(self, level: I8, state: PolicyControllerState) -> PolicyControllerState:
        """From HEURISTIC on the policy's actions change nothing."""
        return state._replace(adapter=self._budgeted.at_level(level, state.adapter))

    def overruns(self, state: PolicyControllerState) -> I32:
        """[E] so far."""
        return self._budgeted.overruns(state.adapter)


def commander_entrant(policy: Policy, forecast: str = "calendar") -> Entrant:
    """A policy that was trained in a CommanderEnv with that forecaster."""
    scheduling = family_of(HEURISTIC).scheduling
    return Entrant(partial(_commander, policy), forecaster_of(forecast), scheduling)


def soldier_entrant(policy: Policy, domain: str, forecast: str = "calendar") -> Entrant:
    """A policy that was trained in a SoldierEnv of that domain."""
    scheduling = family_of(HEURISTIC).scheduling
    return Entrant(partial(_soldier, policy, domain), forecaster_of(forecast), scheduling)


def app_entrant(policy: Policy, app: int) -> Entrant:
    """A policy that was trained in an AppEnv of that app; the other apps run HPA."""
    return Entrant(partial(_app, policy, app))


def _commander(policy: Policy, world: World) -> BudgetedPolicyController:
    return BudgetedPolicyController(CommanderAdapter(world), policy, world.timeline.warmup_ticks)


def _soldier(policy: Policy, domain: str, world: World) -> BudgetedPolicyController:
    return BudgetedPolicyController(
        SoldierAdapter(world, domain), policy, world.timeline.warmup_ticks
    )


def _app(policy: Policy, app: int, world: World) -> PolicyController[AppAdapterState]:
    return PolicyController(AppAdapter(world, app), policy, world.timeline.warmup_ticks)
