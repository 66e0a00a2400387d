"""What the HPAs of a world recommend from an observation, over all apps at once.

An observation has numbers per app, not per pod. Pods share the load evenly, so each measured pod
used the same. Measured pods that are still ready count with that use, other ready pods count as
missing, starting and pending ones as unready. Samples are rounded up to millicores pod by pod, as
the quantities of the metrics API are.
"""

from typing import Final, NamedTuple

import numpy as np

from models.baselines.hpa.replica_calculator import (
    Totals,
    careful_replicas,
    needs_refill,
    percent_used,
    plain_replicas,
    refilled_percent,
)
from models.baselines.hpa.settings import Bounds
from models.baselines.hpa.window import ABSENT, FRESH, NO_METRIC, NOT_DUE, gate
from models.cluster.arrays import F32, F64, I8, I32
from models.jit import kernel
from models.sim.state import NONE

DONE, REFILL, FORGET = np.int32(0), np.int32(1), np.int32(2)
"""What `recommend_all` leaves to do for an app, in its row `follow_up`."""
_MILLI: Final = np.float32(1000.0)
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_CORES: Final = np.float32(1e8)
"""More than an app can use, and small enough for exact arithmetic."""


class HpaInputs(NamedTuple):
    """[A] each: the rows of an observation that an HPA with a CPU target reads."""

    missing: I8
    cpu: F32
    pods: F32
    active: I32
    current: I32
    ready: I32
    starting: I32
    pending: I32
    request: I32


@kernel
def _usage(cpu: np.float32, pods: np.float32) -> np.float32:
    """Millicores of one pod."""
    return np.float32(np.ceil(cpu * _MILLI / pods))


@kernel
def recommend_all(
    inputs: HpaInputs,
    bounds: Bounds,
    target: F64,
    due: I32,
    highest: I32,
    wanted: I32,
    follow_up: I32,
) -> None:
    """Recommend for every app as if every pod were measured; `follow_up` marks the exceptions.

    Computes all outcomes without branches, so that LLVM vectorises it. Two loops, because the one
    without doubles processes twice as many apps per instruction.
    """
    _calculate(inputs, bounds, target, wanted, follow_up)
    _gate(inputs, bounds, due, highest, wanted, follow_up)


@kernel
def _calculate(inputs: HpaInputs, bounds: Bounds, target: F64, wanted: I32, follow_up: I32) -> None:
    for app in range(wanted.size):
        request, cpu = np.float64(inputs.request[app]), inputs.cpu[app]
        ready = np.float32(inputs.ready[app])
        # The sample is older than the status: measured pods that are gone by now do not count.
        counted = min(inputs.pods[app], ready)
        pods = np.float64(counted)
        # Without pods this divides by zero, which gives NaN in a kernel; `usable` discards it.
        # A branch would keep the loop from being vectorised.
        usage = pods * np.float64(_usage(cpu, inputs.pods[app]))
        ratio = percent_used(usage, pods * request) / target[app]
        replicas = plain_replicas(
            ratio, pods, inputs.current[app], bounds.low[app], bounds.high[app]
        )
        # NaN fails the comparison, too: an impossible sample is no sample. Zero is possible.
        usable = counted >= _ONE and _ZERO <= cpu <= _CORES
        wanted[app] = np.int32(replicas) if usable else NO_METRIC
        unready = np.int32(inputs.starting[app] + inputs.pending[app])
        follow_up[app] = REFILL if needs_refill(ratio, ready - counted, unready) else DONE


@kernel
def _gate(
    inputs: HpaInputs, bounds: Bounds, due: I32, highest: I32, wanted: I32, follow_up: I32
) -> None:
    """Apply the checks that precede the metric; keep follow-ups only where one is still needed."""
    for app in range(wanted.size):
        current = inputs.current[app]
        # In ascending order of precedence: an absent HPA is never due, and one that is not due
        # reads no metric.
        recommended = wanted[app] if inputs.missing[app] == 0 else NO_METRIC
        recommended = gate(recommended, current, bounds.least[app], bounds.most[app], current != 0)
        recommended = NOT_DUE if due[app] == NONE else recommended
        recommended = ABSENT if inputs.active[app] == 0 else recommended
        # FRESH means that the window of the removed app is already empty.
        removed = recommended == ABSENT and highest[app] != FRESH
        open_work = follow_up[app] if recommended >= 0 else DONE
        follow_up[app] = FORGET if removed else open_work
        wanted[app] = recommended


@kernel
def recommend_with_missing_pods(inputs: HpaInputs, bounds: Bounds, targets: F64, app: int) -> int:
    """Recommend for an app with missing or unready pods."""
    request, target = np.float64(inputs.request[app]), targets[app]
    ready = np.float64(min(inputs.pods[app], np.float32(inputs.ready[app])))
    missing = inputs.ready[app] - ready
    unready = np.float64(inputs.starting[app] + inputs.pending[app])
    usage = np.float64(_usage(inputs.cpu[app], inputs.pods[app]))
    pods = Totals(
        # A world has no samples of unlisted pods, so the stray ones are zero. The assumed use of
        # missing pods is cut pod by pod, as in `recommend.total`.
        ready, ready * usage, ready * request,
        0.0, 0.0,
        missing, missing * request, missing * np.floor(request * max(100.0, target) / 100.0),
        unready, unready * request,
    )  # fmt: skip
    first = percent_used(pods.usage, pods.requests) / target
    percent, samples = refilled_percent(pods, first)
    return int(
        careful_replicas(
            first, percent / target, samples, inputs.current[app], bounds.low[app], bounds.high[app]
        )
    )
