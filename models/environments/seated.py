"""A policy in its seat is a controller like any other."""

from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from models.cluster.arrays import F32, I32
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan
from models.environments.heuristic_seat import HeuristicSeat, SeatState
from models.environments.seat import Policy, Seat, is_due
from models.forecaster.port import Forecast

S = TypeVar("S")


class SeatedState(NamedTuple):
    """The seat's state and the action in force."""

    seat: Any
    action: F32 | None
    """[E, actions]; None before the first decision."""


class Seated(Generic[S]):
    """Asks the policy when a decision is due, environment by environment.

    One observation at a time is what it was trained with, and makes an environment's decisions
    independent of those beside it, to the last bit.
    """

    def __init__(self, seat: Seat[S], policy: Policy, first_tick: int) -> None:
        self.name: str = seat.name
        self.pipeline: Pipeline = seat.pipeline
        self._seat, self._policy, self._first_tick = seat, policy, first_tick

    def start(self, observation: Observation) -> SeatedState:
        """Nobody has decided yet."""
        return SeatedState(self._seat.start(observation), None)

    def step(
        self, observation: Observation, forecast: Forecast | None, state: SeatedState
    ) -> tuple[Plan, SeatedState]:
        """The seat's plan under the last action; before `first_tick` nobody sits there."""
        seen, inner = self._seat.look(observation, state.seat)
        tick, action = int(observation.tick[0]), state.action
        if tick >= self._first_tick and is_due(tick, self._seat.every):
            action = np.stack([self._ask(row) for row in seen])
        plan, inner = self._seat.act(observation, forecast, inner, action)
        return plan, SeatedState(inner, action)

    def _ask(self, seen: F32) -> F32:
        action, _ = self._policy.predict(seen.copy(), deterministic=True)
        return np.asarray(action, np.float32).reshape(self._seat.actions)


class SeatedUnderBudgets(Seated[SeatState]):
    """The same on the heuristic, which counts increases beyond its budgets."""

    def __init__(self, seat: HeuristicSeat, policy: Policy, first_tick: int) -> None:
        super().__init__(seat, policy, first_tick)
        self._budgeted = seat

    def overruns(self, state: SeatedState) -> I32:
        """[E] so far."""
        return self._budgeted.overruns(state.seat)
