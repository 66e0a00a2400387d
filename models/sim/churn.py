"""What moves pods without any autoscaler: deploys, crashes, OOM kills, drains, reclaims.

Chances are drawn once a minute per app or node, each in its own tick of the minute, so that
the work is spread. Without churn no bystander ever needs a pod, and no cascade appears.
"""

import math

from models.cluster.arrays import MIB_PER_GIB
from models.cluster.observation import ACTIVE, DOMAIN, MEMORY, MEMORY_REQUEST, RESTARTS, STARTING
from models.cluster.records import Record, Records
from models.jit import kernel
from models.sim.accounting import CRASHED, OOM_KILLED, Accounts
from models.sim.back_off import die
from models.sim.describe.overlays import APPEAR, MOVE, Script
from models.sim.draws import Purpose, as_uniform, draw, stream
from models.sim.layout import Rules
from models.sim.nodes import SPOT, empty_lost, lose, zone_is_lost
from models.sim.pods import begin_deploy
from models.sim.state import BOUND, DOWN, LEAK_HOURS, NODE_READY, RESTART_RING, SAMPLE_RING, State

_DEPLOY = int(Purpose.DEPLOY)
_CRASH = int(Purpose.CRASH)
_EVICTION = int(Purpose.EVICTION)
_SPOT = int(Purpose.SPOT)
_OOM_SHARE = 0.2
"""Share of an app's pods that a minute above the memory limit kills, while a fresh pod fits it."""


@kernel
def churn(st: State, acc: Accounts, e: int, apps: Records, rules: Rules, script: Script) -> None:
    """One tick of everything that happens to pods and nodes by themselves."""
    _change_inventory(st, e, script)
    _touch_apps(st, acc, e, apps, rules, script)
    _touch_nodes(st, e, rules)
    _lose_zones(st, e, rules, script)
    _reclaim_spot(st, e, rules, script)
    empty_lost(st, acc, e)


@kernel
def _change_inventory(st: State, e: int, script: Script) -> None:
    for k in range(script.inventory.shape[1]):
        if script.inventory[e, k].tick == st.env[e].tick:
            app = script.inventory[e, k].app
            if script.inventory[e, k].kind == MOVE:
                st.status[e, DOMAIN, app] = script.inventory[e, k].domain
            else:
                st.status[e, ACTIVE, app] = 1 if script.inventory[e, k].kind == APPEAR else 0


@kernel
def turn_of(tick: int, ticks_per_minute: int, size: int) -> tuple[int, int]:
    """The part of `size` things whose turn it is in this tick of the minute."""
    turn = tick % ticks_per_minute
    return size * turn // ticks_per_minute, size * (turn + 1) // ticks_per_minute


@kernel
def _touch_apps(
    st: State, acc: Accounts, e: int, apps: Records, rules: Rules, script: Script
) -> None:
    """The apps whose turn it is in this tick of the minute."""
    tick, physics = st.env[e].tick, rules.physics[0]
    deploys, crashes = stream(st.env[e].seed, _DEPLOY), stream(st.env[e].seed, _CRASH)
    first, end = turn_of(tick, physics.ticks_per_minute, apps.size)
    for app in range(first, end):
        st.flow[e, LEAK_HOURS, app] += 1.0 / 60.0
        # Before a deploy changes the number of pods that the last measurement belongs to.
        limit = st.status[e, MEMORY_REQUEST, app] * apps[app].memory_limit_ratio
        too_much = _memory_per_pod(st, e, app) > limit
        due = script.deploy_tick[e, app]
        forced = due >= 0 and tick - physics.ticks_per_minute < due <= tick
        if forced or as_uniform(draw(deploys, app, 0, tick)) < physics.deploy_chance:
            begin_deploy(st, acc, e, app, rules)
        ready = st.hidden[e, BOUND, app] - st.status[e, STARTING, app] - st.hidden[e, DOWN, app]
        if ready <= 0:
            continue
        # At most one crash a minute and app: more would be a fault, which scenarios bring.
        if as_uniform(draw(crashes, app, 0, tick)) < ready * physics.crash_chance:
            _restart(st, acc, e, app, 1, physics, CRASHED)
        if too_much:
            hopeless = apps[app].memory_base * MIB_PER_GIB > limit
            killed = ready if hopeless else math.ceil(ready * _OOM_SHARE)
            _restart(st, acc, e, app, killed, physics, OOM_KILLED)


@kernel
def _memory_per_pod(st: State, e: int, app: int) -> float:
    """MiB a pod of the app used in the last tick."""
    used = st.samples[e, (st.env[e].tick - 1) % SAMPLE_RING, MEMORY, app]
    return used * MIB_PER_GIB / max(1, st.hidden[e, BOUND, app])


@kernel
def _restart(
    st: State, acc: Accounts, e: int, app: int, count: int, physics: Record, total: int
) -> None:
    """Containers restart in place: their pods keep their nodes and lose their leak."""
    tick, share = st.env[e].tick, count / max(1, st.hidden[e, BOUND, app])
    back = tick + physics.restart_ticks + die(st.loop[e, app], share, tick, physics.tick_s)
    st.hidden[e, DOWN, app] += count
    st.status[e, RESTARTS, app] += count
    st.restart_ring[e, back % RESTART_RING, app] += count
    st.flow[e, LEAK_HOURS, app] *= 1.0 - share
    acc.totals[e, total] += count


@kernel
def _touch_nodes(st: State, e: int, rules: Rules) -> None:
    """Maintenance drains and spot reclaims of the nodes whose turn it is."""
    tick = st.env[e].tick
    every = rules.physics[0].ticks_per_minute
    evictions = stream(st.env[e].seed, _EVICTION)
    first, end = turn_of(tick, every, st.node.shape[1])
    for node in range(first, end):
        if st.node[e, node].state != NODE_READY:
            continue
        chance = rules.physics[0].eviction_chance
        if st.node[e, node].market == SPOT:
            chance += rules.physics[0].reclaim_chance
        if as_uniform(draw(evictions, node, 0, tick)) < chance:
            lose(st, e, node, rules)


@kernel
def _lose_zones(st: State, e: int, rules: Rules, script: Script) -> None:
    for k in range(script.zones.shape[1]):
        if script.zones[e, k].start == st.env[e].tick:
            for node in range(st.node.shape[1]):
                if zone_is_lost(st, e, st.node[e, node].zone, script):
                    lose(st, e, node, rules)


@kernel
def _reclaim_spot(st: State, e: int, rules: Rules, script: Script) -> None:
    reclaims = stream(st.env[e].seed, _SPOT)
    for k in range(script.reclaims.shape[1]):
        if script.reclaims[e, k].tick == st.env[e].tick:
            for node in range(st.node.shape[1]):
                chance = as_uniform(draw(reclaims, node, k, st.env[e].tick))
                if st.node[e, node].market == SPOT and chance < script.reclaims[e, k].share:
                    lose(st, e, node, rules)
