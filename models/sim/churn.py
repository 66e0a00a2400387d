"""Changes that no autoscaler causes: deploys, crashes, OOM kills, drains, reclaims.

Chances are drawn once a minute per app or node, each in its own tick of the minute, which spreads
the work. Without churn a domain without extra traffic never needs a pod, so no cascade could hit
it.

A container that dies again soon is restarted later each time, as the kubelet does it: the first
restart comes at once, the next ones after 10 s, 20 s, 40 s and so on, and ten minutes of health
reset it. The containers of an app are not simulated one by one, so the back-off depends on the
mean number of deaths per container: one crash among a thousand pods is no crash loop.
"""

import math
from typing import Final

from models.cluster import rows
from models.cluster.arrays import MIB_PER_GIB, Record, Records
from models.jit import kernel
from models.sim.accounting import CRASHED, OOM_KILLED, Accounts
from models.sim.config.physics import LONGEST_BACK_OFF_TICKS
from models.sim.config.script import APPEAR, LEAK, MOVE, Script
from models.sim.draws import Purpose, as_uniform, draw, stream
from models.sim.nodes import SPOT, empty_lost, lose, zone_is_lost
from models.sim.pods import begin_deploy
from models.sim.rules import ClusterRules
from models.sim.state import BOUND, DOWN, LEAKED, NODE_READY, RESTART_RING, SAMPLE_RING, State

_DEPLOY = int(Purpose.DEPLOY)
_CRASH = int(Purpose.CRASH)
_EVICTION = int(Purpose.EVICTION)
_SPOT = int(Purpose.SPOT)
_OOM_SHARE = 0.2
"""Share of an app's pods that a minute above the memory limit kills, while a fresh pod fits it."""
# The kubelet's CrashLoopBackOff.
_FIRST_BACK_OFF_S: Final = 10.0
_LONGEST_BACK_OFF_S: Final = 300.0
_HEALTHY_S: Final = 600.0


@kernel
def churn(
    st: State, acc: Accounts, e: int, apps: Records, rules: ClusterRules, script: Script
) -> None:
    """Run one tick of churn, the scenario's part of it included."""
    _change_inventory(st, e, script)
    _churn_apps(st, acc, e, apps, rules, script)
    _churn_nodes(st, e, rules)
    _lose_zones(st, e, rules, script)
    _reclaim_spot(st, e, rules, script)
    # Once for all losses of the tick, because it scans all groups of pods.
    empty_lost(st, acc, e)


@kernel
def _change_inventory(st: State, e: int, script: Script) -> None:
    for k in range(script.inventory.shape[1]):
        if script.inventory[e, k].tick == st.env[e].tick:
            app = script.inventory[e, k].app
            if script.inventory[e, k].kind == MOVE:
                st.status[e, rows.DOMAIN, app] = script.inventory[e, k].domain
            else:
                st.status[e, rows.ACTIVE, app] = 1 if script.inventory[e, k].kind == APPEAR else 0


@kernel
def turn_of(tick: int, ticks_per_minute: int, size: int) -> tuple[int, int]:
    """First and end index of the part of `size` things that this tick of the minute handles."""
    turn = tick % ticks_per_minute
    return size * turn // ticks_per_minute, size * (turn + 1) // ticks_per_minute


@kernel
def _churn_apps(
    st: State, acc: Accounts, e: int, apps: Records, rules: ClusterRules, script: Script
) -> None:
    """Deploys, crashes and OOM kills of this tick's part of the apps."""
    tick, physics = st.env[e].tick, rules.physics[0]
    deploys, crashes = stream(st.env[e].seed, _DEPLOY), stream(st.env[e].seed, _CRASH)
    first, end = turn_of(tick, physics.ticks_per_minute, apps.size)
    for app in range(first, end):
        # An app's turn comes once a minute.
        leaks, crashing = _faults(st, e, app, script)
        own = apps[app].memory_leak + leaks * apps[app].memory_request
        st.flow[e, LEAKED, app] += own / 60.0
        # First, because a deploy changes the number of pods that the last measurement belongs to.
        limit = st.status[e, rows.MEMORY_REQUEST, app] * apps[app].memory_limit_ratio
        over_limit = _memory_per_pod(st, e, app) > limit
        due = script.deploy_tick[e, app]
        # An app's turn comes once a minute, so the scenario's deploy starts at the next one.
        forced = due >= 0 and tick - physics.ticks_per_minute < due <= tick
        if forced or as_uniform(draw(deploys, app, 0, tick)) < physics.deploy_chance:
            begin_deploy(st, acc, e, app, rules)
        ready = (
            st.hidden[e, BOUND, app] - st.status[e, rows.STARTING, app] - st.hidden[e, DOWN, app]
        )
        if ready <= 0:
            continue
        # At most one crash per minute and app: more would be a fault, and faults come from
        # scenarios.
        if as_uniform(draw(crashes, app, 0, tick)) < ready * physics.crash_chance:
            _restart(st, acc, e, app, 1, physics, CRASHED)
        if crashing > 0.0:
            _restart(st, acc, e, app, max(1, round(ready * crashing)), physics, CRASHED)
        if over_limit:
            # If not even a fresh pod fits its limit, every restart fails again.
            hopeless = apps[app].memory_base * MIB_PER_GIB > limit
            killed = ready if hopeless else math.ceil(ready * _OOM_SHARE)
            _restart(st, acc, e, app, killed, physics, OOM_KILLED)


