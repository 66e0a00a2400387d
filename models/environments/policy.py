"""The interface between a policy and a controller: observations in, actions out.

Environments, which train a policy, and entrants, which measure it, share these
adapters, so that observations and actions are implemented once.
"""

from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from models.cluster.arrays import F32, F64
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan
from models.forecaster.port import Forecast

S = TypeVar("S")


class Policy(Protocol):
    """Maps one observation to one action, as the models of Stable-Baselines3 do."""

    def predict(self, observation: Any, /, *, deterministic: bool) -> tuple[Any, Any]:
        """The action, and a recurrent state that is not used here."""
        ...


class Limits(NamedTuple):
    """Range of each number of an observation."""

    low: F32
    high: F32


class PolicyAdapter(Protocol[S]):
    """A controller that a policy steers. E environments."""

    name: str
    pipeline: Pipeline
    limits: Limits
    actions: int
    """Length of an action; its numbers are from -1 to 1."""
    every: int
    """Ticks from one decision to the next, from tick 0 on."""

    def start(self, observation: Observation) -> S:
        """The state before the first tick."""
        ...

    def observe(self, observation: Observation, state: S) -> tuple[F32, S]:
        """[E, numbers] the policy's observation, computed again when a decision is due.

        Call it once per tick, because the memory has to age; valid until the next call.
        """
        ...

    def act(
        self, observation: Observation, forecast: Forecast | None, state: S, action: F32 | None
    ) -> tuple[Plan, S]:
        """The plan of a tick under the current action [E, actions]; None without a policy."""
        ...


def is_due(tick: int, every: int) -> bool:
    """Whether the policy decides in this tick."""
    return tick % every == 0


def bounded(action: F32) -> F64:
    """The action clipped to -1 to 1; NaN becomes 0, so that a broken policy changes nothing."""
    return np.clip(np.nan_to_num(np.asarray(action, np.float64)), -1.0, 1.0)


def factors(action: F32, span: float) -> F64:
    """Factors: 1 for 0, `span` for 1 and its inverse for -1."""
    # A power, so that opposite actions cancel out and zero gives exactly 1.
    return np.float64(span) ** bounded(action)
