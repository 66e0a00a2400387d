"""Pods against wishes: readiness, rolling deploys, and the difference to what is wanted."""

import math

import numpy as np

from models.cluster.arrays import I32
from models.cluster.observation import ACTIVE, PENDING, REPLICAS, STARTING
from models.jit import kernel
from models.sim.accounting import STOPPED, Accounts
from models.sim.groups import remove_newest, remove_oldest
from models.sim.layout import Rules
from models.sim.state import (
    BOUND,
    CANCELLED,
    DEPLOY_LEFT,
    DOWN,
    LEAK_HOURS,
    READY_RING,
    RESTART_RING,
    SURGE,
    State,
)


@kernel
def reconcile(st: State, acc: Accounts, e: int, rules: Rules, missing: I32) -> None:
    """Let pods become ready, move deploys on, and queue or stop pods until counts agree."""
    tick = st.env[e].tick
    status, hidden = st.status[e], st.hidden[e]
    _let_ready(status[STARTING], st.ready_ring[e, tick % READY_RING])
    _let_return(hidden[DOWN], hidden[BOUND], st.restart_ring[e, tick % RESTART_RING])
    _compare(
        status[REPLICAS], hidden[SURGE], status[ACTIVE], hidden[BOUND], status[PENDING], missing
    )
    _note_deploys(hidden[DEPLOY_LEFT], missing)
    for app in range(missing.size):
        if missing[app] != 0:
            _settle(st, acc, e, app, rules)


@kernel
def _settle(st: State, acc: Accounts, e: int, app: int, rules: Rules) -> None:
    if st.hidden[e, DEPLOY_LEFT, app] > 0:
        _move_deploy_on(st, acc, e, app, rules)
    missing = _missing_pods(st, e, app) - st.status[e, PENDING, app]
    if missing > 0:
        enqueue(st, e, app, missing)
    elif missing < 0:
        _stop(st, acc, e, app, -missing)


@kernel
def _missing_pods(st: State, e: int, app: int) -> int:
    """Wanted pods that are not on nodes."""
    wanted = st.status[e, REPLICAS, app] + st.hidden[e, SURGE, app]
    return int(wanted * st.status[e, ACTIVE, app] - st.hidden[e, BOUND, app])


@kernel
def _let_ready(starting: I32, becoming: I32) -> None:
    for app in range(starting.size):
        starting[app] -= becoming[app]
        becoming[app] = 0


@kernel
def _let_return(down: I32, bound: I32, returning: I32) -> None:
    """Containers come back; those of pods that are gone do not count any more."""
    for app in range(down.size):
        down[app] = min(max(np.int32(0), down[app] - returning[app]), bound[app])
        returning[app] = 0


@kernel
def _compare(
    replicas: I32, surge: I32, active: I32, bound: I32, pending: I32, missing: I32
) -> None:
    """Mark the few apps that need a closer look: their counts disagree."""
    for app in range(missing.size):
        wanted = (replicas[app] + surge[app]) * active[app]
        missing[app] = wanted - bound[app] - pending[app]


@kernel
def _note_deploys(deploy_left: I32, missing: I32) -> None:
    """Apps that are being deployed need one as well."""
    for app in range(missing.size):
        missing[app] |= deploy_left[app]


@kernel
def begin_deploy(st: State, acc: Accounts, e: int, app: int, rules: Rules) -> None:
    """Start a rolling deploy: surge up, and take the first unavailable pods down."""
    if st.hidden[e, DEPLOY_LEFT, app] > 0 or st.hidden[e, BOUND, app] == 0:
        return
    st.hidden[e, DEPLOY_LEFT, app] = st.hidden[e, BOUND, app]
    st.hidden[e, SURGE, app] = math.ceil(st.status[e, REPLICAS, app] * rules.physics[0].max_surge)
    _replace(
        st, acc, e, app, math.floor(st.status[e, REPLICAS, app] * rules.physics[0].max_unavailable)
    )


@kernel
def _move_deploy_on(st: State, acc: Accounts, e: int, app: int, rules: Rules) -> None:
    """The next batch goes when all pods of the last one are ready."""
    # Replacements of this very tick are not even queued yet: they are missing.
    if _missing_pods(st, e, app) > 0 or st.status[e, STARTING, app] > 0:
        return
    unavailable = math.floor(st.status[e, REPLICAS, app] * rules.physics[0].max_unavailable)
    _replace(st, acc, e, app, max(1, st.hidden[e, SURGE, app] + unavailable))
    if st.hidden[e, DEPLOY_LEFT, app] == 0:
        st.hidden[e, SURGE, app] = 0


@kernel
def _replace(st: State, acc: Accounts, e: int, app: int, count: int) -> None:
    """Stop pods of the old version; the missing ones are asked for as new pods."""
    count = min(count, st.hidden[e, DEPLOY_LEFT, app], st.hidden[e, BOUND, app])
    share = count / max(1, st.hidden[e, BOUND, app])
    st.flow[e, LEAK_HOURS, app] *= 1.0 - share
    remove_oldest(st, e, app, count)
    st.hidden[e, DEPLOY_LEFT, app] = min(
        st.hidden[e, DEPLOY_LEFT, app] - count, st.hidden[e, BOUND, app]
    )
    acc.totals[e, STOPPED] += count


@kernel
def _stop(st: State, acc: Accounts, e: int, app: int, count: int) -> None:
    """Pods without a node go first, then the youngest."""
    waiting = min(count, st.status[e, PENDING, app])
    st.status[e, PENDING, app] -= waiting
    st.hidden[e, CANCELLED, app] += waiting
    remove_newest(st, e, app, count - waiting)
    acc.totals[e, STOPPED] += count - waiting


@kernel
def enqueue(st: State, e: int, app: int, count: int) -> None:
    """Append pods to the pending queue; a full queue joins them to the app's last entry."""
    st.status[e, PENDING, app] += count
    last = st.env[e].queue_length
    if last == st.queue.shape[1]:
        _join(st, e, app, count)
        return
    st.queue[e, last].app = app
    st.queue[e, last].count = count
    st.queue[e, last].since = st.env[e].tick
    st.queue[e, last].asked = 0
    st.env[e].queue_length = last + 1


@kernel
def _join(st: State, e: int, app: int, count: int) -> None:
    """No pod may be lost: any entry of the app will do, its waiting time becomes too long.

    Without one the pods are left to the next tick, when the queue is shorter.
    """
    for entry in range(st.env[e].queue_length - 1, -1, -1):
        if st.queue[e, entry].app == app:
            st.queue[e, entry].count += count
            return
    st.status[e, PENDING, app] -= count
