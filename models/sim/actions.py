"""Apply a plan: replica counts change at once, resizes take effect after a tick or two."""

from models.cluster import rows
from models.cluster.arrays import I32, Records
from models.cluster.plan import Plan
from models.jit import kernel
from models.sim.accounting import (
    CPU_SIZE,
    HORIZONTAL,
    MEMORY_SIZE,
    REFUSED,
    RESIZED,
    REVERSAL_MINUTES,
    STOPPED,
    Accounts,
    count_change,
)
from models.sim.draws import Purpose, as_uniform, draw, stream
from models.sim.groups import resize_groups
from models.sim.rules import ClusterRules
from models.sim.state import NONE, RESIZE_CPU, RESIZE_MEMORY, RESIZE_TICK, State

_RESIZE = int(Purpose.RESIZE)
_LEAST_CPU = 10
_LEAST_MEMORY = 32
"""Smaller requests (millicores, MiB) are raised to these."""


@kernel
def apply_plan(
    st: State, acc: Accounts, plan: Plan, e: int, apps: Records, rules: ClusterRules, changed: I32
) -> None:
    """Apply what the plan changes, and count each change per app and dimension."""
    status, tick, physics = st.status[e], st.env[e].tick, rules.physics[0]
    window = REVERSAL_MINUTES * physics.ticks_per_minute
    _find_changes(
        plan.replicas[e], plan.cpu[e], plan.memory[e],
        status[rows.REPLICAS], status[rows.CPU_REQUEST], status[rows.MEMORY_REQUEST],
        st.hidden[e, RESIZE_TICK], changed,
    )  # fmt: skip
    for app in range(changed.size):
        if changed[app] == 0:
            continue
        # The inventory's bounds hold, whatever a controller plans.
        wanted = min(max(plan.replicas[e, app], apps[app].min_replicas), apps[app].max_replicas)
        # A negative count means that the plan has nothing to say about the app.
        if wanted != status[rows.REPLICAS, app] and plan.replicas[e, app] >= 0:
            direction = 1 if wanted > status[rows.REPLICAS, app] else -1
            count_change(acc, e, app, HORIZONTAL, direction, tick, window)
            status[rows.REPLICAS, app] = wanted
        # One resize at a time: a new request waits until the last one has taken effect.
        if st.hidden[e, RESIZE_TICK, app] != NONE:
            if st.hidden[e, RESIZE_TICK, app] <= tick:
                _finish_resize(st, acc, e, app)
            continue
        # A pod above the allocatable of the smallest machine might fit no node of its pools.
        cpu = min(max(plan.cpu[e, app], _LEAST_CPU), physics.largest_cpu)
        memory = min(max(plan.memory[e, app], _LEAST_MEMORY), physics.largest_memory)
        differs = cpu != status[rows.CPU_REQUEST, app] or memory != status[rows.MEMORY_REQUEST, app]
        # Zero or less is no request: raised to the minimum it would shrink the app's pods.
        if differs and plan.cpu[e, app] > 0 and plan.memory[e, app] > 0:
            _begin_resize(st, acc, e, app, cpu, memory, window)


@kernel
def _find_changes(
    replicas: I32,
    cpu: I32,
    memory: I32,
    old_replicas: I32,
    old_cpu: I32,
    old_memory: I32,
    resize_tick: I32,
    changed: I32,
) -> None:
    """Find the few apps that the plan changes; without a branch, so that the loop vectorises."""
    for app in range(changed.size):
        # `^` is zero only for equal numbers. A resize in progress needs a look in any case.
        moved = (replicas[app] ^ old_replicas[app]) | (cpu[app] ^ old_cpu[app])
        changed[app] = moved | (memory[app] ^ old_memory[app]) | (resize_tick[app] ^ NONE)


@kernel
def _begin_resize(
    st: State, acc: Accounts, e: int, app: int, cpu: int, memory: int, window: int
) -> None:
    tick = st.env[e].tick
    if cpu != st.status[e, rows.CPU_REQUEST, app]:
        direction = 1 if cpu > st.status[e, rows.CPU_REQUEST, app] else -1
        count_change(acc, e, app, CPU_SIZE, direction, tick, window)
    if memory != st.status[e, rows.MEMORY_REQUEST, app]:
        direction = 1 if memory > st.status[e, rows.MEMORY_REQUEST, app] else -1
        count_change(acc, e, app, MEMORY_SIZE, direction, tick, window)
    # The kubelet applies a resize on its next sync, after one or two ticks.
    slow = as_uniform(draw(stream(st.env[e].seed, _RESIZE), app, 0, st.env[e].tick)) < 0.5
    st.hidden[e, RESIZE_TICK, app] = st.env[e].tick + (2 if slow else 1)
    st.hidden[e, RESIZE_CPU, app] = cpu
    st.hidden[e, RESIZE_MEMORY, app] = memory


@kernel
def _finish_resize(st: State, acc: Accounts, e: int, app: int) -> None:
    """Resize in place; evict pods whose node is full, to restart with their new size elsewhere."""
    st.hidden[e, RESIZE_TICK, app] = NONE
    in_place, refused = resize_groups(
        st, e, app, st.hidden[e, RESIZE_CPU, app], st.hidden[e, RESIZE_MEMORY, app]
    )
    acc.totals[e, RESIZED] += in_place
    acc.totals[e, REFUSED] += refused
    acc.totals[e, STOPPED] += refused
