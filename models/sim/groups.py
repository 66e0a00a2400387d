"""Groups of pods, linked per app from oldest to newest.

A group is pods of one app that were bound to one node in one tick and become ready together.
There is no list per node: nodes are lost so rarely that a scan over all groups costs no more, and
one list less has to be kept consistent. Only this module changes the counts of bound and starting
pods and the free capacity of nodes, so they cannot disagree. Pods that stop serve no more, and
their room becomes free when their grace period is over.
"""

from models.cluster import rows
from models.cluster.arrays import I32
from models.jit import kernel
from models.sim.state import (
    BOUND,
    LEAVING_RING,
    NEWEST,
    NODE_LOST,
    NONE,
    OLDEST,
    READY_RING,
    ROOM_CPU,
    ROOM_MEMORY,
    ROOM_PODS,
    State,
)


@kernel
def add_group(
    st: State, e: int, app: int, node: int, pool: int, count: int, ready_tick: int
) -> None:
    """Bind `count` pods to `node`. The caller checks that they fit and that a group is free."""
    group = st.env[e].free_group
    # Free groups are linked through `newer`.
    st.env[e].free_group = st.group[e, group].newer
    st.env[e].groups_end = max(st.env[e].groups_end, group + 1)
    st.group[e, group].app = app
    st.group[e, group].node = node
    st.group[e, group].pool = pool
    st.group[e, group].count = count
    st.group[e, group].ready = ready_tick
    # Never narrowed: `idle_cores` skips the apps outside, so a range too wide is only slower.
    st.pool[e, pool].first_app = min(st.pool[e, pool].first_app, app)
    st.pool[e, pool].end_app = max(st.pool[e, pool].end_app, app + 1)
    _link_app(st, e, group, app)
    _occupy(st, e, app, node, pool, count)
    # At tick 0 pods are bound as ready ones.
    if ready_tick > st.env[e].tick:
        st.status[e, rows.STARTING, app] += count
        st.ready_ring[e, ready_tick % READY_RING, app] += count


@kernel
def take_from_group(st: State, e: int, group: int, count: int) -> None:
    """Remove `count` pods of a group; an empty group returns to the free list."""
    app = st.group[e, group].app
    _leave(st, e, app, st.group[e, group].node, st.group[e, group].pool, count)
    ready_tick = st.group[e, group].ready
    # Starting pods leave the ready ring as well, or they would become ready after all.
    if ready_tick > st.env[e].tick:
        st.status[e, rows.STARTING, app] -= count
        st.ready_ring[e, ready_tick % READY_RING, app] -= count
    st.group[e, group].count -= count
    if st.group[e, group].count == 0:
        _unlink_app(st, e, group, app)
        st.group[e, group].newer = st.env[e].free_group
        st.env[e].free_group = group


@kernel
def remove_newest(st: State, e: int, app: int, count: int) -> None:
    """Remove the youngest pods first, as a ReplicaSet does when it scales in."""
    _remove_from_end(st, e, app, count, NEWEST)


@kernel
def remove_oldest(st: State, e: int, app: int, count: int) -> None:
    """Remove the oldest pods first, as a rolling deploy does."""
    _remove_from_end(st, e, app, count, OLDEST)


@kernel
def _remove_from_end(st: State, e: int, app: int, count: int, end: int) -> None:
    """Remove pods from one end (OLDEST or NEWEST) of the app's list, or all if there are fewer."""
    while count > 0 and st.hidden[e, end, app] != NONE:
        # Taking all pods of a group unlinks it, so the next group is at the end then.
        group = st.hidden[e, end, app]
        taken = min(count, st.group[e, group].count)
        take_from_group(st, e, group, taken)
        count -= taken


@kernel
def remove_all_on_lost_nodes(st: State, e: int) -> int:
    """Evict every pod of the lost nodes and return how many; reconciling starts them again."""
    removed = 0
    for group in range(st.env[e].groups_end):
        count = st.group[e, group].count
        if count > 0 and st.node[e, st.group[e, group].node].state == NODE_LOST:
            removed += count
            take_from_group(st, e, group, count)
    return removed


