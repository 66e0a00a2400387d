"""The breakers in a measured or a training run."""

from typing import Any, TypeVar

from models.cluster.observation import Observation
from models.cluster.plan import Plan
from models.control.breaker.guard import Guard, GuardState
from models.control.breaker.limits import Thresholds
from models.control.controller import Guarded
from models.forecaster.port import Forecast
from models.sim.world import World

S = TypeVar("S")


class Breakers:
    """What breaker and actuator do to a controller of ours: limit what it uses, cut its plans.

    Baselines have none.
    """

    def __init__(
        self,
        world: World,
        controller: object,
        first: Observation,
        limits: Thresholds | None = None,
    ) -> None:
        self._controller = _guarded(controller)
        self._guard: Guard | None = None
        self.state: GuardState | None = None
        """None for a controller without breakers."""
        if self._controller is not None:
            self._guard = Guard(world.inventory, limits)
            self.state = self._guard.start(first)

    def limit(self, state: S) -> S:
        """The controller's state for the next tick: at the levels of the last one."""
        if self._controller is None or self.state is None:
            return state
        limited: S = self._controller.at_level(self.state.fallback.level, state)
        return limited

    def cut(
        self, observation: Observation, forecast: Forecast | None, plan: Plan, state: Any
    ) -> None:
        """Hold in place what the breakers do not let pass; `state` is the controller's."""
        if self._controller is None or self._guard is None or self.state is None:
            return
        budget = self._controller.budget(state)
        self.state = self._guard.step(observation, forecast, budget, plan, self.state)


def _guarded(controller: object) -> Guarded | None:
    return controller if isinstance(controller, Guarded) and controller.guarded else None
