"""A plan becomes wishes: replica counts at once, resizes after a tick or two."""

from models.jit import kernel
from models.sim.accounting import (
    HORIZONTAL,
    REFUSED,
    RESIZED,
    REVERSAL_MINUTES,
    STOPPED,
    VERTICAL,
    Accounts,
    count_change,
)
from models.sim.draws import Purpose, as_uniform, draw, stream
from models.sim.groups import resize_groups
from models.sim.layout import Rules
from models.sim.plan import Plan
from models.sim.records import Records
from models.sim.state import (
    CPU_REQUEST,
    MEMORY_REQUEST,
    NONE,
    REPLICAS,
    RESIZE_CPU,
    RESIZE_MEMORY,
    RESIZE_TICK,
    State,
)

_RESIZE = int(Purpose.RESIZE)


@kernel
def apply_plan(st: State, acc: Accounts, plan: Plan, e: int, apps: Records, rules: Rules) -> None:
    """Take over what changed, and count each applied change per app and dimension."""
    tick = st.env[e].tick
    window = REVERSAL_MINUTES * rules.physics[0].ticks_per_minute
    wish, cpu, memory = (
        st.known[e, REPLICAS],
        st.known[e, CPU_REQUEST],
        st.known[e, MEMORY_REQUEST],
    )
    resize_tick = st.hidden[e, RESIZE_TICK]
    replicas, new_cpu, new_memory = plan.replicas[e], plan.cpu[e], plan.memory[e]
    for app in range(wish.size):
        if replicas[app] != wish[app] and replicas[app] >= 0:
            wanted = min(replicas[app], apps[app].max_replicas)
            if wanted != wish[app]:
                direction = 1 if wanted > wish[app] else -1
                count_change(acc, e, app, HORIZONTAL, direction, tick, window)
                wish[app] = wanted
        if resize_tick[app] != NONE:
            if resize_tick[app] <= tick:
                _land_resize(st, acc, e, app)
            continue
        differs = new_cpu[app] != cpu[app] or new_memory[app] != memory[app]
        if differs and new_cpu[app] > 0 and new_memory[app] > 0:
            _begin_resize(st, acc, e, app, new_cpu[app], new_memory[app], window)


@kernel
def _begin_resize(
    st: State, acc: Accounts, e: int, app: int, cpu: int, memory: int, window: int
) -> None:
    larger = cpu > st.known[e, CPU_REQUEST, app] or (
        cpu == st.known[e, CPU_REQUEST, app] and memory > st.known[e, MEMORY_REQUEST, app]
    )
    count_change(acc, e, app, VERTICAL, 1 if larger else -1, st.env[e].tick, window)
    slow = as_uniform(draw(stream(st.env[e].seed, _RESIZE), app, 0, st.env[e].tick)) < 0.5
    st.hidden[e, RESIZE_TICK, app] = st.env[e].tick + (2 if slow else 1)
    st.hidden[e, RESIZE_CPU, app] = cpu
    st.hidden[e, RESIZE_MEMORY, app] = memory


@kernel
def _land_resize(st: State, acc: Accounts, e: int, app: int) -> None:
    """Resize in place; pods whose node is full go back to the queue with their new size."""
    st.hidden[e, RESIZE_TICK, app] = NONE
    in_place, refused = resize_groups(
        st, e, app, st.hidden[e, RESIZE_CPU, app], st.hidden[e, RESIZE_MEMORY, app]
    )
    acc.totals[e, RESIZED] += in_place
    acc.totals[e, REFUSED] += refused
    acc.totals[e, STOPPED] += refused
