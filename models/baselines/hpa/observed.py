"""What the HPAs of a world recommend from an observation, over all apps at once.

An observation has numbers per app, not pods. Pods share the load evenly, so each of those that
were measured used the same; a sample's pods that are still ready are counted with that. Ready
pods beyond those are missing, starting and pending ones unready. Samples come in nanocores and
are rounded up to millicores pod by pod, as the metrics API's quantities are.
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
from models.cluster.arrays import F32, I8, I32
from models.jit import kernel
from models.sim.state import NONE

NOTHING_LEFT, REFILL, FORGET = np.int32(0), np.int32(1), np.int32(2)
"""What is left to do about an app after the first look."""
_MILLI: Final = np.float32(1000.0)
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_CORES: Final = np.float32(1e8)
"""More than an app can use, and little enough for exact arithmetic."""


class HpaInputs(NamedTuple):
    """[A] each: the rows of an observation that an HPA with a CPU target looks at."""

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
def look(seen: HpaInputs, bounds: Bounds, due: I32, highest: I32, wanted: I32, left: I32) -> None:
    """Recommend for every app as if no pod had been left out; `left` says where one was.

    Without branches, all outcomes computed, so that it runs over several apps at once; in two
    loops, because the one without doubles runs over twice as many.
    """
    _calculate(seen, bounds, wanted, left)
    _gate(seen, bounds, due, highest, wanted, left)


@kernel
def _calculate(seen: HpaInputs, bounds: Bounds, wanted: I32, left: I32) -> None:
    for app in range(wanted.size):
        request, cpu = np.float64(seen.request[app]), seen.cpu[app]
        ready = np.float32(seen.ready[app])
        counted = min(seen.pods[app], ready)
        pods = np.float64(counted)
        usage = pods * np.float64(_usage(cpu, seen.pods[app]))
        ratio = percent_used(usage, pods * request) / bounds.target[app]
        replicas = plain_replicas(ratio, pods, seen.current[app], bounds.low[app], bounds.high[app])
        # Also what is no number: a sample that cannot be is no sample. Zero can be.
        usable = counted >= _ONE and _ZERO <= cpu <= _CORES
        wanted[app] = np.int32(replicas) if usable else NO_METRIC
        unready = np.int32(seen.starting[app] + seen.pending[app])
        left[app] = REFILL if needs_refill(ratio, ready - counted, unready) else NOTHING_LEFT


@kernel
def _gate(seen: HpaInputs, bounds: Bounds, due: I32, highest: I32, wanted: I32, left: I32) -> None:
    """Of what was recommended, what counts."""
    for app in range(wanted.size):
        current = seen.current[app]
        asked = wanted[app] if seen.missing[app] == 0 else NO_METRIC
        asked = gate(asked, current, bounds.least[app], bounds.most[app], current != 0)
        asked = NOT_DUE if due[app] == NONE else asked
        asked = ABSENT if seen.active[app] == 0 else asked
        gone = asked == ABSENT and highest[app] != FRESH
        again = left[app] if asked >= 0 else NOTHING_LEFT
        left[app] = FORGET if gone else again
        wanted[app] = asked


@kernel
def look_again(seen: HpaInputs, bounds: Bounds, app: int) -> int:
    """Recommend for an app some of whose pods were left out."""
    request, target = np.float64(seen.request[app]), bounds.target[app]
    ready = np.float64(min(seen.pods[app], np.float32(seen.ready[app])))
    missing = seen.ready[app] - ready
    unready = np.float64(seen.starting[app] + seen.pending[app])
    usage = np.float64(_usage(seen.cpu[app], seen.pods[app]))
    pods = Totals(
        ready, ready * usage, ready * request,
        0.0, 0.0,
        missing, missing * request, missing * np.floor(request * max(100.0, target) / 100.0),
        unready, unready * request,
    )  # fmt: skip
    first = percent_used(pods.usage, pods.requests) / target
    percent, samples = refilled_percent(pods, first)
    return int(
        careful_replicas(
            first, percent / target, samples, seen.current[app], bounds.low[app], bounds.high[app]
        )
    )
