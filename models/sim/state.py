"""Everything that changes in a world, as one named tuple of arrays, environment first.

What every app has stands in rows of one array per kind of number, because the loops over all
apps then run over neighbours and are vectorised; what is visited one by one stands in records.

CPU is counted in millicores and memory in MiB, as Kubernetes does: integers, so that a node
that was filled and emptied a million times is exactly as empty as before.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, I32
from models.cluster.description import MARKETS
from models.cluster.observation import ACTIVE, DOMAIN, SAMPLES, STATUS
from models.cluster.records import FLOAT, INT, LONG, Records, record_type
from models.sim.apps import Apps
from models.sim.describe.physics import (
    LONGEST_BACK_OFF_TICKS,
    LONGEST_LAG_TICKS,
    LONGEST_RESTART_TICKS,
)
from models.sim.layout import Layout

NONE: Final = -1
READY_RING: Final = 64
"""Ticks ahead that a starting pod may become ready; longer starts are cut to this."""
RESTART_RING: Final = LONGEST_RESTART_TICKS + LONGEST_BACK_OFF_TICKS + 1
SAMPLE_RING: Final = LONGEST_LAG_TICKS + 2
"""Ticks of measurements kept, so that pipelines of different lag can look back."""

# Rows of `State.hidden`: bookkeeping that no controller sees.
BOUND, DOWN, CANCELLED, SURGE, DEPLOY_LEFT, OLDEST, NEWEST, RESIZE_TICK, RESIZE_CPU = range(9)
"""Pods on nodes, containers being restarted, pods to drop from the queue, extra replicas of a
rolling deploy, pods of the old version left, first and last group, resize that is on its way."""
RESIZE_MEMORY: Final = 9
HIDDEN: Final = 10

# Rows of `State.flow`: traffic and queues of an app.
RATE, RATE_NEXT, BOOST, PAYLOAD, BACKLOG, RETRY, PASSED, LEAK_HOURS = range(8)
"""Requests per second from outside when this and the next minute begin, factors of the
scenario's events on traffic and on work per request, requests waiting, requests that come
again, share that got through last tick, mean age of the containers (for memory growth)."""
FLOWS: Final = 8

ROOM_CPU, ROOM_MEMORY, ROOM_PODS = range(3)
ROOMS: Final = 3

NODE_ABSENT: Final = 0
NODE_BOOTING: Final = 1
NODE_READY: Final = 2
NODE_LOST: Final = 3
"""Gone, with pods that `nodes.empty_lost` is about to take away."""

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

NOT_HEARD, HEARD, SPOKEN_FOR = range(3)
"""Whether the provisioner knows of pending pods: not yet, from themselves, or from a plan that
coordinates their pool."""

ENTRY: Final = record_type(
    app=INT,
    count=INT,
    since=INT,  # tick at which the pods were needed
    asked=INT,  # NOT_HEARD, HEARD or SPOKEN_FOR
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
    asked_cpu=LONG,  # of pending pods the provisioner knows of
    asked_memory=LONG,
    first_app=INT,  # apps that ever had pods in the pool lie from here
    end_app=INT,  # to one before here
)

LAUNCH: Final = record_type(pool=INT, count=INT, priority=INT)

LOOP: Final = record_type(
    level=FLOAT,  # deaths of an app's mean container since it was last healthy
    died=INT,  # tick of the last death
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
    low: I32
    """[E, N] tick since which a ready node is under-used, NONE when it is not."""
    pool: Records
    """[E, P] of POOL."""
    pool_market: I32
    """[E, P, markets] existing nodes by how they were bought."""
    launch: Records
    """[E, L] of LAUNCH: node requests that wait for the cloud, oldest first."""
    ready_ring: I32
    """[E, READY_RING, A] pods that become ready in a tick to come."""
    restart_ring: I32
    """[E, RESTART_RING, A] containers that are back in a tick to come."""
    loop: Records
    """[E, A] of LOOP: how often containers died of late."""
    samples: F32
    """[E, SAMPLE_RING, SAMPLES, A] true measurements of the last ticks."""


def empty_state(seeds: list[int], apps: Apps, layout: Layout) -> State:
    """A state of the right shapes with nothing in it."""
    e, a = len(seeds), apps.domain.size
    state = State(
        env=np.zeros(e, ENVIRONMENT),
        status=np.zeros((e, STATUS, a), np.int32),
        hidden=np.zeros((e, HIDDEN, a), np.int32),
        placed=np.zeros((e, layout.pools, a), np.int32),
        flow=np.zeros((e, FLOWS, a), np.float32),
        group=np.zeros((e, layout.groups), GROUP),
        queue=np.zeros((e, layout.queue), ENTRY),
        node=np.zeros((e, layout.nodes), NODE),
        room=np.full((e, ROOMS, layout.nodes), NONE, np.int32),
        low=np.full((e, layout.nodes), NONE, np.int32),
        pool=np.zeros((e, layout.pools), POOL),
        pool_market=np.zeros((e, layout.pools, len(MARKETS)), np.int32),
        launch=np.zeros((e, layout.launches), LAUNCH),
        ready_ring=np.zeros((e, READY_RING, a), np.int32),
        restart_ring=np.zeros((e, RESTART_RING, a), np.int32),
        loop=np.zeros((e, a), LOOP),
        samples=np.zeros((e, SAMPLE_RING, SAMPLES, a), np.float32),
    )
    state.env["seed"] = seeds
    state.flow[:, (BOOST, PAYLOAD, PASSED)] = 1
    state.hidden[:, (RESIZE_TICK, OLDEST, NEWEST)] = NONE
    state.status[:, ACTIVE] = 1
    state.status[:, DOMAIN] = apps.domain
    state.group["newer"] = np.arange(1, layout.groups + 1)
    state.group["newer"][:, -1] = NONE
    state.pool["first_app"] = a
    return state


def copy_state(state: State) -> State:
    """An independent copy, bit for bit."""
    return State._make(array.copy() for array in state)
