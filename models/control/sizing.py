"""The Soldier: every tick the replicas each app of a domain should have, before any limit.

Scaling out follows need beyond a dead band, a wider one where an app of lower priority was just
changed. Scaling in follows the highest need of a window, and never where data is missing, traffic
broke off abruptly, or the domain is in need itself.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, F64, I8, I32
from models.cluster.plan import Reason
from models.control.change_history import NOBODY
from models.features.table import APP
from models.jit import kernel

WINDOW_MIN: Final = 5
"""Minutes whose highest need an app keeps."""
MODEST_S: Final = 360
"""How long an app that gave way grows only when it is at risk."""
_GIVEN_SHARE: Final = 0.1
"""Less than this share of an app is not worth a change."""
_TREND, _SATURATION = APP.at("rps_trend"), APP.at("saturation")
_ERRORS, _MISSING = APP.at("errors"), APP.at("missing")
_ACTIVE = APP.at("active")
_ABRUPT: Final = np.float32(-0.3)
"""Traffic this far below its mean of five minutes has not gone, it has failed to arrive."""
_FAILING: Final = np.float32(0.01)
_URGENT: Final = np.float32(0.25)
"""A domain this urgent gives nothing away."""
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)

_OUT, _IN = int(Reason.SCALE_OUT), int(Reason.SCALE_IN)
_IN_TOLERANCE, _STABILISING = int(Reason.HOLD_IN_TOLERANCE), int(Reason.HOLD_STABILISING)
_NO_METRICS, _YIELD = int(Reason.HOLD_NO_METRICS), int(Reason.YIELD)


class Damping(NamedTuple):
    """Numbers of the parameters as the kernels take them."""

    dead_band_out: np.float32
    afresh: F32
    """[D] times the dead band while an app rests from its last change."""
    dead_band_in: np.float32
    margin: np.float32
    risk: F32
    """[D] utilisation from which an app is at risk."""
    give_way: F32
    """[D] utilisation down to which an app gives way."""
    window: bool
    """Whether the needs of the last minutes are kept."""


class Memory(NamedTuple):
    """E environments, A apps."""

    need: F32
    """[E, A] pods needed now."""
    highest: F32
    """[E, WINDOW_MIN, A] highest need of each of the last minutes."""
    modest_until: I32
    """[E, A] tick until which an app that gave way grows only when it is at risk."""
    minute: I32
    """[E] the last one in which a need was known."""


def start_soldiers(environments: int, apps: int) -> Memory:
    """Nothing needed yet."""
    shape = (environments, apps)
    return Memory(
        need=np.zeros(shape, np.float32),
        highest=np.zeros((environments, WINDOW_MIN, apps), np.float32),
        modest_until=np.zeros(shape, np.int32),
        minute=np.full(environments, -1, np.int32),
    )


@kernel
def need_pods(
    load: F32,
    usual: F32,
    growth: F32,
    domain: I32,
    per_target: F32,
    per_surge: F32,
    per_foreseen: F32,
    need: F32,
) -> None:
    """Room for a surge beside the usual load, or a surge that fills it.

    Each app is taken to grow like its domain, by `growth` [D]. A forecast may raise the need; it
    never lowers it below what is needed now.
    """
    for app in range(load.size):
        place = domain[app]
        usually = min(usual[app], load[app]) * per_target[place]
        soon = load[app] * growth[place] * per_foreseen[place]
        need[app] = max(usually, load[app] * per_surge[place], soon)


@kernel
def remember_need(need: F32, slot: F32, first: bool) -> None:
    """Keep the highest need of the minute."""
    for app in range(need.size):
        slot[app] = need[app] if first else max(slot[app], need[app])


@kernel
def want(
    seen: F32,
    load: F32,
    need: F32,
    highest: F32,
    modest_until: I32,
    domain: I32,
    current: I32,
    rested: I32,
    urgency: F32,
    damping: Damping,
    tick: int,
    wanted: I32,
    reason: I32,
) -> None:
    """Replicas and reason of each app of one environment."""
    for app in range(need.size):
        place, now, top = domain[app], np.float32(current[app]), need[app]
        for minute in range(highest.shape[0] if damping.window else 0):
            top = max(top, highest[minute, app])
        exposed = is_exposed(seen, app, damping.risk[place])
        fresh = rested[app] > tick and not exposed
        band = damping.dead_band_out * (damping.afresh[place] if fresh else _ONE)
        # After giving way an app grows only when it is at risk, and no further than out of it.
        modest = modest_until[app] > tick
        goal = min(need[app], load[app] / damping.give_way[place]) if modest else need[app]
        kept = top * (_ONE + damping.margin)
        spare = kept < now * (_ONE - damping.dead_band_in)
        if goal > now * (_ONE + band) and (exposed or not modest):
            wanted[app], reason[app] = math.ceil(goal * (_ONE + damping.margin)), _OUT
        elif spare and is_steady(seen, app) and urgency[place] < _URGENT:
            wanted[app], reason[app] = math.ceil(kept), _IN
        else:
            held = _STABILISING if spare else _IN_TOLERANCE
            reason[app] = _NO_METRICS if seen[_MISSING, app] != _ZERO else held
            wanted[app] = current[app]


@kernel
def is_exposed(seen: F32, app: int, risk: np.float32) -> bool:
    """Whether an app is so full, or fails so often, that it cannot wait."""
    failing = (seen[_ERRORS, app] > _FAILING) & np.isfinite(risk)
    return bool((seen[_SATURATION, app] > risk) | failing)


@kernel
def is_steady(seen: F32, app: int) -> bool:
    """Whether less can be believed: there is data, and traffic did not break off or fail.

    An app that is not declared, yet or any more, has no traffic that could be judged.
    """
    known = (seen[_ACTIVE, app] != _ZERO) & (seen[_MISSING, app] == _ZERO)
    known = known & (seen[_ERRORS, app] <= _FAILING)
    return bool(known & (seen[_TREND, app] > _ABRUPT))


@kernel
def give_way(
    seen: F32,
    load: F32,
    pending: I32,
    size: I32,
    domain: I32,
    current: I32,
    rested: I32,
    order: I32,
    patient: I8,
    damping: Damping,
    tick: int,
    modest_ticks: int,
    release: F64,
    modest_until: I32,
    wanted: I32,
    reason: I32,
) -> None:
    """Give back what the Commander asked of each domain, `release` [D] in millicores.

    Apps with room to spare go down to a utilisation that is still comfortable: first those whose
    pods wait for a node, because nothing runs there that could be missed. `rested` [A] is the tick
    from which an app may be taken from; only the domains that are not `patient` [D] give before.
    Within a round `order` [A] says whose turn it is; apps that are not declared have none.
    """
    for waiting in (True, False):
        for step in range(order.size):
            app = order[step]
            if app == NOBODY:
                break
            place = domain[app]
            if release[place] <= 0.0 or seen[_MISSING, app] != _ZERO:
                continue
            level = damping.give_way[place]
            if is_exposed(seen, app, level) or reason[app] == _YIELD:
                continue
            if patient[place] == 1 and rested[app] > tick:
                continue
            spare = current[app] - math.ceil(load[app] / level)
            fewer = min(spare, int(release[place] / max(1, size[app])) + 1)
            fewer = min(fewer, pending[app]) if waiting else fewer
            least = 0.0 if waiting else _GIVEN_SHARE * current[app]
            if fewer > least:
                wanted[app], reason[app] = current[app] - fewer, _YIELD
                modest_until[app] = tick + modest_ticks
                release[place] -= float(fewer) * size[app]


_MEMORY = APP.at("memory_use")
_MOST_CPU: Final = 2.0
"""Times its first size that a pod's CPU may become."""
_CPU_STEP: Final = 50
"""Millicores to which sizes are rounded up: fewer, larger changes."""
_FULL: Final = np.float32(0.92)
"""Memory used over requested at which a pod is given more."""
_MEMORY_STEP: Final = 1.25
_MOST_MEMORY: Final = 4.0
_BACK: Final = np.float32(0.75)
"""Need at the first size, over the maximum of replicas, at which an app goes back to it."""