@kernel
def resize_groups(st: State, e: int, app: int, cpu: int, memory: int) -> tuple[int, int]:
    """Change the request of the app's pods in place where their node has room; evict the others.

    Returns the number of pods resized in place and of pods that have to restart elsewhere.
    """
    more_cpu = cpu - st.status[e, rows.CPU_REQUEST, app]
    more_memory = memory - st.status[e, rows.MEMORY_REQUEST, app]
    in_place = 0
    refused = 0
    group = st.hidden[e, OLDEST, app]
    while group != NONE:
        # Read the link first: taking all pods frees the group.
        following = st.group[e, group].newer
        node, count = st.group[e, group].node, st.group[e, group].count
        fits = count
        # A smaller request always fits.
        if more_cpu > 0:
            fits = min(fits, max(0, st.room[e, ROOM_CPU, node]) // more_cpu)
        if more_memory > 0:
            fits = min(fits, max(0, st.room[e, ROOM_MEMORY, node]) // more_memory)
        if fits < count:
            take_from_group(st, e, group, count - fits)
        st.room[e, ROOM_CPU, node] -= fits * more_cpu
        st.room[e, ROOM_MEMORY, node] -= fits * more_memory
        in_place += fits
        refused += count - fits
        group = following
    # Last, because `take_from_group` frees what the pods requested before.
    st.status[e, rows.CPU_REQUEST, app] = cpu
    st.status[e, rows.MEMORY_REQUEST, app] = memory
    return in_place, refused


@kernel
def _occupy(st: State, e: int, app: int, node: int, pool: int, count: int) -> None:
    st.hidden[e, BOUND, app] += count
    st.placed[e, pool, app] += count
    st.room[e, ROOM_PODS, node] -= count
    st.room[e, ROOM_CPU, node] -= count * st.status[e, rows.CPU_REQUEST, app]
    st.room[e, ROOM_MEMORY, node] -= count * st.status[e, rows.MEMORY_REQUEST, app]


@kernel
def _leave(st: State, e: int, app: int, node: int, pool: int, count: int) -> None:
    st.hidden[e, BOUND, app] -= count
    st.placed[e, pool, app] -= count
    # A lost node has no room to give back.
    if st.node[e, node].state != NODE_LOST:
        slot = st.env[e].tick % LEAVING_RING
        st.leaving[e, slot, ROOM_PODS, node] += count
        st.leaving[e, slot, ROOM_CPU, node] += count * st.status[e, rows.CPU_REQUEST, app]
        st.leaving[e, slot, ROOM_MEMORY, node] += count * st.status[e, rows.MEMORY_REQUEST, app]


@kernel
def free_room(st: State, e: int, grace_ticks: int) -> None:
    """Give back the room of pods whose grace period is over."""
    slot = (st.env[e].tick - grace_ticks) % LEAVING_RING
    for kind in range(st.room.shape[1]):
        _move_row(st.leaving[e, slot, kind], st.room[e, kind])


@kernel
def free_room_now(st: State, e: int, node: int) -> None:
    """Give back the room of pods that were told to stop in this tick."""
    slot = st.env[e].tick % LEAVING_RING
    for kind in range(st.room.shape[1]):
        st.room[e, kind, node] += st.leaving[e, slot, kind, node]
        st.leaving[e, slot, kind, node] = 0


@kernel
def _move_row(source: I32, target: I32) -> None:
    for index in range(target.size):
        target[index] += source[index]
        source[index] = 0


@kernel
def _link_app(st: State, e: int, group: int, app: int) -> None:
    last = st.hidden[e, NEWEST, app]
    st.group[e, group].older = last
    st.group[e, group].newer = NONE
    if last == NONE:
        st.hidden[e, OLDEST, app] = group
    else:
        st.group[e, last].newer = group
    st.hidden[e, NEWEST, app] = group


@kernel
def _unlink_app(st: State, e: int, group: int, app: int) -> None:
    older, newer = st.group[e, group].older, st.group[e, group].newer
    if older == NONE:
        st.hidden[e, OLDEST, app] = newer
    else:
        st.group[e, older].newer = newer
    if newer == NONE:
        st.hidden[e, NEWEST, app] = older
    else:
        st.group[e, newer].older = older
