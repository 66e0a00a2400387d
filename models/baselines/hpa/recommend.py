"""One recommendation for one app, from its pods as the Kubernetes API reports them.

Pods are sorted into the groups of the replica calculator; each group is summed up.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Literal

import msgspec

from models.baselines.hpa.replica_calculator import Totals, by_average, by_utilisation


class Group(Enum):
    """How the replica calculator treats a pod."""

    IGNORED = "ignored"
    UNREADY = "unready"
    MISSING = "missing"
    READY = "ready"


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server and the metrics API report about a pod; None for what is absent."""

    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]
    deletion_timestamp_set: bool
    ready_condition: Literal["True", "False", "Unknown"] | None
    ready_transition_age_s: float | None
    """Since the ready condition changed."""
    start_age_s: float | None
    request_millis: int | None
    """Of all containers; None when one of them has none."""
    usage_millis: int | None
    metric_age_s: float | None
    """Since the end of the period that the sample covers."""
    metric_window_s: float | None
    """Length of that period."""


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the controller for pods that have just started."""

    cpu_initialization_period_s: float = 300
    """Pod age below which a sample from before readiness is ignored."""
    delay_of_initial_readiness_status_s: float = 30
    """A pod that became unready later than this after its start has been ready before."""


def group_of(pod: Pod, by_cpu: bool, readiness: Readiness) -> Group:
    """The first rule that applies; only CPU metrics depend on readiness."""
    if pod.deletion_timestamp_set or pod.phase == "Failed":
        return Group.IGNORED
    if pod.phase == "Pending":
        return Group.UNREADY
    if pod.usage_millis is None:
        return Group.MISSING
    return Group.UNREADY if by_cpu and _starting(pod, readiness) else Group.READY


def _starting(pod: Pod, readiness: Readiness) -> bool:
    """Whether its CPU use may be that of its start-up. All comparisons are strict."""
    if pod.ready_condition is None or pod.start_age_s is None:
        return True
    unready = pod.ready_condition == "False"
    since_change = pod.ready_transition_age_s or 0.0
    # While a pod initialises, a sample counts only if all of its period was after readiness.
    if pod.start_age_s < readiness.cpu_initialization_period_s:
        return unready or (pod.metric_age_s or 0.0) > since_change - (pod.metric_window_s or 0.0)
    # Later, only a pod that has never been ready counts as starting: its condition last changed
    # within the initial delay. A pod that was ready once counts, even if it is unready now.
    never_ready_after_s = pod.start_age_s - readiness.delay_of_initial_readiness_status_s
    return unready and since_change > never_ready_after_s


def total(
    pods: Iterable[Pod],
    stray_usages: Sequence[int],
    by_cpu: bool,
    readiness: Readiness,
    target_percent: int = 0,
) -> Totals:
    """Sum up the groups. An absent request counts as zero; callers that need it check before."""
    groups: dict[Group, list[Pod]] = {group: [] for group in Group}
    for pod in pods:
        groups[group_of(pod, by_cpu, readiness)].append(pod)
    ready, missing, unready = (groups[g] for g in (Group.READY, Group.MISSING, Group.UNREADY))
    # Missing pods count as using their whole request, or the target where that is more. Rounded
    # pod by pod: rounding the sum would give another result.
    share = max(100, target_percent)
    return Totals(
        ready=len(ready),
        usage=sum(pod.usage_millis or 0 for pod in ready),
        requests=_requests(ready),
        stray=len(stray_usages),
        stray_usage=sum(stray_usages),
        missing=len(missing),
        missing_requests=_requests(missing),
        missing_fill=sum((pod.request_millis or 0) * share // 100 for pod in missing),
        unready=len(unready),
        unready_requests=_requests(unready),
    )


def _requests(pods: Iterable[Pod]) -> int:
    return sum(pod.request_millis or 0 for pod in pods)


class Failure(Enum):
    """Why there is no recommendation; the autoscaler then holds."""

    NO_PODS = "no_pods"
    NO_USABLE_METRICS = "no_usable_metrics"
    MISSING_REQUEST = "missing_request"
    ZERO_REQUEST_TOTAL = "zero_request_total"


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Target of a metric: a percentage of the request, or an average per pod."""

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
    """The replica calculator's answer; `stray_usages` are samples without a pod."""
    if not pods:
        return Failure.NO_PODS
    totals = total(pods, stray_usages, target.by_cpu, readiness, target.percent or 0)
    low, high = 1.0 - target.tolerance_down, 1.0 + target.tolerance_up
    # In the order of the controller, which decides which of several failures is reported.
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
    # Even a pod that is otherwise ignored must have a request.
    if any(pod.request_millis is None for pod in pods):
        return Failure.MISSING_REQUEST
    if totals.requests == 0:
        return Failure.ZERO_REQUEST_TOTAL
    replicas, used, average = by_utilisation(totals, percent, current, low, high)
    return Recommendation(
        replicas=int(replicas), utilisation_percent=int(used), average_millis=int(average)
    )
