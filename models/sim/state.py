"""Everything that changes in a world, as one named tuple of arrays, environment first.

Properties of all apps are rows of one array per number type, because loops over neighbouring
numbers vectorise. Things that kernels visit one by one (groups, queue entries, nodes) are records.

CPU is counted in millicores and memory in MiB, as in Kubernetes. Integers, so that a node that was
filled and emptied a million times is exactly as empty as before.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, FLOAT, I32, INT, LONG, Records, record_type
from models.cluster.description import MARKETS
from models.sim.apps import Apps
from models.sim.config.physics import (
    LONGEST_BACK_OFF_TICKS,
    LONGEST_GRACE_TICKS,
    LONGEST_RESTART_TICKS,
    LONGEST_WINDOW_TICKS,
)
from models.sim.rules import Layout

NONE: Final = -1
"""No index, no tick."""
READY_RING: Final = 64
"""Ticks from bound to ready that are kept apart; longer starts are cut to this."""
RESTART_RING: Final = LONGEST_RESTART_TICKS + LONGEST_BACK_OFF_TICKS + 1
"""Ticks ahead in which a container may be back."""
LEAVING_RING: Final = LONGEST_GRACE_TICKS + 1
"""Ticks for which the room of stopping pods is kept apart."""
SAMPLE_RING: Final = LONGEST_WINDOW_TICKS + 2
"""Ticks of measurements that are kept, so that pipelines of different lag can look back. A power of
two, so that the remainder of an unsigned index is a mask."""

EXPORTED: Final = rows.P99 + 1
"""The first rows of a sample: what an app's own exporter reports."""

# Rows of `State.hidden`: bookkeeping that no controller sees.
BOUND: Final = 0
"""Pods on nodes."""
DOWN: Final = 1
"""Containers that are being restarted."""
CANCELLED: Final = 2
"""Pods to drop from the pending queue."""
SURGE: Final = 3
"""Extra replicas of a rolling deploy."""
DEPLOY_LEFT: Final = 4
"""Pods of the old version that a rolling deploy has yet to replace."""
OLDEST: Final = 5
"""First group of the app's list."""
NEWEST: Final = 6
"""Last group of the app's list."""
RESIZE_TICK: Final = 7
"""When the pending resize takes effect; NONE without one."""
RESIZE_CPU: Final = 8
RESIZE_MEMORY: Final = 9
HIDDEN: Final = 10

# Rows of `State.flow`: traffic and queues of an app.
RATE: Final = 0
"""Requests per second from outside when this minute begins."""
RATE_NEXT: Final = 1
"""The same when the next minute begins."""
BOOST: Final = 2
"""Factor of the scenario's events on traffic."""
PAYLOAD: Final = 3
"""Factor of the scenario's events on the work per request."""
BACKLOG: Final = 4
"""Requests that wait."""
RETRY: Final = 5
"""Requests that come again in the next tick."""
PASSED: Final = 6
"""Share of the last tick's requests that the app finished and passes on to its callees."""
LEAKED: Final = 7
"""GiB per pod that the containers have leaked since they started, mean of the app."""
COLD: Final = 8
"""Pods that the app lacks in effect, because some of its pods are not warm yet."""
BACKED_OFF: Final = 9
"""Failed requests that wait for their retry."""
ADMITTED: Final = 10
"""Share of the calls from other apps that their circuit breakers let through in this tick."""
FLOWS: Final = 11

# Rows of `State.room`: what a node has free.
ROOM_CPU, ROOM_MEMORY, ROOM_PODS = range(3)
ROOMS: Final = 3

NODE_ABSENT: Final = 0
NODE_BOOTING: Final = 1
NODE_READY: Final = 2
NODE_LOST: Final = 3
"""Gone; `nodes.empty_lost` has yet to evict its pods."""

ENVIRONMENT: Final = record_type(
    seed=LONG,
    tick=INT,  # since the warm-up began
    free_group=INT,  # head of the free list
    groups_end=INT,  # one past the highest group that was ever used
    queue_length=INT,
    launch_length=INT,
    booting=INT,  # nodes of all pools
    lost=INT,  # nodes that are NODE_LOST
    launch_tokens=FLOAT,  # nodes the cloud would start at once
)

GROUP: Final = record_type(
    app=INT,
    node=INT,
    pool=INT,  # of the node, so that a change need not fetch the node's record
    count=INT,
    ready=INT,  # tick at which its pods become ready
    newer=INT,  # next group of the same app; also the free list
    older=INT,
)

NOT_REQUESTED: Final = 0
"""The provisioner has not accepted a node request for these pending pods."""
REQUESTED: Final = 1
"""The pods' own node request was accepted."""
COORDINATED: Final = 2
"""A plan coordinates the pods' pool, so they don't request nodes themselves."""

ENTRY: Final = record_type(
    app=INT,
    count=INT,
    since=INT,  # tick at which the pods were needed
    node_request=INT,  # NOT_REQUESTED, REQUESTED or COORDINATED
)

