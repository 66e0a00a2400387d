"""Invariants that must hold in a world after every tick, under any controller.

Everything is recounted from the groups of pods and compared with the counts that the kernels
maintain, so a wrong count is found in the tick in which it goes wrong.
"""

from collections.abc import Iterator

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F64, I64, Mask
from models.sim.accounting import ARRIVED, FAILED, SERVED
from models.sim.state import (
    BACKLOG,
    BOUND,
    CANCELLED,
    DOWN,
    NEWEST,
    NODE_ABSENT,
    NODE_BOOTING,
    NODE_READY,
    NONE,
    OLDEST,
    ROOM_CPU,
    ROOM_MEMORY,
    ROOM_PODS,
    SURGE,
    State,
)
from models.sim.world import World


def broken_invariants(world: World) -> list[str]:
    """One line for each count that disagrees with the existing pods and nodes."""
    found: list[str] = []
    for e in range(world.environments):
        groups = _used_groups(world.state, e)
        for check in (_apps, _placement, _queue, _links, _nodes, _pools):
            found += [f"environment {e}: {line}" for line in check(world, e, groups)]
    return found


def flow_residuals(world: World, backlog: F64, requests: F64) -> F64:
    """[E, A] arrivals + backlog before - served - failed - backlog after, over the first two.

    `backlog` and `requests` (of the current minute) are those before the last tick of `world`.
    """
    in_tick = world.accounts.minute_requests.astype(np.float64) - requests
    after = world.state.flow[:, BACKLOG].astype(np.float64)
    handled = in_tick[:, SERVED] + in_tick[:, FAILED] + after
    offered = in_tick[:, ARRIVED] + backlog
    # Relative, because float32 sums lose precision with their size.
    return np.asarray(np.abs(offered - handled) / np.maximum(offered, 1.0))


def _used_groups(state: State, e: int) -> I64:
    """Indices of the groups with pods: all that are not in the free list."""
    newer, free = state.group["newer"][e], np.zeros(state.group.shape[1], bool)
    group = int(state.env["free_group"][e])
    # Also ends if the free list is a ring; `_apps` reports that.
    while group != NONE and not free[group]:
        free[group] = True
        group = int(newer[group])
    return np.flatnonzero(~free)


def _apps(world: World, e: int, groups: I64) -> Iterator[str]:
    state = world.state
    status, hidden, group = state.status[e], state.hidden[e], state.group[e][groups]
    apps = status.shape[1]
    # A broken free list (a ring) leaves groups without pods here.
    if (group["count"] <= 0).any():
        yield "a group without pods is not in the free list"
    if (np.bincount(group["app"], group["count"], apps) != hidden[BOUND]).any():
        yield "bound pods differ from the pods of the groups"
    # The tick is already counted: pods that become ready in the next one are still starting.
    young = group[group["ready"] >= state.env["tick"][e]]
    if (np.bincount(young["app"], young["count"], apps) != status[rows.STARTING]).any():
        yield "starting pods differ from the groups that are not ready"
    if (state.ready_ring[e].sum(axis=0) != status[rows.STARTING]).any():
        yield "starting pods differ from the ready ring"
    # The ring may have more: containers whose pods were removed meanwhile.
    if (state.restart_ring[e].sum(axis=0) < hidden[DOWN]).any():
        yield "more containers are down than the restart ring has"
    wanted = (status[rows.REPLICAS] + hidden[SURGE]) * status[rows.ACTIVE]
    # Fewer are possible: when the queue is full, pods stay missing for a tick.
    if (hidden[BOUND] + status[rows.PENDING] > wanted).any():
        yield "an app has more pods than are wanted"


def _placement(world: World, e: int, groups: I64) -> Iterator[str]:
    state, group = world.state, world.state.group[e][groups]
    placed = np.zeros_like(state.placed[e])
    pool = world.given.rules.node_pool[group["node"]]
    if (pool != group["pool"]).any():
        yield "a group is not in the pool of its node"
    np.add.at(placed, (pool, group["app"]), group["count"])
    if (placed != state.placed[e]).any():
        yield "pods by pool differ from the nodes of the groups"


