"""The breakers in a measured or a training run."""

from typing import Any, TypeVar

import numpy as np

from models.cluster.arrays import I32
from models.cluster.observation import Observation
from models.cluster.plan import Plan
from models.control.breaker.guard import Basis, Guard, GuardState
from models.control.breaker.limits import Thresholds
from models.control.controller import Guarded
from models.control.projection import RESOURCES
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
        self._may_hold = np.zeros((0, RESOURCES, 0))
        if self._controller is not None:
            self._guard = Guard(world.inventory, limits)
            self.state = self._guard.start(first)

    def limit(self, tick: I32, state: S) -> S:
        """The controller's state for the next tick: at the levels of the last one."""
        if self._controller is None or self.state is None:
            return state
        # Now, because the step may decide on the next budget, which binds later ticks only.
        self._may_hold = self._controller.may_hold(tick, state)
        limited: S = self._controller.at_level(self.state.fallback.level, state)
        return limited

    def cut(
        self, observation: Observation, forecast: Forecast | None, plan: Plan, state: Any
    ) -> None:
        """Hold in place what the breakers do not let pass; `state` is the controller's."""
        if self._controller is None or self._guard is None or self.state is None:
            return
        basis = Basis(self._may_hold, self._controller.load(state))
        self.state = self._guard.step(observation, forecast, basis, plan, self.state)


def _guarded(controller: object) -> Guarded | None:
    return controller if isinstance(controller, Guarded) and controller.guarded else None