NODE: Final = record_type(
    state=INT,
    ready=INT,  # tick at which a booting node is ready
    market=INT,
    zone=INT,
)

POOL: Final = record_type(
    ready=INT,  # nodes
    booting=INT,
    pending_cpu=LONG,  # of pending pods that the provisioner counts for this pool
    pending_memory=LONG,
    first_app=INT,  # lowest index of an app that ever had pods in the pool
    end_app=INT,  # one past the highest
)

LAUNCH: Final = record_type(pool=INT, count=INT, priority=INT)

CRASH_LOOP: Final = record_type(
    deaths=FLOAT,  # of an app's mean container since it was last healthy
    last_death=INT,  # tick
)


class State(NamedTuple):
    """E environments, A apps, P pools, N node slots, G groups, Q queue entries, L launches."""

    env: Records
    """[E] of ENVIRONMENT."""
    status: I32
    """[E, STATUS, A]."""
    hidden: I32
    """[E, HIDDEN, A]."""
    placed: I32
    """[E, P, A] pods of an app on the nodes of a pool; over all pools they are BOUND."""
    flow: F32
    """[E, FLOWS, A]."""
    group: Records
    """[E, G] of GROUP."""
    queue: Records
    """[E, Q] of ENTRY: the pending queue, oldest first."""
    node: Records
    """[E, N] of NODE."""
    room: I32
    """[E, ROOMS, N] free millicores, MiB and pods; -1 unless the node is ready, so that nothing
    fits."""
    leaving: I32
    """[E, LEAVING_RING, ROOMS, N] room of pods that are stopping, by the tick they were told to."""
    underused_since: I32
    """[E, N] tick since which a ready node is under-used, NONE when it is not."""
    pool: Records
    """[E, P] of POOL."""
    pool_market: I32
    """[E, P, markets] existing nodes by market."""
    launch: Records
    """[E, L] of LAUNCH: accepted node requests that wait for the cloud, oldest first."""
    ready_ring: I32
    """[E, READY_RING, A] pods by the tick in which they become ready."""
    restart_ring: I32
    """[E, RESTART_RING, A] containers by the tick in which they are back."""
    crash_loop: Records
    """[E, A] of CRASH_LOOP."""
    samples: F32
    """[E, SAMPLE_RING, SAMPLES, A] true measurements of the last ticks."""
    stale: F32
    """[E, EXPORTED, A] what exporters repeat while they are stuck, see `observe`."""


def empty_state(seeds: list[int], apps: Apps, layout: Layout) -> State:
    """A state of the right shapes, without nodes and pods."""
    e, a = len(seeds), apps.domain.size
    state = State(
        env=np.zeros(e, ENVIRONMENT),
        status=np.zeros((e, rows.STATUS, a), np.int32),
        hidden=np.zeros((e, HIDDEN, a), np.int32),
        placed=np.zeros((e, layout.pools, a), np.int32),
        flow=np.zeros((e, FLOWS, a), np.float32),
        group=np.zeros((e, layout.groups), GROUP),
        queue=np.zeros((e, layout.queue), ENTRY),
        node=np.zeros((e, layout.nodes), NODE),
        room=np.full((e, ROOMS, layout.nodes), NONE, np.int32),
        leaving=np.zeros((e, LEAVING_RING, ROOMS, layout.nodes), np.int32),
        underused_since=np.full((e, layout.nodes), NONE, np.int32),
        pool=np.zeros((e, layout.pools), POOL),
        pool_market=np.zeros((e, layout.pools, len(MARKETS)), np.int32),
        launch=np.zeros((e, layout.launches), LAUNCH),
        ready_ring=np.zeros((e, READY_RING, a), np.int32),
        restart_ring=np.zeros((e, RESTART_RING, a), np.int32),
        crash_loop=np.zeros((e, a), CRASH_LOOP),
        samples=np.zeros((e, SAMPLE_RING, rows.SAMPLES, a), np.float32),
        stale=np.zeros((e, EXPORTED, a), np.float32),
    )
    state.env["seed"] = seeds
    # Factors and shares, which are 1 while nothing happens.
    state.flow[:, (BOOST, PAYLOAD, PASSED, ADMITTED)] = 1
    state.hidden[:, (RESIZE_TICK, OLDEST, NEWEST)] = NONE
    state.status[:, rows.ACTIVE] = 1
    state.status[:, rows.DOMAIN] = apps.domain
    # All groups are free: a linked list from the first to the last.
    state.group["newer"] = np.arange(1, layout.groups + 1)
    state.group["newer"][:, -1] = NONE
    # An empty range of apps, which `add_group` widens.
    state.pool["first_app"] = a
    return state


def copy_state(state: State) -> State:
    """An independent copy, bit for bit."""
    return State._make(array.copy() for array in state)