def _queue(world: World, e: int, _groups: I64) -> Iterator[str]:
    state = world.state
    queue = state.queue[e][: state.env["queue_length"][e]]
    waiting = np.bincount(queue["app"], queue["count"], state.status.shape[2])
    # Cancelled pods stay in the queue until the scheduler drops them.
    if (waiting - state.hidden[e, CANCELLED] != state.status[e, rows.PENDING]).any():
        yield "pending pods differ from the queue without cancelled pods"
    if (state.status[e, rows.PENDING] < 0).any() or (queue["count"] <= 0).any():
        yield "the queue has an entry without pods"


def _links(world: World, e: int, groups: I64) -> Iterator[str]:
    """The linked list of an app's groups is consistent in both directions and at its ends."""
    group, hidden = world.state.group[e], world.state.hidden[e]
    used = group[groups]
    inner = used["newer"] != NONE
    if (group["older"][used["newer"][inner]] != groups[inner]).any():
        yield "the newer group of a group does not link back to it"
    if (groups >= world.state.env["groups_end"][e]).any():
        yield "a group with pods is beyond groups_end"
    for end, link in ((OLDEST, "older"), (NEWEST, "newer")):
        last = used[link] == NONE
        expected = np.full(hidden.shape[1], NONE)
        expected[used["app"][last]] = groups[last]
        if last.sum() != (expected != NONE).sum() or (expected != hidden[end]).any():
            yield f"an app's list of groups does not end at its {link} end"


def _nodes(world: World, e: int, groups: I64) -> Iterator[str]:
    state, rules = world.state, world.given.rules
    node, room, used = state.node[e], state.room[e], state.group[e][groups]
    pool = rules.pools[rules.node_pool]
    ready = node["state"] == NODE_READY
    pods = np.bincount(used["node"], used["count"], node.size)
    leaving = state.leaving[e].sum(axis=0)
    if (leaving[:, ~ready] != 0).any() or (leaving < 0).any():
        yield "pods are stopping on a node that is not ready"
    if (room[ROOM_PODS][ready] != (pool["max_pods"] - pods - leaving[ROOM_PODS])[ready]).any():
        yield "a node's free pod slots differ from its groups"
    if (pods[~ready] > 0).any():
        yield "a node that is not ready has pods"
    if (pods > pool["max_pods"]).any():
        yield "a node has more pods than it may have"
    resources = (
        (ROOM_CPU, rows.CPU_REQUEST, "cpu"),
        (ROOM_MEMORY, rows.MEMORY_REQUEST, "memory"),
    )
    for row, request, size in resources:
        held = np.bincount(
            used["node"], used["count"] * state.status[e, request][used["app"]], node.size
        )
        if (room[row][ready] != (pool[size] - held - leaving[row])[ready]).any():
            yield f"a node's free {size} differs from allocatable less requested"
        if (room[row][ready] < 0).any():
            yield f"a node is above its allocatable {size}"
        if (room[row][~ready] != NONE).any():
            yield f"a node that is not ready offers {size}"


def _pools(world: World, e: int, _groups: I64) -> Iterator[str]:
    state, rules = world.state, world.given.rules
    node, pools = state.node[e], rules.pools.size
    pool_of = rules.node_pool

    def count(mask: Mask) -> I64:
        return np.bincount(pool_of[mask], minlength=pools)

    if (count(node["state"] == NODE_READY) != state.pool["ready"][e]).any():
        yield "a pool's ready nodes differ from its nodes"
    booting = count(node["state"] == NODE_BOOTING)
    if (booting != state.pool["booting"][e]).any() or booting.sum() != state.env["booting"][e]:
        yield "a pool's booting nodes differ from its nodes"
    existing = node["state"] != NODE_ABSENT
    for market in range(state.pool_market.shape[2]):
        bought = count(existing & (node["market"] == market))
        if (bought != state.pool_market[e, :, market]).any():
            yield "billed nodes differ from existing nodes"
