"""The call graph as kernels walk it: demand forward to callees, latency and failures back.

Each walk visits the edges in an order of its own, so the graph is stored three times: in call
order, grouped by caller and grouped by callee.
"""

from typing import NamedTuple

import numpy as np

from models.cluster.arrays import F32, F64, I8, I32
from models.jit import kernel
from models.sim.apps import GUARD_FAIL_OPEN, GUARD_QUEUE, Calls
from models.sim.queueing import U32

UNNOTICED = np.float32(1e-6)
"""A failing share below one in a million does not reach callers."""
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


class CallRows(NamedTuple):
    """One row per property of an edge. Unsigned indices avoid numba's wrap-around check."""

    caller: U32
    """Forward walk, outermost callers first."""
    callee: U32
    per_request: F32
    callers: U32
    """Apps that call, innermost first. Among those, apps with equally many calls are
    neighbours: branch prediction works best when consecutive loops have the same length."""
    by_caller_start: U32
    """[callers + 1] where each caller's calls begin in the two rows below."""
    by_caller_callee: U32
    by_caller_per_request: F32
    callees: U32
    """Apps that are called, innermost first."""
    by_callee_start: U32
    """[callees + 1] where the calls to each callee begin in the three rows below."""
    by_callee_caller: U32
    by_callee_per_request: F32
    by_callee_guard: I8


def call_rows(calls: Calls) -> CallRows:
    """Sort a population's edges for each of the walks."""
    last_call = np.zeros(int(calls.callee.max(initial=-1)) + 1, np.int64)
    # Edges are sorted by caller, outermost first: an app's last edge gives its depth.
    np.maximum.at(last_call, calls.callee, np.arange(calls.callee.size))
    depth = call_depth(calls)[calls.caller]
    # Neighbouring edges add to different callees: an addition to a number in memory takes several
    # times as long when it has to wait for the previous addition to the same number.
    forward = np.lexsort((_occurrence(calls.callee), depth))
    _, count_of, counts = np.unique(calls.caller, return_inverse=True, return_counts=True)
    # `lexsort` sorts by its last key first.
    by_caller = np.lexsort((calls.caller, counts[count_of], -depth))
    callers, caller_start = _runs(calls.caller[by_caller])
    by_callee = np.argsort(-last_call[calls.callee], kind="stable")
    callees, callee_start = _runs(calls.callee[by_callee])
    return CallRows(
        caller=calls.caller[forward].astype(np.uint32),
        callee=calls.callee[forward].astype(np.uint32),
        per_request=calls.per_request[forward],
        callers=callers.astype(np.uint32),
        by_caller_start=caller_start,
        by_caller_callee=calls.callee[by_caller].astype(np.uint32),
        by_caller_per_request=calls.per_request[by_caller],
        callees=callees.astype(np.uint32),
        by_callee_start=callee_start,
        by_callee_caller=calls.caller[by_callee].astype(np.uint32),
        by_callee_per_request=calls.per_request[by_callee],
        by_callee_guard=calls.guard[by_callee],
    )


def call_depth(calls: Calls) -> I32:
    """[apps that call or are called] number of calls on the longest path to each app."""
    apps = 1 + max(int(calls.caller.max(initial=-1)), int(calls.callee.max(initial=-1)))
    depth = np.zeros(apps, np.int32)
    for caller, callee in zip(calls.caller, calls.callee, strict=True):
        depth[callee] = max(depth[callee], depth[caller] + 1)
    return depth


def _runs(apps: I32) -> tuple[I32, U32]:
    """The app of each run of equal values, and [runs + 1] where each run begins."""
    starts = np.flatnonzero(np.diff(apps, prepend=-1))
    return apps[starts], np.append(starts, apps.size).astype(np.uint32)


def _occurrence(apps: I32) -> I32:
    """[calls] how many earlier calls have the same app."""
    order = np.argsort(apps, kind="stable")
    _, first, counts = np.unique(apps[order], return_index=True, return_counts=True)
    occurrence = np.zeros(apps.size, np.int32)
    occurrence[order] = np.arange(apps.size) - np.repeat(first, counts)
    return occurrence


@kernel
def limit_to_active(active: I32, row: F32) -> None:
    """Zero the row where an app does not exist."""
    for app in range(row.size):
        row[app] *= np.float32(active[app])


@kernel
def call_forward(callers: U32, callees: U32, per_request: F32, passed: F32, demand: F32) -> None:
    """Add calls to the callees' demand: a caller passes on the share that it served last tick."""
    for edge in range(callers.size):
        caller = callers[edge]
        # `passed` is of the last tick: this tick's share is known only after it was served.
        demand[callees[edge]] += demand[caller] * passed[caller] * per_request[edge]


@kernel
def call_admitted(
    callers: U32, callees: U32, per_request: F32, passed: F32, admitted: F32, demand: F32
) -> None:
    """`call_forward` while circuit breakers are open: they hold back a share of the calls."""
    for edge in range(callers.size):
        caller, callee = callers[edge], callees[edge]
        demand[callee] += demand[caller] * passed[caller] * per_request[edge] * admitted[callee]


@kernel
def propagate_latency(calls: CallRows, p50: F32, spread: F32) -> None:
    """Add the callees' latency to their callers, innermost callers first."""
    for index in range(calls.callers.size):
        caller = calls.callers[index]
        # The sums stay in registers until the last call is added. Call by call they would be read
        # from memory and written back each time.
        median, square = p50[caller], spread[caller]
        for edge in range(calls.by_caller_start[index], calls.by_caller_start[index + 1]):
            callee, per_request = calls.by_caller_callee[edge], calls.by_caller_per_request[edge]
            median += per_request * p50[callee]
            square += per_request * spread[callee]
        p50[caller] = median
        spread[caller] = square


class FailureRows(NamedTuple):
    """What failures of callees change in their callers."""

    domain: I32
    timeout: F32
    served: F32
    fail: F32
    """[A] failing share, raised in place."""
    admitted: F32
    """[A] share of the calls that circuit breakers let through; the others fail unsent."""
    call_wait: F32
    """[A] seconds that callers wait for failed calls. Overwritten."""


@kernel
def propagate_failures(calls: CallRows, rows: FailureRows, unscored: F64) -> None:
    """Apply each edge's guard: a failed call fails its caller, is skipped, or makes it wait.

    Waiting time also reaches the callers' callers. `unscored` counts skipped calls by domain.
    """
    fail, call_wait = rows.fail, rows.call_wait
    call_wait[:] = _ZERO
    for index in range(calls.callees.size):
        callee = calls.callees[index]
        # Most callees are healthy, so skip all their edges at once.
        failing = _ONE - rows.admitted[callee] * (_ONE - fail[callee])
        if failing <= UNNOTICED and call_wait[callee] == _ZERO:
            continue
        for edge in range(calls.by_callee_start[index], calls.by_callee_start[index + 1]):
            caller, per_request = calls.by_callee_caller[edge], calls.by_callee_per_request[edge]
            lost = min(_ONE, per_request * failing)
            call_wait[caller] += per_request * call_wait[callee]
            if calls.by_callee_guard[edge] == GUARD_FAIL_OPEN:
                unscored[rows.domain[caller]] += lost * rows.served[caller]
            elif calls.by_callee_guard[edge] == GUARD_QUEUE:
                call_wait[caller] += lost * rows.timeout[callee]
            else:
                # Only requests that have not failed otherwise can fail by this call.
                fail[caller] += lost * (_ONE - fail[caller])
