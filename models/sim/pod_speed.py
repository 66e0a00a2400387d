"""How fast the pods of an app are: cold starts, requests and limits, uneven load, throttling."""

import math

import numpy as np

from models.cluster.arrays import F32, I32
from models.jit import kernel
from models.sim.apps import Traits
from models.sim.kernel_math import halved

_DELAYED_SHARE = np.float32(0.01)
"""Share of throttled requests from which they are the 99th percentile."""
# Expected excess of a normal variable above x deviations, over one deviation: 0.3989 x
# 2**-(1.803 x + 0.4617 x**2), within 5 % up to two deviations.
_LOSS_0, _LOSS_1, _LOSS_2 = np.float32(0.3989), np.float32(1.803), np.float32(0.4617)
_SKEWNESS = np.float32(2.1213)
"""Of exponential requests that arrive as a Poisson process, for one request on average."""
_SIXTH, _LEAST_OF_X = np.float32(1 / 6), np.float32(0.6)
_TINY = np.float32(1e-9)
_ZERO, _HALF, _ONE, _TWO = np.float32(0.0), np.float32(0.5), np.float32(1.0), np.float32(2.0)
_MILLI = np.float32(0.001)


@kernel
def slow_down_cold(ready: I32, cold: F32, cold_share: np.float32, payload: F32, work: F32) -> None:
    """Work per request, over that of a warm pod with the usual requests.

    Balancers send cold pods as much less as they are slower, so all pods are equally busy and the
    mean work per request rises.
    """
    for app in range(work.size):
        pods = np.float32(ready[app])
        # Pods that have stopped since may have been the cold ones.
        lacking = min(cold[app], pods * cold_share)
        work[app] = payload[app] * max(pods, _TINY) / max(pods - lacking, _TINY)


@kernel
def find_capacity(
    ready: I32, cpu_request: I32, work: F32, traits: Traits, servers: F32, service: F32
) -> None:
    """Servers that requests guarantee to each app's queue, and seconds per request.

    With a limit below one core and below its first size a pod is slower per request, not only
    smaller.
    """
    limit_ratio, start_limit, workers = traits.limit_ratio, traits.start_limit, traits.workers
    cpu_seconds, io_seconds = traits.cpu_seconds, traits.io_seconds
    for app in range(servers.size):
        request = np.float32(cpu_request[app]) * _MILLI
        stretch = max(_ONE, start_limit[app] / (request * limit_ratio[app]))
        busy = cpu_seconds[app] * work[app]
        # However short the IO waits are, all workers together get no more than their CPU.
        service[app] = max(busy + io_seconds[app], workers[app] * busy) * stretch
        servers[app] = np.float32(ready[app]) * workers[app] * request * stretch


@kernel
def find_hot_pods(load: F32, ready: I32, imbalance: np.float32, hot: F32) -> None:
    """Load of the pods that get more than their share; a single pod gets all of it."""
    for app in range(load.size):
        others = _ONE - _ONE / max(_ONE, np.float32(ready[app]))
        hot[app] = load[app] * (_ONE + imbalance * others)


@kernel
def throttle(
    done: F32,
    work: F32,
    ready: I32,
    cpu_request: I32,
    traits: Traits,
    per_second: np.float32,
    period: np.float32,
    stall: F32,
) -> None:
    """Seconds that CPU limits add to the 99th percentile.

    The work that arrives at a pod in a period of its limit is taken as normal, with the mean and
    the variance of Poisson arrivals of exponential requests. What exceeds the limit waits for the
    next period, half a period on average. It reaches the 99th percentile as it becomes one percent
    of the requests.
    """
    for app in range(stall.size):
        pods = max(_ONE, np.float32(ready[app]))
        limit = np.float32(cpu_request[app]) * _MILLI * traits.limit_ratio[app]
        seconds = traits.cpu_seconds[app] * work[app]
        mean = max(done[app] * seconds * per_second * period / pods, _TINY)
        deviation = np.float32(math.sqrt(_TWO * mean * seconds))
        x = max(_ZERO, limit * period - mean) / max(deviation, _TINY)
        # Few large requests have a longer tail than a normal variable: the Cornish-Fisher
        # correction for their skewness, bounded where it no longer holds.
        skewness = _SKEWNESS * np.float32(math.sqrt(seconds / mean))
        x = max(x - skewness * max(_ZERO, x * x - _ONE) * _SIXTH, _LEAST_OF_X * x)
        loss = _LOSS_0 * halved(x * (_LOSS_1 + _LOSS_2 * x))
        delayed = deviation * loss / mean
        stall[app] = _HALF * period * min(_ONE, delayed / _DELAYED_SHARE)
