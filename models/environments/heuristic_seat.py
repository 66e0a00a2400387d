"""What the seats on the heuristic have in common: its state, and features of their own."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from models.cluster.arrays import F32, I32
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan
from models.compare.ablation import NAME, heuristic_of
from models.control.hierarchy import HeuristicState
from models.control.parameters import Parameters
from models.control.residual import Residual
from models.control.tuned import tuned
from models.environments.seat import Limits, is_due
from models.features.encode import Encoder
from models.features.memory import FeatureState
from models.features.normalise import Features, normalise
from models.features.table import Feature
from models.forecaster.port import Forecast
from models.sim.apps import declare
from models.sim.world import World


class SeatState(NamedTuple):
    """The heuristic's memory and the policy's own."""

    heuristic: HeuristicState
    features: FeatureState


class HeuristicSeat(ABC):
    """The tuned heuristic, of which a policy changes what it works out by factors."""

    name: str
    pipeline = Pipeline.OURS
    limits: Limits
    actions: int
    every: int

    def __init__(self, world: World) -> None:
        self.inventory = declare(world.population, world.cluster)
        self._heuristic = heuristic_of(world, Parameters(**tuned(NAME)))
        self._encoder = Encoder(self.inventory)
        self._seen = np.zeros((0, 0), np.float32)

    def start(self, observation: Observation) -> SeatState:
        """Nothing has been seen."""
        return SeatState(self._heuristic.start(observation), self._encoder.start(observation))

    def look(self, observation: Observation, state: SeatState) -> tuple[F32, SeatState]:
        """Normalised features, of the things that this policy decides about."""
        if is_due(int(observation.tick[0]), self.every):
            features, memory = self._encoder.encode(observation, state.features)
            self._seen = self._select(normalise(features))
        else:
            _, memory = self._encoder.encode_apps(observation, state.features)
        return self._seen, state._replace(features=memory)

    def act(
        self,
        observation: Observation,
        forecast: Forecast | None,
        state: SeatState,
        action: F32 | None,
    ) -> tuple[Plan, SeatState]:
        """The heuristic's plan with the policy's residual."""
        residual = None if action is None else self._residual(action, observation)
        plan, heuristic = self._heuristic.step(observation, forecast, state.heuristic, residual)
        return plan, state._replace(heuristic=heuristic)

    def overruns(self, state: SeatState) -> I32:
        """[E] increases beyond a budget so far: a policy cannot cause any."""
        return self._heuristic.overruns(state.heuristic)

    @abstractmethod
    def _select(self, features: Features) -> F32:
        """[E, numbers] what the policy sees of the normalised features."""

    @abstractmethod
    def _residual(self, action: F32, observation: Observation) -> Residual:
        """What the action [E, actions] means."""


def limits_of(columns: Iterable[Feature]) -> Limits:
    """Ranges as the table declares them: that is where normalised features are cut."""
    declared = tuple(columns)
    return Limits(
        np.array([feature.low for feature in declared], np.float32),
        np.array([feature.high for feature in declared], np.float32),
    )
