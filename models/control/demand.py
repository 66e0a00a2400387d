"""How much work each app has, in pods that this work would use fully.

CPU shows demand only while there is room: an app at its limit uses the same CPU for twice the
requests. So each app's work per request is learned while there is room, and multiplied by the
arriving requests when there is none.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, I32
from models.cluster.inventory import Inventory
from models.cluster.observation import Observation
from models.control.parameters import Parameters, Parts
from models.features.encode import Encoder
from models.features.memory import FeatureState
from models.features.normalise import Features, by_feature
from models.features.table import APP
from models.jit import kernel

_RPS, _ERRORS = APP.at("rps"), APP.at("errors")
_SATURATION, _MISSING = APP.at("saturation"), APP.at("missing")

_ROOM: Final = np.float32(0.92)
"""Utilisation above which CPU no longer shows demand."""
_CLEAN: Final = np.float32(0.02)
"""Share of errors above which CPU no longer shows demand: failed requests cost less work."""
_LEARNING_S: Final = 100.0
"""Time constant of the work per request."""
_RISE_S: Final = 1500.0
"""Time in which a surge becomes usual."""
_FALL_S: Final = 300.0
"""Time in which the usual load follows a decrease."""
_JUMP: Final = np.float32(0.15)
"""Relative change beyond which a sample is no noise and passes unfiltered."""
_LEAST_RPS: Final = np.float32(1e-3)
# A plain 0.0 in a kernel would turn the float32 arithmetic around it into float64.
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


class Demand(NamedTuple):
    """E environments, A apps. Loads are in pods of the app's present size, fully used."""

    load: F32
    """[E, A] what the traffic asks for."""
    usual: F32
    """[E, A] its slow mean; load above it is a surge."""
    cost: F32
    """[E, A] load per request a second, learned."""
    size: I32
    """[E, A] millicores per pod for which the other fields hold."""


class Gains(NamedTuple):
    """Weight of one tick in each of the means."""

    load: np.float32
    learning: np.float32
    rise: np.float32
    fall: np.float32


class EstimatorState(NamedTuple):
    """What the estimator remembers of earlier ticks, updated in place."""

    features: FeatureState
    demand: Demand


class AppSignals(NamedTuple):
    """What the Soldiers know about the apps at a tick. E environments, A apps.

    Valid until the next step.
    """

    features: F32
    """[E, APP, A]."""
    load: F32
    """[E, A] what the traffic asks for, in pods of the app's present size, fully used."""
    usual: F32
    """[E, A] its slow mean."""


class DemandEstimator:
    """Features and load of each app; the signals of one app depend on no other app."""

    def __init__(self, inventory: Inventory, parameters: Parameters, parts: Parts) -> None:
        self._encoder = Encoder(inventory)
        self._gains = gains(parameters.smoothing if parts.damping else 1.0, inventory.tick_s)

    def start(self, observation: Observation) -> EstimatorState:
        """The state before the first observation; it knows the sizes of the pods only."""
        return EstimatorState(self._encoder.start(observation), start_demand(observation))

    def step(
        self, observation: Observation, state: EstimatorState
    ) -> tuple[AppSignals, EstimatorState]:
        """Signals of an observation."""
        apps, features = self._encoder.encode_apps(observation, state.features)
        return self._signals(apps, observation, EstimatorState(features, state.demand))

    def step_with_features(
        self, observation: Observation, state: EstimatorState
    ) -> tuple[AppSignals, Features, EstimatorState]:
        """The same, and the features of groups, domains, pools and the cluster."""
        features, memory = self._encoder.encode(observation, state.features)
        after = EstimatorState(memory, state.demand)
        signals, after = self._signals(features.app, observation, after)
        return signals, features, after

    def _signals(
        self, apps: F32, observation: Observation, state: EstimatorState
    ) -> tuple[AppSignals, EstimatorState]:
        features, demand = by_feature(apps), state.demand
        update_demand(demand, features, observation.status, self._gains)
        return AppSignals(features, demand.load, demand.usual), state


def start_demand(observation: Observation) -> Demand:
    """No load known yet."""
    nothing = np.zeros(observation.missing.shape, np.float32)
    size = observation.status[:, rows.CPU_REQUEST].copy()
    return Demand(nothing, nothing.copy(), nothing.copy(), size)


def gains(smoothing: float, tick_s: int) -> Gains:
    """The weights that belong to the time constants."""
    return Gains(
        np.float32(smoothing),
        np.float32(min(1.0, tick_s / _LEARNING_S)),
        np.float32(min(1.0, tick_s / _RISE_S)),
        np.float32(min(1.0, tick_s / _FALL_S)),
    )


@kernel
def update_demand(demand: Demand, features: F32, status: I32, gain: Gains) -> None:
    """Take in the features [E, APP, A] and status [E, STATUS, A] of a tick."""
    for e in range(features.shape[0]):
        # Before anything is compared: the old values are in pods of the old size.
        _rescale(
            demand.load[e],
            demand.usual[e],
            demand.cost[e],
            status[e, rows.CPU_REQUEST],
            demand.size[e],
        )
        _estimate(features[e], status[e, rows.READY], demand.cost[e], demand.load[e], gain)
        _follow(demand.load[e], demand.usual[e], gain)


@kernel
def _rescale(load: F32, usual: F32, cost: F32, request: I32, size: I32) -> None:
    """Convert the loads of an app whose pods were resized: each pod does another share."""
    for app in range(size.size):
        if request[app] != size[app] and request[app] > 0:
            factor = np.float32(size[app]) / np.float32(request[app])
            load[app] *= factor
            usual[app] *= factor
            cost[app] *= factor
            size[app] = request[app]


@kernel
def _estimate(features: F32, ready: I32, cost: F32, load: F32, gain: Gains) -> None:
    """Update load and cost. An app without a valid sample keeps both.

    Of the two estimates, CPU used and requests x cost, the larger one counts: doubt resolves to
    more pods.
    """
    rps, errors = features[_RPS], features[_ERRORS]
    saturation, missing = features[_SATURATION], features[_MISSING]
    for app in range(load.size):
        used = saturation[app] * np.float32(ready[app])
        now = used / max(rps[app], _LEAST_RPS)
        # Values are chosen, not branches: LLVM does not vectorise a conditional store.
        valid = missing[app] == _ZERO
        clear = (saturation[app] < _ROOM) & (errors[app] < _CLEAN) & (rps[app] > _LEAST_RPS)
        learned = cost[app] + gain.learning * (now - cost[app]) if cost[app] > _ZERO else now
        # A full app that costs more than ever learned is believed: its requests became heavier.
        strained = max(cost[app], now if saturation[app] >= _ROOM else _ZERO)
        value = learned if clear else strained
        cost[app] = value if valid else cost[app]
        # With the new cost: what was learned in this tick counts at once.
        change = max(used, rps[app] * cost[app]) - load[app]
        # A filter would delay the answer to a surge by the ticks that hurt most.
        step = gain.load if abs(change) < _JUMP * load[app] else _ONE
        load[app] = load[app] + step * change if valid else load[app]


@kernel
def _follow(load: F32, usual: F32, gain: Gains) -> None:
    """Let the usual load follow: slowly up, because a surge is not usual, and faster down."""
    for app in range(load.size):
        change = load[app] - usual[app]
        step = gain.rise if change > _ZERO else gain.fall
        # The first load is usual at once: a mean that starts at zero would call all of it a surge.
        usual[app] = usual[app] + step * change if usual[app] > _ZERO else load[app]
