"""Features of single apps, one loop per feature row: contiguous rows vectorise."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.cluster import rows
from models.cluster.arrays import F32, I8, I32
from models.features.memory import UNSEEN, FeatureState
from models.features.saturation import Pace
from models.features.table import APP
from models.jit import kernel

U32 = NDArray[np.uint32]

_LIVE: Final = APP.at("active")
_RPS: Final = APP.at("rps")
_TREND: Final = APP.at("rps_trend")
_ERRORS: Final = APP.at("errors")
_UTILISATION: Final = APP.at("utilisation")
_SATURATION: Final = APP.at("saturation")
_FULL_AT: Final = APP.at("full_at")
_DOUBT: Final = APP.at("doubt")
_MEMORY_USE: Final = APP.at("memory_use")
_HEADROOM: Final = APP.at("headroom")
_WANTED: Final = APP.at("wanted")
_ROOM: Final = APP.at("room")
_READY: Final = APP.at("ready")
_IN_FLIGHT: Final = APP.at("in_flight")
_PENDING: Final = APP.at("pending")
_RESTARTS: Final = APP.at("restarts")
_MISSING: Final = APP.at("missing")
_AGE: Final = APP.at("sample_age")
_INTERACTIVE: Final = APP.at("interactive")
_BATCH: Final = APP.at("batch")

# float32, because a plain 0.0 in a kernel would turn the arithmetic around it into float64. Ratios
# are clipped to -5 and 5, the range of the table and of the sort keys in `summary`.
_ZERO, _ONE, _MOST, _LEAST = np.float32(0), np.float32(1), np.float32(5), np.float32(-5)
_CORES: Final = np.float32(0.001)
_GIB: Final = np.float32(1 / 1024)
_SLOW_RPS: Final = np.float32(0.1)
"""Mean traffic below which a trend is noise."""
_MOST_PODS: Final = np.float32(1e6)
"""Largest pod count of one app that is believed."""


class Declared(NamedTuple):
    """The inventory as the kernels take it: A apps, D domains, G tier groups."""

    latency_target: F32
    """[A] seconds."""
    per_target: F32
    """[A] 1 / latency target: multiplication is several times faster than division."""
    saturation: F32
    """[E, A] CPU use over request of full pods; one row where all environments declare the same."""
    per_most: F32
    """[A] 1 / maximum of replicas."""
    interactive: F32
    """[A] share of API and web requests."""
    batch: F32
    """[A] share of batch requests."""
    tier: I32
    """[A]."""
    tiers: I32
    """[D] how many tier groups."""
    first: I32
    """[D] index of the domain's first tier group."""
    order: U32
    """[A] apps as declared, group by group; unsigned indices need no wrap-around check."""
    edges: I32
    """Age bounds of pods in flight, ticks."""
    calls: F32
    """[D, D]."""
    tick_s: float
    gain: float
    """Weight of a tick in slow means."""
    pace: Pace


@kernel
def encode_apps(
    state: FeatureState, e: int, status: I32, declared: Declared, features: F32
) -> None:
    """Fill `features` [APP, A] of one environment; its memory has taken in this tick already."""
    # Undeclared apps are zeroed by multiplying with `live`: a branch per app would not vectorise.
    # It needs finite values, because 0 x NaN is NaN; the memory keeps valid samples only.
    sample, age, live = state.sample[e], state.age[e], features[_LIVE]
    _find_live(status[rows.ACTIVE], status[rows.DOMAIN], np.int32(declared.tiers.size), live)
    _traffic(sample, state.mean_rps[e], features)
    _load(sample, age, status[rows.CPU_REQUEST], state.full_at[e], features)
    _where_live(live, state.full_at[e], features[_FULL_AT])
    _where_live(live, state.doubt[e], features[_DOUBT])
    _memory(sample, age, status, features)
    _latency(live, age, sample[rows.P99], declared.per_target, features[_HEADROOM])
    _pods(status, declared.per_most, features)
    # The slot that the next tick overwrites holds the counter from the start of the window.
    oldest = state.restarts[e, (state.tick[e] + 1) % state.restarts.shape[1]]
    _restarts(live, status[rows.RESTARTS], oldest, status[rows.READY], features[_RESTARTS])
    tick_s = np.float32(declared.tick_s)
    _staleness(live, state.fresh[e], age, tick_s, features[_MISSING], features[_AGE])
    _where_live(live, declared.interactive, features[_INTERACTIVE])
    _where_live(live, declared.batch, features[_BATCH])


@kernel
def _within(value: np.float32, low: np.float32, high: np.float32) -> np.float32:
    return min(max(value, low), high)


@kernel
def _pods_of(count: np.int32) -> np.float32:
    """Clip a count: a negative or absurd one must not flip the sign of a ratio."""
    return min(max(np.float32(count), _ZERO), _MOST_PODS)


