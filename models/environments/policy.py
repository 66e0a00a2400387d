"""A seat: the place in a controller where a policy sits, what it sees there and what it moves.

Environments, which train, and entrants, which are measured, drive the same seats: there is no
second implementation of an observation or an action.
"""

from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from models.cluster.arrays import F32, F64
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan
from models.forecaster.port import Forecast

S = TypeVar("S")


class Policy(Protocol):
    """Whatever answers one observation with one action, as Stable-Baselines3's models do."""

    def predict(self, observation: Any, /, *, deterministic: bool) -> tuple[Any, Any]:
        """The action, and a memory that is not used here."""
        ...


class Limits(NamedTuple):
    """Range of each number that a policy sees."""

    low: F32
    high: F32


class PolicyAdapter(Protocol[S]):
    """A controller with a place for a policy. E environments."""

    name: str
    pipeline: Pipeline
    limits: Limits
    actions: int
    """Numbers from -1 to 1 that a policy answers with."""
    every: int
    """Ticks from one decision to the next; they begin at tick 0."""

    def start(self, observation: Observation) -> S:
        """The state before the first tick."""
        ...

    def look(self, observation: Observation, state: S) -> tuple[F32, S]:
        """[E, numbers] what a policy sees, made anew in the ticks in which it decides.

        Called once in every tick, because memories age; valid until the next call.
        """
        ...

    def act(
        self, observation: Observation, forecast: Forecast | None, state: S, action: F32 | None
    ) -> tuple[Plan, S]:
        """The plan of a tick under the action [E, actions] in force; None: nobody sits there."""
        ...


def is_due(tick: int, every: int) -> bool:
    """Whether the policy decides in this tick."""
    return tick % every == 0


def bounded(action: F32) -> F64:
    """The action from -1 to 1; what is no number is 0: a broken policy changes nothing."""
    return np.clip(np.nan_to_num(np.asarray(action, np.float64)), -1.0, 1.0)


def factors(action: F32, span: float) -> F64:
    """1 for 0, `span` for 1 and its inverse for -1."""
    return np.float64(span) ** bounded(action)
