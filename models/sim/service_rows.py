"""The population as the service formulas take it: one plain row per property."""

from typing import NamedTuple

import numpy as np

from models.cluster.arrays import F32, I8, I32
from models.sim.apps import Apps, Calls
from models.sim.erlang import U32


class CallRows(NamedTuple):
    """The call graph, one row per property; unsigned indices spare numba's wrap-around check."""

    caller: U32
    """Of the walk forward, the outermost callers first."""
    callee: U32
    per_request: F32
    callers: U32
    """Apps that call, the innermost first, and of those the ones with as many calls side by side:
    a processor foresees the end of a loop that is as long as the last one."""
    home_first: U32
    """[callers + 1] where the calls of each of them begin in the rows below."""
    home_callee: U32
    home_per_request: F32
    callees: U32
    """Apps that are called, the innermost first."""
    first: U32
    """[callees + 1] where the calls of each of them begin in the rows below."""
    back_caller: U32
    """Callers, sorted by callee as in `callees`."""
    back_per_request: F32
    back_guard: I8


def call_rows(calls: Calls) -> CallRows:
    """The rows of a population, forward by caller and backward by callee."""
    last_call = np.zeros(int(calls.callee.max(initial=-1)) + 1, np.int64)
    # Edges are sorted by caller, outermost first: an app's last edge tells its depth.
    np.maximum.at(last_call, calls.callee, np.arange(calls.callee.size))
    depth = call_depth(calls)[calls.caller]
    # Side by side stand calls that add to different apps: an addition to a number in memory
    # takes several times as long when it has to wait for the last one to the same number.
    forth = np.lexsort((_turns(calls.callee), depth))
    _, count_of, counts = np.unique(calls.caller, return_inverse=True, return_counts=True)
    home = np.lexsort((calls.caller, counts[count_of], -depth))
    callers, home_starts = _runs(calls.caller[home])
    inner_first = np.argsort(-last_call[calls.callee], kind="stable")
    callees, starts = _runs(calls.callee[inner_first])
    return CallRows(
        caller=calls.caller[forth].astype(np.uint32),
        callee=calls.callee[forth].astype(np.uint32),
        per_request=calls.per_request[forth],
        callers=callers.astype(np.uint32),
        home_first=home_starts,
        home_callee=calls.callee[home].astype(np.uint32),
        home_per_request=calls.per_request[home],
        callees=callees.astype(np.uint32),
        first=starts,
        back_caller=calls.caller[inner_first].astype(np.uint32),
        back_per_request=calls.per_request[inner_first],
        back_guard=calls.guard[inner_first],
    )


def call_depth(calls: Calls) -> I32:
    """[apps that call or are called] calls on the longest way from outside to each app."""
    apps = 1 + max(int(calls.caller.max(initial=-1)), int(calls.callee.max(initial=-1)))
    depth = np.zeros(apps, np.int32)
    for caller, callee in zip(calls.caller, calls.callee, strict=True):
        depth[callee] = max(depth[callee], depth[caller] + 1)
    return depth


def _runs(apps: I32) -> tuple[I32, U32]:
    """Apps of neighbouring calls of the same app, and where each run of calls begins and ends."""
    starts = np.flatnonzero(np.diff(apps, prepend=-1))
    return apps[starts], np.append(starts, apps.size).astype(np.uint32)


def _turns(apps: I32) -> I32:
    """[calls] how many calls of the same app come before each."""
    order = np.argsort(apps, kind="stable")
    _, first, counts = np.unique(apps[order], return_index=True, return_counts=True)
    turns = np.zeros(apps.size, np.int32)
    turns[order] = np.arange(apps.size) - np.repeat(first, counts)
    return turns


class Traits(NamedTuple):
    """What the service formulas need of each app, one row each."""

    limit_ratio: F32
    start_limit: F32
    """CPU limit at the start, at most one core: a pod with a lower limit is slower per request."""
    workers: F32
    cpu_seconds: F32
    io_seconds: F32
    memory_base: F32
    memory_per_request: F32
    memory_leak: F32
    target: F32
    timeout: F32
    retry_share: F32


def service_traits(apps: Apps) -> Traits:
    """The rows of a population."""
    return Traits(
        limit_ratio=apps.cpu_limit_ratio,
        start_limit=np.minimum(np.float32(1.0), apps.cpu_request * apps.cpu_limit_ratio),
        workers=apps.workers_per_core,
        cpu_seconds=apps.cpu_seconds,
        io_seconds=apps.io_seconds,
        memory_base=apps.memory_base,
        memory_per_request=apps.memory_per_request,
        memory_leak=apps.memory_leak,
        target=apps.latency_target,
        timeout=apps.timeout,
        retry_share=apps.retry_share,
    )