@kernel
def _find_live(active: I32, domain: I32, domains: np.int32, live: F32) -> None:
    for app in range(live.size):
        known_domain = (domain[app] >= 0) & (domain[app] < domains)
        live[app] = _ONE if (active[app] == 1) & known_domain else _ZERO


@kernel
def _traffic(sample: F32, mean: F32, features: F32) -> None:
    live, rps, errors = features[_LIVE], sample[rows.RPS], sample[rows.ERRORS]
    out, trend, failing = features[_RPS], features[_TREND], features[_ERRORS]
    for app in range(live.size):
        out[app] = live[app] * rps[app]
        change = (rps[app] - mean[app]) / max(mean[app], _SLOW_RPS)
        trend[app] = live[app] * _within(change, -_ONE, _MOST)
        failing[app] = live[app] * min(errors[app], _ONE)


@kernel
def _load(sample: F32, age: I32, request: I32, full_at: F32, features: F32) -> None:
    """CPU use over the pods that were measured: an old sample knows nothing of today's pods."""
    live, cpu, pods = features[_LIVE], sample[rows.CPU], sample[rows.PODS]
    out, over = features[_UTILISATION], features[_SATURATION]
    for app in range(live.size):
        cores = max(np.float32(request[app]), _ONE) * _CORES * max(pods[app], _ONE)
        # An app that never had a sample reads as full: doubt must not scale in (invariant 4).
        use = _ONE if age[app] >= UNSEEN else cpu[app] / cores
        out[app] = live[app] * _within(use, _ZERO, _MOST)
        over[app] = live[app] * _within(use / full_at[app], _ZERO, _MOST)


@kernel
def _memory(sample: F32, age: I32, status: I32, features: F32) -> None:
    """Starting pods hold memory too but are not among the measured ones."""
    live, out = features[_LIVE], features[_MEMORY_USE]
    used, pods, request = sample[rows.MEMORY], sample[rows.PODS], status[rows.MEMORY_REQUEST]
    ready, starting = status[rows.READY], status[rows.STARTING]
    for app in range(live.size):
        bound = _pods_of(ready[app]) + _pods_of(starting[app])
        holding = max(pods[app], bound, _ONE)
        use = used[app] / (max(np.float32(request[app]), _ONE) * _GIB * holding)
        use = _ONE if age[app] >= UNSEEN else use
        out[app] = live[app] * _within(use, _ZERO, _MOST)


@kernel
def _latency(live: F32, age: I32, p99: F32, per_target: F32, out: F32) -> None:
    for app in range(live.size):
        headroom = _ZERO if age[app] >= UNSEEN else _ONE - p99[app] * per_target[app]
        out[app] = live[app] * _within(headroom, _LEAST, _ONE)


@kernel
def _pods(status: I32, per_most: F32, features: F32) -> None:
    live, replicas = features[_LIVE], status[rows.REPLICAS]
    ready, starting, pending = status[rows.READY], status[rows.STARTING], status[rows.PENDING]
    wanted, room, up = features[_WANTED], features[_ROOM], features[_READY]
    in_flight, waiting = features[_IN_FLIGHT], features[_PENDING]
    for app in range(live.size):
        want = _pods_of(replicas[app])
        # Zero for an app that is not declared, and so are the ratios below.
        per_wanted = live[app] / max(want, _ONE)
        wanted[app] = live[app] * want
        room[app] = live[app] * max(_ONE - want * per_most[app], _ZERO)
        coming = _pods_of(starting[app]) + _pods_of(pending[app])
        up[app] = min(_pods_of(ready[app]) * per_wanted, _MOST)
        in_flight[app] = min(coming * per_wanted, _MOST)
        waiting[app] = min(_pods_of(pending[app]) * per_wanted, _MOST)


@kernel
def _restarts(live: F32, counter: I32, before: I32, ready: I32, out: F32) -> None:
    """Restarts since `before`; a counter that fell belongs to an app that was declared again."""
    for app in range(live.size):
        restarted = max(np.float32(counter[app]) - np.float32(before[app]), _ZERO)
        out[app] = live[app] * min(restarted / max(_pods_of(ready[app]), _ONE), _MOST)


@kernel
def _staleness(
    live: F32, fresh: I8, age: I32, tick_s: np.float32, missing: F32, seconds: F32
) -> None:
    for app in range(live.size):
        missing[app] = _ZERO if fresh[app] == 1 else live[app]
        seconds[app] = live[app] * np.float32(age[app]) * tick_s


@kernel
def _where_live(live: F32, declared: F32, out: F32) -> None:
    for app in range(live.size):
        out[app] = live[app] * declared[app]
