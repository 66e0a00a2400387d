"""The ReplicaSet controllers: readiness, rolling deploys, and pods to start or stop."""

import math

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, I32
from models.jit import kernel
from models.sim.accounting import STOPPED, Accounts
from models.sim.groups import remove_newest, remove_oldest
from models.sim.rules import ClusterRules
from models.sim.state import (
    BOUND,
    CANCELLED,
    COLD,
    DEPLOY_LEFT,
    DOWN,
    LEAKED,
    NOT_REQUESTED,
    READY_RING,
    RESTART_RING,
    SURGE,
    State,
)


@kernel
def reconcile(st: State, acc: Accounts, e: int, rules: ClusterRules, missing: I32) -> None:
    """Make started pods ready, advance deploys, and queue or stop pods until counts agree."""
    tick = st.env[e].tick
    status, hidden = st.status[e], st.hidden[e]
    # First, so that a deploy goes on in the tick in which its last batch is ready.
    becoming, physics = st.ready_ring[e, tick % READY_RING], rules.physics[0]
    _warm_up(st.flow[e, COLD], becoming, physics.cold_left, physics.cold_share)
    _finish_starts(status[rows.STARTING], becoming)
    _finish_restarts(hidden[DOWN], hidden[BOUND], st.restart_ring[e, tick % RESTART_RING])
    _compare(
        status[rows.REPLICAS],
        hidden[SURGE],
        status[rows.ACTIVE],
        hidden[BOUND],
        status[rows.PENDING],
        missing,
    )
    _add_deploys(hidden[DEPLOY_LEFT], missing)
    for app in range(missing.size):
        if missing[app] != 0:
            _settle(st, acc, e, app, rules)


@kernel
def _settle(st: State, acc: Accounts, e: int, app: int, rules: ClusterRules) -> None:
    if st.hidden[e, DEPLOY_LEFT, app] > 0:
        _advance_deploy(st, acc, e, app, rules)
    missing = _missing_pods(st, e, app) - st.status[e, rows.PENDING, app]
    if missing > 0:
        enqueue(st, e, app, missing)
    elif missing < 0:
        _stop(st, acc, e, app, -missing)


@kernel
def _missing_pods(st: State, e: int, app: int) -> int:
    """Wanted pods that are not on nodes."""
    wanted = st.status[e, rows.REPLICAS, app] + st.hidden[e, SURGE, app]
    return int(wanted * st.status[e, rows.ACTIVE, app] - st.hidden[e, BOUND, app])


@kernel
def _warm_up(cold: F32, becoming: I32, left: np.float32, share: np.float32) -> None:
    """Pods get warm exponentially; those that become ready now lack a share of their speed."""
    for app in range(cold.size):
        cold[app] = cold[app] * left + np.float32(becoming[app]) * share


@kernel
def _finish_starts(starting: I32, becoming: I32) -> None:
    for app in range(starting.size):
        starting[app] -= becoming[app]
        becoming[app] = 0


@kernel
def _finish_restarts(down: I32, bound: I32, returning: I32) -> None:
    """Containers come back; those of pods that were removed meanwhile no longer count."""
    for app in range(down.size):
        down[app] = min(max(np.int32(0), down[app] - returning[app]), bound[app])
        returning[app] = 0


@kernel
def _compare(
    replicas: I32, surge: I32, active: I32, bound: I32, pending: I32, missing: I32
) -> None:
    """Find the few apps whose pod counts differ from what is wanted."""
    for app in range(missing.size):
        wanted = (replicas[app] + surge[app]) * active[app]
        missing[app] = wanted - bound[app] - pending[app]


@kernel
def _add_deploys(deploy_left: I32, missing: I32) -> None:
    """Mark the apps that are being deployed, too."""
    for app in range(missing.size):
        missing[app] |= deploy_left[app]


@kernel
def begin_deploy(st: State, acc: Accounts, e: int, app: int, rules: ClusterRules) -> None:
    """Start a rolling deploy: add the surge, and stop the first unavailable pods."""
    # A deploy that is under way already replaces all pods.
    if st.hidden[e, DEPLOY_LEFT, app] > 0 or st.hidden[e, BOUND, app] == 0:
        return
    st.hidden[e, DEPLOY_LEFT, app] = st.hidden[e, BOUND, app]
    st.hidden[e, SURGE, app] = math.ceil(
        st.status[e, rows.REPLICAS, app] * rules.physics[0].max_surge
    )
    # The surge replaces old pods only once it is ready, see `_advance_deploy`.
    _replace(
        st,
        acc,
        e,
        app,
        math.floor(st.status[e, rows.REPLICAS, app] * rules.physics[0].max_unavailable),
    )


@kernel
def _advance_deploy(st: State, acc: Accounts, e: int, app: int, rules: ClusterRules) -> None:
    """Replace the next batch when all pods of the last one are ready."""
    # Replacements of this tick are not queued yet, so they count as missing.
    if _missing_pods(st, e, app) > 0 or st.status[e, rows.STARTING, app] > 0:
        return
    unavailable = math.floor(st.status[e, rows.REPLICAS, app] * rules.physics[0].max_unavailable)
    # At least one: if both shares round to zero, the deploy would never end.
    _replace(st, acc, e, app, max(1, st.hidden[e, SURGE, app] + unavailable))
    if st.hidden[e, DEPLOY_LEFT, app] == 0:
        st.hidden[e, SURGE, app] = 0


@kernel
def _replace(st: State, acc: Accounts, e: int, app: int, count: int) -> None:
    """Stop pods of the old version; reconciling queues new pods for them."""
    count = min(count, st.hidden[e, DEPLOY_LEFT, app], st.hidden[e, BOUND, app])
    # New containers start without leaked memory, which lowers the app's mean.
    share = count / max(1, st.hidden[e, BOUND, app])
    st.flow[e, LEAKED, app] *= 1.0 - share
    remove_oldest(st, e, app, count)
    st.hidden[e, DEPLOY_LEFT, app] = min(
        st.hidden[e, DEPLOY_LEFT, app] - count, st.hidden[e, BOUND, app]
    )
    acc.totals[e, STOPPED] += count


@kernel
def _stop(st: State, acc: Accounts, e: int, app: int, count: int) -> None:
    """Stop pods without a node first, then the youngest."""
    waiting = min(count, st.status[e, rows.PENDING, app])
    st.status[e, rows.PENDING, app] -= waiting
    # The queue is not searched here: `schedule` drops cancelled pods in one pass.
    st.hidden[e, CANCELLED, app] += waiting
    remove_newest(st, e, app, count - waiting)
    acc.totals[e, STOPPED] += count - waiting


@kernel
def enqueue(st: State, e: int, app: int, count: int) -> None:
    """Append pods to the pending queue, or to the app's last entry when the queue is full."""
    st.status[e, rows.PENDING, app] += count
    last = st.env[e].queue_length
    if last == st.queue.shape[1]:
        _join(st, e, app, count)
        return
    st.queue[e, last].app = app
    st.queue[e, last].count = count
    st.queue[e, last].since = st.env[e].tick
    st.queue[e, last].node_request = NOT_REQUESTED
    st.env[e].queue_length = last + 1


@kernel
def _join(st: State, e: int, app: int, count: int) -> None:
    """Add pods to the app's last entry, which makes their waiting time too long.

    Without an entry the pods stay missing until the next tick, when the queue is shorter.
    """
    for entry in range(st.env[e].queue_length - 1, -1, -1):
        if st.queue[e, entry].app == app:
            st.queue[e, entry].count += count
            return
    st.status[e, rows.PENDING, app] -= count
