"""The breakers in a measured or a training run."""

from typing import Any

from models.cluster.observation import Observation
from models.cluster.plan import Plan
from models.control.breaker.guard import Guard, GuardState
from models.control.controller import Guarded
from models.sim.apps import declare
from models.sim.world import World


class Breakers:
    """Cuts the plans of a controller of ours as breaker and actuator would; baselines have none."""

    def __init__(self, world: World, controller: object, first: Observation) -> None:
        self._controller = _guarded(controller)
        self._guard: Guard | None = None
        self.state: GuardState | None = None
        """None for a controller without breakers."""
        if self._controller is not None:
            self._guard = Guard(declare(world.population, world.cluster))
            self.state = self._guard.start(first)

    def cut(self, observation: Observation, plan: Plan, state: Any) -> None:
        """Hold in place what the breakers do not let pass; `state` is the controller's."""
        if self._controller is None or self._guard is None or self.state is None:
            return
        budget = self._controller.budget(state)
        self.state = self._guard.step(observation, budget, plan, self.state)


def _guarded(controller: object) -> Guarded | None:
    return controller if isinstance(controller, Guarded) and controller.guarded else None
