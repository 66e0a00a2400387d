"""One recommendation for one app, from its pods as the Kubernetes API shows them."""

from collections.abc import Sequence
from enum import Enum

import msgspec

from models.baselines.hpa.pods import Pod, Readiness, total
from models.baselines.hpa.replica_calculator import Totals, by_average, by_utilisation


class Failure(Enum):
    """Why there is no recommendation; the autoscaler then holds."""

    NO_PODS = "no_pods"
    NO_USABLE_METRICS = "no_usable_metrics"
    MISSING_REQUEST = "missing_request"
    ZERO_REQUEST_TOTAL = "zero_request_total"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What a metric is held at: a percentage of the request, or an average per pod."""

    by_cpu: bool
    """Readiness of pods matters for CPU alone."""
    percent: int | None = None
    average_millis: int = 0
    """Thousandths a pod, used when there is no percentage."""
    tolerance_up: float = 0.1
    tolerance_down: float = 0.1


class Recommendation(msgspec.Struct, frozen=True, kw_only=True):
    """Replicas, and the values they came from."""

    replicas: int
    utilisation_percent: int | None
    average_millis: int


def recommend(
    pods: Sequence[Pod],
    stray_usages: Sequence[int],
    current: int,
    target: Target,
    readiness: Readiness,
) -> Recommendation | Failure:
    """What the replica calculator answers for pods, `stray_usages` being samples of no pod."""
    if not pods:
        return Failure.NO_PODS
    totals = total(pods, stray_usages, target.by_cpu, readiness, target.percent or 0)
    low, high = 1.0 - target.tolerance_down, 1.0 + target.tolerance_up
    if totals.ready + totals.stray == 0:
        return Failure.NO_USABLE_METRICS
    if target.percent is not None:
        return _by_utilisation(pods, totals, target.percent, current, low, high)
    replicas, average = by_average(totals, target.average_millis, current, low, high)
    return Recommendation(
        replicas=int(replicas), utilisation_percent=None, average_millis=int(average)
    )


def _by_utilisation(
    pods: Sequence[Pod], totals: Totals, percent: int, current: int, low: float, high: float
) -> Recommendation | Failure:
    # Even a pod that is ignored otherwise must have a request.
    if any(pod.request_millis is None for pod in pods):
        return Failure.MISSING_REQUEST
    if totals.requests == 0:
        return Failure.ZERO_REQUEST_TOTAL
    replicas, used, average = by_utilisation(totals, percent, current, low, high)
    return Recommendation(
        replicas=int(replicas), utilisation_percent=int(used), average_millis=int(average)
    )