class FirstSizes(NamedTuple):
    """E environments, A apps."""

    cpu: I32
    """[E, A] millicores per pod when the app was first seen."""
    memory: I32
    """[E, A] MiB."""


@kernel
def wish_sizes(
    seen: F32,
    load: F32,
    level: F32,
    domain: I32,
    most: I32,
    cpu: I32,
    memory: I32,
    first_cpu: I32,
    first_memory: I32,
    allowed: bool,
    wanted_cpu: I32,
    wanted_memory: I32,
) -> None:
    """Sizes of one environment's pods, before any limit; `level` [D] is what pods should bear."""
    for app in range(load.size):
        wanted_cpu[app], wanted_memory[app] = cpu[app], memory[app]
        if seen[_MISSING, app] > 0.0 or seen[_ACTIVE, app] == 0.0 or not allowed:
            continue
        wanted_cpu[app] = _cpu_for(
            load[app] / level[domain[app]], most[app], cpu[app], first_cpu[app]
        )
        larger = min(memory[app] * _MEMORY_STEP, first_memory[app] * _MOST_MEMORY)
        if seen[_MEMORY, app] > _FULL and larger > memory[app]:
            wanted_memory[app] = math.ceil(larger)


@kernel
def _cpu_for(need: np.float32, most: int, cpu: int, first: int) -> int:
    """Millicores per pod with which `most` pods carry the need; the first size where they can."""
    if need > most and cpu < _MOST_CPU * first:
        exact = cpu * (need / most)
        return min(int(_MOST_CPU * first), math.ceil(exact / _CPU_STEP) * _CPU_STEP)
    if cpu > first and need * cpu < _BACK * most * first:
        return first
    return cpu
