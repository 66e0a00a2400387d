"""How much work each app has, in pods that would be fully used by it.

CPU shows demand only while there is room: an app at its limit burns the same for twice the
requests. So each app's work per request is learned while there is room, and what arrives is
multiplied with it when there is none.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, I32
from models.cluster.inventory import Inventory
from models.cluster.observation import CPU_REQUEST, READY, Observation
from models.control.parameters import Parameters, Parts
from models.features.encode import Encoder
from models.features.memory import FeatureState
from models.features.normalise import Features, by_feature
from models.features.table import APP
from models.jit import kernel

_RPS, _ERRORS = APP.at("rps"), APP.at("errors")
_SATURATION, _MISSING = APP.at("saturation"), APP.at("missing")

_ROOM: Final = np.float32(0.92)
"""Above this utilisation the CPU no longer tells what was asked for."""
_CLEAN: Final = np.float32(0.02)
"""Above this share of errors, neither."""
_LEARNING_S: Final = 100.0
"""Time in which an app's work per request is learned."""
_RISE_S: Final = 1500.0
"""Time in which a surge becomes usual."""
_FALL_S: Final = 300.0
_JUMP: Final = np.float32(0.15)
"""Changes beyond this share are no noise and pass unfiltered."""
_LEAST_RPS: Final = np.float32(1e-3)
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


class Demand(NamedTuple):
    """E environments, A apps. Loads are in pods of the app's present size, fully used."""

    load: F32
    """[E, A] what the traffic asks for."""
    usual: F32
    """[E, A] its slow mean: what is above it is a surge."""
    cost: F32
    """[E, A] load per request a second, learned."""
    size: I32
    """[E, A] millicores per pod at which the others were measured."""


class Gains(NamedTuple):
    """Weight of one tick in each of the means."""

    load: np.float32
    learning: np.float32
    rise: np.float32
    fall: np.float32


def start_demand(observation: Observation) -> Demand:
    """Nothing is known yet."""
    nothing = np.zeros(observation.missing.shape, np.float32)
    size = observation.status[:, CPU_REQUEST].copy()
    return Demand(nothing, nothing.copy(), nothing.copy(), size)


def gains(smoothing: float, tick_s: int) -> Gains:
    """The time constants in ticks."""
    return Gains(
        np.float32(smoothing),
        np.float32(min(1.0, tick_s / _LEARNING_S)),
        np.float32(min(1.0, tick_s / _RISE_S)),
        np.float32(min(1.0, tick_s / _FALL_S)),
    )


@kernel
def update_demand(demand: Demand, seen: F32, status: I32, gain: Gains) -> None:
    """Take in the features [E, APP, A] of a tick."""
    for e in range(seen.shape[0]):
        _rescale(
            demand.load[e], demand.usual[e], demand.cost[e], status[e, CPU_REQUEST], demand.size[e]
        )
        _estimate(seen[e], status[e, READY], demand.cost[e], demand.load[e], gain)
        _follow(demand.load[e], demand.usual[e], gain)


@kernel
def _rescale(load: F32, usual: F32, cost: F32, request: I32, size: I32) -> None:
    """A resized pod does another share of the work."""
    for app in range(size.size):
        if request[app] != size[app] and request[app] > 0:
            factor = np.float32(size[app]) / np.float32(request[app])
            load[app] *= factor
            usual[app] *= factor
            cost[app] *= factor
            size[app] = request[app]


@kernel
def _estimate(seen: F32, ready: I32, cost: F32, load: F32, gain: Gains) -> None:
    """Without a valid sample an app keeps its load; with one, more is believed before less."""
    rps, errors, saturation, missing = seen[_RPS], seen[_ERRORS], seen[_SATURATION], seen[_MISSING]
    for app in range(load.size):
        used = saturation[app] * np.float32(ready[app])
        now = used / max(rps[app], _LEAST_RPS)
        valid = missing[app] == _ZERO
        clear = (saturation[app] < _ROOM) & (errors[app] < _CLEAN) & (rps[app] > _LEAST_RPS)
        learned = cost[app] + gain.learning * (now - cost[app]) if cost[app] > _ZERO else now
        strained = max(cost[app], now if saturation[app] >= _ROOM else _ZERO)
        value = learned if clear else strained
        cost[app] = value if valid else cost[app]
        change = max(used, rps[app] * cost[app]) - load[app]
        step = gain.load if abs(change) < _JUMP * load[app] else _ONE
        load[app] = load[app] + step * change if valid else load[app]


@kernel
def _follow(load: F32, usual: F32, gain: Gains) -> None:
    """Let the usual load follow: slowly up, since a surge is not usual, and faster down."""
    for app in range(load.size):
        change = load[app] - usual[app]
        step = gain.rise if change > _ZERO else gain.fall
        usual[app] = usual[app] + step * change if usual[app] > _ZERO else load[app]


class EstimatorState(NamedTuple):
    """What is remembered of earlier ticks, updated in place."""

    features: FeatureState
    demand: Demand


class AppSignals(NamedTuple):
    """E environments, A apps. Valid until the next step."""

    features: F32
    """[E, APP, A]."""
    load: F32
    """[E, A] what the traffic asks for, in pods of the app's present size, fully used."""
    usual: F32
    """[E, A] its slow mean."""


class DemandEstimator:
    """Each app by itself: what is sensed of one depends on no other."""

    def __init__(self, inventory: Inventory, parameters: Parameters, parts: Parts) -> None:
        self._encoder = Encoder(inventory)
        self._gains = gains(parameters.smoothing if parts.damping else 1.0, inventory.tick_s)

    def start(self, observation: Observation) -> EstimatorState:
        """A memory that has seen nothing but the sizes of the pods."""
        return EstimatorState(self._encoder.start(observation), start_demand(observation))

    def step(
        self, observation: Observation, state: EstimatorState
    ) -> tuple[AppSignals, EstimatorState]:
        """Take in an observation."""
        apps, features = self._encoder.encode_apps(observation, state.features)
        return self._sensed(apps, observation, EstimatorState(features, state.demand))

    def survey(
        self, observation: Observation, state: EstimatorState
    ) -> tuple[AppSignals, Features, EstimatorState]:
        """The same, with the features of groups, domains, pools and the cluster beside it."""
        features, memory = self._encoder.encode(observation, state.features)
        sensed, after = self._sensed(
            features.app, observation, EstimatorState(memory, state.demand)
        )
        return sensed, features, after

    def _sensed(
        self, apps: F32, observation: Observation, state: EstimatorState
    ) -> tuple[AppSignals, EstimatorState]:
        seen, demand = by_feature(apps), state.demand
        update_demand(demand, seen, observation.status, self._gains)
        return AppSignals(seen, demand.load, demand.usual), state
