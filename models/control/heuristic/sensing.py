"""What is sensed of the apps in a tick: their features, and the load behind them."""

from typing import NamedTuple

from models.cluster.arrays import F32
from models.cluster.inventory import Inventory
from models.cluster.observation import Observation
from models.control.heuristic.demand import Demand, gains, start_demand, update_demand
from models.control.heuristic.parameters import Parameters, Parts
from models.features.encode import Encoder
from models.features.memory import FeatureState
from models.features.normalise import Features, by_feature


class SensingState(NamedTuple):
    """What is remembered of earlier ticks, updated in place."""

    features: FeatureState
    demand: Demand


class Sensed(NamedTuple):
    """E environments, A apps. Valid until the next step."""

    seen: F32
    """[E, APP, A] features."""
    load: F32
    """[E, A] what the traffic asks for, in pods of the app's present size, fully used."""
    usual: F32
    """[E, A] its slow mean."""


class Sensing:
    """Each app by itself: what is sensed of one depends on no other."""

    def __init__(self, inventory: Inventory, parameters: Parameters, parts: Parts) -> None:
        self._encoder = Encoder(inventory)
        self._gains = gains(parameters.smoothing if parts.damping else 1.0, inventory.tick_s)

    def start(self, observation: Observation) -> SensingState:
        """A memory that has seen nothing but the sizes of the pods."""
        return SensingState(self._encoder.start(observation), start_demand(observation))

    def step(self, observation: Observation, state: SensingState) -> tuple[Sensed, SensingState]:
        """Take in an observation."""
        apps, features = self._encoder.encode_apps(observation, state.features)
        return self._sensed(apps, observation, SensingState(features, state.demand))

    def survey(
        self, observation: Observation, state: SensingState
    ) -> tuple[Sensed, Features, SensingState]:
        """The same, with the features of groups, domains, pools and the cluster beside it."""
        features, memory = self._encoder.encode(observation, state.features)
        sensed, after = self._sensed(features.app, observation, SensingState(memory, state.demand))
        return sensed, features, after

    def _sensed(
        self, apps: F32, observation: Observation, state: SensingState
    ) -> tuple[Sensed, SensingState]:
        seen, demand = by_feature(apps), state.demand
        update_demand(demand, seen, observation.status, self._gains)
        return Sensed(seen, demand.load, demand.usual), state
