"""A scenario under a seat, tick by tick, with the decisions coming from outside."""

from typing import Any, Generic, TypeVar

from models.cluster.arrays import F32
from models.environments.seat import Seat, is_due
from models.forecaster.port import Forecaster
from models.sim.world import World

S = TypeVar("S")


class Episode(Generic[S]):
    """Drives the world as `models.compare.run` does, one tick per call; the warm-up at once."""

    seen: F32
    """[E, numbers] what the policy sees now."""

    def __init__(self, world: World, seat: Seat[S], forecaster: Forecaster[Any] | None) -> None:
        self.world, self.seat = world, seat
        self._forecaster = forecaster
        first = world.observe(seat.pipeline)
        self._state = seat.start(first)
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
        return is_due(self.world.tick, self.seat.every)

    def tick(self, action: F32 | None) -> None:
        """Advance under the action [E, actions] in force, and look."""
        observation, forecast = self._observation, None
        if self._forecaster is not None:
            forecast, self._foreseen = self._forecaster.step(observation, self._foreseen)
        plan, self._state = self.seat.act(observation, forecast, self._state, action)
        self.world.step(plan)
        self._look()

    def _look(self) -> None:
        self._observation = self.world.observe(self.seat.pipeline)
        self.seen, self._state = self.seat.look(self._observation, self._state)
