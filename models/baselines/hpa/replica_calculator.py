"""From metrics to a number of replicas: the arithmetic of the replica calculator.

All functions work on the numbers of one app, so that a loop over many apps and a single case run
the same rules. Sums are whole thousandths, as int64 or as doubles: LLVM vectorises the division
of doubles, not that of int64.
"""

from typing import Any, NamedTuple

import numba
import numpy as np
from numba.extending import overload

from models.jit import kernel

_MOST = 2.0**31 - 1.0
"""Replicas are 32 bits wide."""
# Untyped: numba publishes no types.
_types: Any = numba.types


class Totals(NamedTuple):
    """Sums over a list of pods and samples. Usage and requests in whole thousandths."""

    ready: float
    """Pods that count with their sample."""
    usage: float
    requests: float
    stray: float
    """Samples of pods that are not listed."""
    stray_usage: float
    missing: float
    """Pods without a sample."""
    missing_requests: float
    missing_fill: float
    """What missing pods count as using when scaling in by utilisation."""
    unready: float
    unready_requests: float


def _whole(part: Any, of: Any) -> Any:
    """The quotient of two non-negative integers, rounded down."""
    # Kernels use one of the two overloads below; this runs without compilation.
    return np.floor(part / of) if isinstance(part, float) else part // of


@overload(_whole)
def _whole_for(part: Any, of: Any) -> Any:  # noqa: ARG001  numba passes types
    def of_integers(part: Any, of: Any) -> Any:
        return part // of

    # Exact while part + of < 2**53: a quotient below an integer n is below it by at least 1 / of,
    # and it is rounded up to n only if that is at most n * 2**-53.
    def of_doubles(part: Any, of: Any) -> Any:
        return np.floor(part / of)

    return of_doubles if isinstance(part, _types.Float) else of_integers


@kernel
def percent_used(usage: float, requests: float) -> float:
    """Utilisation, rounded down to whole percents."""
    # Cut before the ratio is taken, as in the controller: 55.9 % of a target of 50 % is tolerated.
    return float(_whole(usage * 100, requests))


@kernel
def average_used(usage: float, samples: float) -> float:
    """Usage per pod, rounded down to whole thousandths."""
    return float(_whole(usage, samples))


@kernel
def tolerated(ratio: float, low: float, high: float) -> bool:
    """Whether the ratio is within the bounds, inclusive."""
    return low <= ratio <= high


@kernel
def _pods_for(ratio: float, pods: float) -> float:
    return float(min(np.ceil(ratio * pods), _MOST))


@kernel
def needs_refill(ratio: float, missing: float, unready: float | np.int32) -> bool:
    """Whether pods that were left out could change the result."""
    return bool(missing > 0 or (unready > 0 and ratio > 1.0))


@kernel
def plain_replicas(ratio: float, ready: float, current: float, low: float, high: float) -> float:
    """The result when every pod was counted: a multiple of the ready pods, not of `current`."""
    return current if tolerated(ratio, low, high) else _pods_for(ratio, ready)


@kernel
def careful_replicas(
    first: float, ratio: float, samples: float, current: float, low: float, high: float
) -> float:
    """The result after a refill, which may weaken the first ratio but never reverse it."""
    wanted = _pods_for(ratio, samples)
    turned = (first > 1.0 and ratio < 1.0) or (first < 1.0 and ratio > 1.0)
    # The number of samples may differ from the current replicas, so that even a result of the
    # right ratio can point the other way.
    against = (ratio < 1.0 and wanted > current) or (ratio > 1.0 and wanted < current)
    return current if tolerated(ratio, low, high) or turned or against else wanted


@kernel
def refilled_percent(pods: Totals, ratio: float) -> tuple[float, float]:
    """Utilisation and number of samples including the pods that were left out."""
    # Each direction assumes what makes it smaller: before scaling in, pods without a sample are
    # fully busy; before scaling out, they and unready ones are idle. At the target none is added.
    usage, requests, samples = pods.usage, pods.requests, pods.ready + pods.stray
    if ratio < 1.0:
        usage += pods.missing_fill
        requests += pods.missing_requests
        samples += pods.missing
    elif ratio > 1.0:
        requests += pods.missing_requests + pods.unready_requests
        samples += pods.missing + pods.unready
    return percent_used(usage, requests), samples


@kernel
def _refilled_average(pods: Totals, ratio: float, target: int) -> tuple[float, float]:
    usage, samples = pods.usage + pods.stray_usage, pods.ready + pods.stray
    if ratio < 1.0:
        usage += pods.missing * target
        samples += pods.missing
    elif ratio > 1.0:
        samples += pods.missing + pods.unready
    return average_used(usage, samples), samples


@kernel
def by_utilisation(
    pods: Totals, target: int, current: int, low: float, high: float
) -> tuple[float, float, float]:
    """Replicas, percent used and usage of a pod, for a target in percent of the request."""
    percent = percent_used(pods.usage, pods.requests)
    average = average_used(pods.usage, pods.ready)
    ratio = percent / target
    if not needs_refill(ratio, pods.missing, pods.unready):
        return plain_replicas(ratio, pods.ready, current, low, high), percent, average
    refilled, samples = refilled_percent(pods, ratio)
    return careful_replicas(ratio, refilled / target, samples, current, low, high), percent, average


@kernel
def by_average(
    pods: Totals, target: int, current: int, low: float, high: float
) -> tuple[float, float]:
    """Replicas and usage of a pod, for a target in thousandths a pod."""
    average = average_used(pods.usage + pods.stray_usage, pods.ready + pods.stray)
    ratio = average / target
    if not needs_refill(ratio, pods.missing, pods.unready):
        return plain_replicas(ratio, pods.ready, current, low, high), average
    refilled, samples = _refilled_average(pods, ratio, target)
    return careful_replicas(ratio, refilled / target, samples, current, low, high), average
