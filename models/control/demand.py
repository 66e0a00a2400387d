"""How much work each app has, in pods that this work would use fully.

CPU shows demand only while there is room: an app at its limit uses the same CPU for twice the
requests. So each app's work per request is learned while there is room (models/features), and
multiplied by the arriving requests when there is none.
"""

import math
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

_RPS, _MISSING = APP.at("rps"), APP.at("missing")
_SATURATION, _FULL_AT = APP.at("saturation"), APP.at("full_at")

_RISE_S: Final = 1500.0
"""Time in which a surge becomes usual."""
_FALL_S: Final = 300.0
"""Time in which the usual load follows a decrease."""
_JUMP: Final = np.float32(0.15)
"""Relative change beyond which a sample is no noise and passes unfiltered."""
_RECENT_S: Final = 30.0
"""Time constant of the mean with which requests are compared to see whether they rise."""
_RISING: Final = np.float32(0.08)
"""Rise above that mean, relative to it, beyond which it is no noise."""
_LEAD: Final = np.float32(1.2)
"""How far to follow a rise beyond the last sample, in units of that rise. Samples are means over a
window and late, half a minute together; on a ramp this is the rise of half a minute."""
_MOST_AHEAD: Final = np.float32(0.3)
"""Largest step beyond the last sample, relative to it: where windows are short, a jump is over
when it is seen."""
_CORES: Final = np.float32(0.001)
# A plain 0.0 in a kernel would turn the float32 arithmetic around it into float64.
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


class Demand(NamedTuple):
    """E environments, A apps. Loads are in pods of the app's present size, fully used."""

    load: F32
    """[E, A] what the traffic asks for."""
    usual: F32
    """[E, A] its slow mean; load above it is a surge."""
    recent: F32
    """[E, A] mean of the requests per second over the last half minute."""
    size: F32
    """[E, A] cores of a full pod for which the other fields hold."""


class Gains(NamedTuple):
    """Weight of one tick in each of the means."""

    load: np.float32
    recent: np.float32
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
        memory = state.features
        pods, work = memory.sample[:, rows.PODS], memory.work
        update_demand(demand, features, pods, work, observation.status, self._gains)
        return AppSignals(features, demand.load, demand.usual), state


def start_demand(observation: Observation) -> Demand:
    """No load known yet."""
    nothing = np.zeros(observation.missing.shape, np.float32)
    return Demand(nothing, nothing.copy(), nothing.copy(), nothing.copy())


def gains(smoothing: float, tick_s: int) -> Gains:
    """The weights that belong to the time constants."""
    return Gains(
        np.float32(smoothing),
        np.float32(1.0 - math.exp(-tick_s / _RECENT_S)),
        np.float32(min(1.0, tick_s / _RISE_S)),
        np.float32(min(1.0, tick_s / _FALL_S)),
    )


@kernel
def update_demand(
    demand: Demand, features: F32, pods: F32, work: F32, status: I32, gain: Gains
) -> None:
    """Take in the features [E, APP, A] and status [E, STATUS, A] of a tick.

    `pods` [E, A] are those that were measured, `work` [E, A] is CPU seconds per request. Load is
    CPU per pod times the pods that were measured with it, both over the same window. With the pods
    of this moment, each pod that starts would look like more work.
    """
    for e in range(features.shape[0]):
        load, usual, size = demand.load[e], demand.usual[e], demand.size[e]
        # Before anything is compared: the old values are in pods of the old size.
        _rescale(load, usual, status[e, rows.CPU_REQUEST], features[e, _FULL_AT], size)
        _notice_rise(features[e], demand.recent[e], gain)
        _estimate(features[e], pods[e], work[e], demand.recent[e], size, load, gain)
        _follow(load, usual, gain)


@kernel
def _rescale(load: F32, usual: F32, request: I32, full_at: F32, size: F32) -> None:
    """Convert the loads of an app whose pods do another share of its work when they are full.

    Either they were resized, or it was learned at which use they are full.
    """
    for app in range(size.size):
        cores = np.float32(request[app]) * _CORES * full_at[app]
        if cores != size[app] and cores > _ZERO:
            factor = size[app] / cores if size[app] > _ZERO else _ONE
            load[app] *= factor
            usual[app] *= factor
            size[app] = cores


@kernel
def _notice_rise(features: F32, recent: F32, gain: Gains) -> None:
    rps, missing = features[_RPS], features[_MISSING]
    for app in range(recent.size):
        # The first sample is no rise.
        step = gain.recent if recent[app] > _ZERO else _ONE
        moved = recent[app] + step * (rps[app] - recent[app])
        recent[app] = moved if missing[app] == _ZERO else recent[app]


@kernel
def _estimate(
    features: F32, pods: F32, work: F32, recent: F32, size: F32, load: F32, gain: Gains
) -> None:
    """Update the load. Without a valid sample it does not fall.

    It rises with CPU where only an app's own exporter fails: CPU has another source.

    Of the two estimates, CPU used and requests x work, the larger one counts: doubt resolves to
    more pods.
    """
    rps, saturation, missing = features[_RPS], features[_SATURATION], features[_MISSING]
    for app in range(load.size):
        used = saturation[app] * max(pods[app], _ONE)
        rise = rps[app] - recent[app]
        ahead = min(_LEAD * rise, _MOST_AHEAD * rps[app]) if rise > _RISING * recent[app] else _ZERO
        asked = (rps[app] + ahead) * work[app] / size[app] if size[app] > _ZERO else _ZERO
        change = max(used, asked) - load[app]
        # A filter would delay the answer to a surge by the ticks that hurt most.
        step = gain.load if abs(change) < _JUMP * load[app] else _ONE
        raised = max(load[app], used)
        load[app] = load[app] + step * change if missing[app] == _ZERO else raised


@kernel
def _follow(load: F32, usual: F32, gain: Gains) -> None:
    """Let the usual load follow: slowly up, because a surge is not usual, and faster down."""
    for app in range(load.size):
        change = load[app] - usual[app]
        step = gain.rise if change > _ZERO else gain.fall
        # The first load is usual at once: a mean that starts at zero would call all of it a surge.
        usual[app] = usual[app] + step * change if usual[app] > _ZERO else load[app]