@kernel
def _faults(st: State, e: int, app: int, script: Script) -> tuple[float, float]:
    """What the scenario's faults do to an app: leak per hour over request, crashes per minute."""
    leaks, crashing, tick = 0.0, 0.0, st.env[e].tick
    for k in range(script.faults.shape[1]):
        fault = script.faults[e, k]
        if script.fault_app[k, app] == 1 and fault.start <= tick < fault.end:
            if fault.kind == LEAK:
                leaks += fault.size
            else:
                crashing = max(crashing, fault.size)
    return leaks, crashing


@kernel
def _memory_per_pod(st: State, e: int, app: int) -> float:
    """MiB that a pod of the app used in the last tick."""
    used = st.samples[e, (st.env[e].tick - 1) % SAMPLE_RING, rows.MEMORY, app]
    return used * MIB_PER_GIB / max(1, st.hidden[e, BOUND, app])


@kernel
def _restart(
    st: State, acc: Accounts, e: int, app: int, count: int, physics: Record, total: int
) -> None:
    """Restart containers in place: their pods keep their nodes and lose their leaked memory."""
    tick, share = st.env[e].tick, count / max(1, st.hidden[e, BOUND, app])
    wait = back_off_ticks(st.crash_loop[e, app], share, tick, physics.tick_s)
    back = tick + physics.restart_ticks + wait
    st.hidden[e, DOWN, app] += count
    st.status[e, rows.RESTARTS, app] += count
    # The ring is as long as the longest restart plus the longest back-off.
    st.restart_ring[e, back % RESTART_RING, app] += count
    st.flow[e, LEAKED, app] *= 1.0 - share
    acc.totals[e, total] += count


@kernel
def _churn_nodes(st: State, e: int, rules: ClusterRules) -> None:
    """Maintenance drains and spot reclaims of this tick's part of the nodes."""
    tick = st.env[e].tick
    every = rules.physics[0].ticks_per_minute
    evictions = stream(st.env[e].seed, _EVICTION)
    first, end = turn_of(tick, every, st.node.shape[1])
    for node in range(first, end):
        if st.node[e, node].state != NODE_READY:
            continue
        # Maintenance affects every node; spot nodes may be reclaimed as well.
        chance = rules.physics[0].eviction_chance
        if st.node[e, node].market == SPOT:
            chance += rules.physics[0].reclaim_chance
        if as_uniform(draw(evictions, node, 0, tick)) < chance:
            lose(st, e, node, rules)


@kernel
def _lose_zones(st: State, e: int, rules: ClusterRules, script: Script) -> None:
    # Only at the start: `nodes.launch` avoids the zone until it is back.
    for k in range(script.zones.shape[1]):
        if script.zones[e, k].start == st.env[e].tick:
            for node in range(st.node.shape[1]):
                if zone_is_lost(st, e, st.node[e, node].zone, script):
                    lose(st, e, node, rules)


@kernel
def _reclaim_spot(st: State, e: int, rules: ClusterRules, script: Script) -> None:
    reclaims = stream(st.env[e].seed, _SPOT)
    for k in range(script.reclaims.shape[1]):
        if script.reclaims[e, k].tick == st.env[e].tick:
            for node in range(st.node.shape[1]):
                chance = as_uniform(draw(reclaims, node, k, st.env[e].tick))
                if st.node[e, node].market == SPOT and chance < script.reclaims[e, k].share:
                    lose(st, e, node, rules)


@kernel
def back_off_ticks(crash_loop: Record, share: float, tick: int, tick_s: float) -> int:
    """Record the death of a share of an app's containers; returns the wait before the restart."""
    if (tick - crash_loop.last_death) * tick_s >= _HEALTHY_S:
        crash_loop.deaths = 0.0
    wait = back_off_s(crash_loop.deaths)
    crash_loop.deaths += share
    crash_loop.last_death = tick
    return min(LONGEST_BACK_OFF_TICKS, int(wait / tick_s + 0.5))


@kernel
def back_off_s(deaths: float) -> float:
    """Seconds to wait after so many deaths; below one death, the mean over some and none."""
    if deaths < 1.0:
        return _FIRST_BACK_OFF_S * deaths
    return min(_LONGEST_BACK_OFF_S, _FIRST_BACK_OFF_S * 2.0 ** (deaths - 1.0))
