"""The interface of every controller: observation and forecast in, plan and next state out."""

from typing import Any, Protocol, TypeVar, runtime_checkable

from models.cluster.arrays import F32, F64, I8, I32
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan
from models.forecaster.port import Forecast

S = TypeVar("S")


class Controller(Protocol[S]):
    """A controller gets observations only, never the true state of a simulated world."""

    name: str
    pipeline: Pipeline

    def start(self, observation: Observation) -> S:
        """The state before the first step."""
        ...

    def step(self, observation: Observation, forecast: Forecast | None, state: S) -> tuple[Plan, S]:
        """Decide one tick for every environment; the plan is valid until the next step."""
        ...


@runtime_checkable
class Guarded(Protocol):
    """A controller of ours: breakers cut its plans before they are applied."""

    guarded: bool
    """False where an ablation leaves the breakers out."""

    def may_hold(self, tick: I32, state: Any) -> F64:
        """[E, 2, D] millicores and MiB under the budgets that bind the next step."""
        ...

    def load(self, state: Any) -> F32:
        """[E, A] pods that each app's traffic would use fully, as the last step saw it."""
        ...

    def at_level(self, level: I8, state: Any) -> Any:
        """A state whose next step uses at most what the levels [E, D] allow."""
        ...


@runtime_checkable
class CountsOverruns(Protocol):
    """A controller that works under budgets and counts its increases beyond them."""

    def overruns(self, state: Any) -> I32:
        """[E] so far; 0 unless a rule is broken."""
        ...


@runtime_checkable
class Insures(Protocol):
    """A controller that keeps nodes for the loss of a zone."""

    def insured(self, state: Any) -> I32:
        """[E, P] nodes of the present ones that would not be kept without insurance."""
        ...
