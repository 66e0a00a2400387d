"""What each app should have before any limit: replicas, and the size of its pods.

Scaling out follows need beyond a dead band, a wider one where an app of lower priority has just
changed. Scaling in follows the highest need of a window, and never happens where data is missing,
traffic broke off abruptly, or the domain is in need itself.

Pods grow where more replicas cannot help. Their CPU grows in place when the declared maximum of
replicas cannot carry an app's load, not for comfort, and returns to the first size when that is
enough. Their memory grows before the limit kills them, and never shrinks.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, F64, I8, I32
from models.cluster.plan import Reason
from models.control.change_history import NO_APP, FirstSizes, Workspace
from models.control.projection import MILLICORES
from models.control.report import ABRUPT
from models.control.safety import LARGEST_CPU, LARGEST_MEMORY, Apps, Wishes
from models.features.table import APP
from models.jit import kernel

# `hirl calibrate` searches the numbers in `parameters.RANGES`. Those below are not among them. They
# were chosen by hand while the structure was designed, on the shipped scenarios; no record compares
# other values. What damping and vertical sizing are worth as a whole was measured by leaving them
# out (docs/results/2026-11-17-controllers.md).
WINDOW_MIN: Final = 5
"""Minutes over which the highest need counts for scaling in; HPA's default window is as long."""
MODEST_S: Final = 360
"""Seconds for which an app that gave way grows only when it is at risk. As long as the cool-down:
an app that grew at once would take back what others were just given."""
_GIVEN_SHARE: Final = 0.1
"""Giving less than this share of an app is not worth a change."""
_TREND, _SATURATION = APP.at("rps_trend"), APP.at("saturation")
_ERRORS, _MISSING = APP.at("errors"), APP.at("missing")
_ACTIVE, _MEMORY_USE = APP.at("active"), APP.at("memory_use")
_FAILING: Final = np.float32(0.01)
"""Share of errors from which an app counts as failing."""
_DYING: Final = np.float32(0.2)
"""Restarts of five minutes per ready pod, and share of the replicas that is down, above which
containers die again and again."""
_MOST_REPLACED: Final = np.float32(1.5)
"""Largest factor on the need of an app whose containers die: a release that never serves would
otherwise take the room of others."""
_URGENT: Final = np.float32(0.25)
"""Urgency from which a domain scales nothing in: by then it lacks capacity, has many pods without
a node, or many apps at risk."""
# A plain 0.0 in a kernel would turn the float32 arithmetic around it into float64.
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)

_MOST_PODS: Final = np.float32(1e9)
"""Need of an app beyond which nothing is told apart: more than any cluster has. Replicas are 32-bit
integers, so without it an absurd load would wrap around and become a decrease."""
_LARGEST_SIZE: Final = 2**31 - 1
"""Millicores or MiB of a pod, for the same reason."""
_CPU_STEP: Final = 50
"""Millicores to which sizes are rounded up: fewer, larger changes."""
_MEMORY_FULL: Final = np.float32(0.92)
"""Memory used over requested at which a pod gets more."""
_MEMORY_STEP: Final = 1.25
"""Factor of one step; each step counts the whole app in the blast radius."""
_RESIZE_FROM: Final = 0.1
"""Smallest change of a size, as a share of it, that a policy may ask for."""
_RETURN_BELOW: Final = np.float32(0.75)
"""Need at the first size, over the maximum of replicas, at which an app returns to that size."""

# Kernels take integers, not enumerations.
_OUT, _IN = int(Reason.SCALE_OUT), int(Reason.SCALE_IN)
_IN_TOLERANCE, _STABILISING = int(Reason.HOLD_IN_TOLERANCE), int(Reason.HOLD_STABILISING)
_NO_METRICS, _YIELD = int(Reason.HOLD_NO_METRICS), int(Reason.YIELD)


class Damping(NamedTuple):
    """The parameters as the kernels take them. D domains."""

    dead_band_out: np.float32
    resting_factor: F32
    """[D] factor on the dead band while an app rests from its last change."""
    dead_band_in: np.float32
    margin: np.float32
    risk: F32
    """[D] utilisation from which an app is at risk; infinite where it makes no difference."""
    give_way_level: F32
    """[D] utilisation up to which an app gives way."""
    use_window: bool
    """Whether the needs of the last minutes count."""
    rest_first: I8
    """[D] 1 where apps give way only after they have rested; 0 for the lowest priority."""
    modest_ticks: int
    """How long an app that gave way stays modest."""


class SizingMemory(NamedTuple):
    """Needs of the last minutes, and which apps gave way. E environments, A apps."""

    need: F32
    """[E, A] pods needed now."""
    highest: F32
    """[E, WINDOW_MIN, A] highest need of each of the last minutes."""
    modest_until: I32
    """[E, A] tick until which an app that gave way grows only when it is at risk."""
    minute: I32
    """[E] the last minute in which the need was computed."""


class NeedLevels(NamedTuple):
    """What turns load into pods. E environments, D domains, A apps."""

    per_target: F32
    """[E, D] pods per fully used pod of the usual load: (1 + headroom) / target."""
    per_surge: F32
    """[E, D] the same for load above the usual."""
    per_foreseen: F32
    """[E, D] the same for forecast load."""
    growth: F32
    """[E, D] forecast over now, 1 at least."""
    factor: F32
    """[E, A] a policy's factor on each app's need; [E, 0] without a policy."""


def start_sizing_memory(environments: int, apps: int) -> SizingMemory:
    """No need computed yet."""
    shape = (environments, apps)
    return SizingMemory(
        need=np.zeros(shape, np.float32),
        highest=np.zeros((environments, WINDOW_MIN, apps), np.float32),
        modest_until=np.zeros(shape, np.int32),
        minute=np.full(environments, -1, np.int32),
    )


@kernel
def compute_need(
    apps: Apps,
    usual: F32,
    restarts: F32,
    levels: NeedLevels,
    e: int,
    minute: int,
    memory: SizingMemory,
) -> None:
    """Pods that each app needs now; keeps the highest need of the minute.

    Either room for a surge beside the usual load, or a surge that fills this room. Each app is
    assumed to grow like its domain. A forecast may raise the need, never lower it.
    """
    need, load, domain = memory.need[e], apps.load, apps.status[rows.DOMAIN]
    per_target, per_surge = levels.per_target[e], levels.per_surge[e]
    per_foreseen, growth = levels.per_foreseen[e], levels.growth[e]
    for app in range(load.size):
        d = domain[app]
        # Load that fell below the usual is sized as it is: nothing waits for its return.
        usually = min(usual[app], load[app]) * per_target[d]
        soon = load[app] * growth[d] * per_foreseen[d]
        need[app] = min(_MOST_PODS, max(usually, load[app] * per_surge[d], soon))
    # Empty without a policy, so that the heuristic alone does not even multiply by 1.
    factor = levels.factor[e]
    for app in range(factor.size):
        need[app] *= factor[app]
    _replace_failing(apps, restarts, need)
    # The slot still holds the minute that leaves the window; the first tick overwrites it.
    slot, first = memory.highest[e, minute % WINDOW_MIN], memory.minute[e] != minute
    for app in range(need.size):
        slot[app] = need[app] if first else max(slot[app], need[app])
    memory.minute[e] = minute


@kernel
def _replace_failing(apps: Apps, restarts: F32, need: F32) -> None:
    """Raise the need of apps whose containers die again and again: some of them are always down.

    The others carry their work meanwhile. More pods die as often, and more of them serve.
    """
    status = apps.status
    for app in range(need.size):
        replicas = np.float32(status[rows.REPLICAS, app])
        # Those that start count as well: clusters do not tell them from those that restart.
        up = np.float32(status[rows.READY, app] + status[rows.PENDING, app])
        if (restarts[app] > _DYING) & (up < (_ONE - _DYING) * replicas):
            need[app] *= min(_MOST_REPLACED, replicas / max(_ONE, up))


@kernel
def wish_replicas(
    apps: Apps,
    features: F32,
    memory: SizingMemory,
    e: int,
    rested: I32,
    urgency: F32,
    damping: Damping,
    wishes: Wishes,
) -> None:
    """Replicas and reason of each app of one environment, before any limit."""
    wanted, reason, load, tick = wishes.replicas, wishes.reason, apps.load, apps.tick
    domain, current = apps.status[rows.DOMAIN], apps.status[rows.REPLICAS]
    need, highest, modest_until = memory.need[e], memory.highest[e], memory.modest_until[e]
    for app in range(need.size):
        d, now, peak = domain[app], np.float32(current[app]), need[app]
        for minute in range(highest.shape[0] if damping.use_window else 0):
            peak = max(peak, highest[minute, app])
        overloaded = is_overloaded(features, app, damping.risk[d])
        # A wider band right after a change keeps lower priorities from turning back and forth.
        resting = rested[app] > tick and not overloaded
        band = damping.dead_band_out * (damping.resting_factor[d] if resting else _ONE)
        # After giving way an app grows only when it is at risk, and no further than out of it.
        modest = modest_until[app] > tick
        goal = min(need[app], load[app] / damping.give_way_level[d]) if modest else need[app]
        # Both directions add the margin, so an app that shrank does not grow again at once.
        kept = peak * (_ONE + damping.margin)
        spare = kept < now * (_ONE - damping.dead_band_in)
        # Growth comes first and needs no fresh data: missing samples never lower (invariant 4).
        if goal > now * (_ONE + band) and (overloaded or not modest):
            wanted[app], reason[app] = math.ceil(goal * (_ONE + damping.margin)), _OUT
        elif spare and is_steady(features, app) and urgency[d] < _URGENT:
            wanted[app], reason[app] = math.ceil(kept), _IN
        else:
            fewer = need[app] * (_ONE + damping.margin) < now * (_ONE - damping.dead_band_in)
            hold = _STABILISING if fewer else _IN_TOLERANCE
            reason[app] = _NO_METRICS if features[_MISSING, app] != _ZERO else hold
            wanted[app] = current[app]


@kernel
def is_overloaded(features: F32, app: int, risk: np.float32) -> bool:
    """Whether an app is so full, or fails so often, that it cannot wait."""
    # An infinite level means that nothing is at risk here, so errors do not count either.
    failing = (features[_ERRORS, app] > _FAILING) & np.isfinite(risk)
    return bool((features[_SATURATION, app] > risk) | failing)


@kernel
def is_steady(features: F32, app: int) -> bool:
    """Whether a decrease can be trusted: data is there, and traffic neither broke off nor fails.

    An app that is not declared has no traffic to judge by.
    """
    valid = (features[_ACTIVE, app] != _ZERO) & (features[_MISSING, app] == _ZERO)
    valid = valid & (features[_ERRORS, app] <= _FAILING)
    return bool(valid & (features[_TREND, app] > ABRUPT))


@kernel
def give_way(
    apps: Apps,
    features: F32,
    rested: I32,
    damping: Damping,
    work: Workspace,
    release: F64,
    modest_until: I32,
    wishes: Wishes,
) -> None:
    """Release what the Commander asked of each domain, `release` [D] in millicores.

    Apps with spare pods shrink to a utilisation that is still comfortable. Pods that wait for a
    node go first, because nothing runs there that could be missed. An app gives way only after it
    has rested, except in the lowest priority (`rest_first`). Apps are asked in `work.order`.
    """
    wanted, reason, load, tick = wishes.replicas, wishes.reason, apps.load, apps.tick
    domain, current = apps.status[rows.DOMAIN], apps.status[rows.REPLICAS]
    pending = apps.status[rows.PENDING]
    size, order = work.size[MILLICORES], work.order
    asked = False
    for cores in release:
        asked |= cores > 0.0
    if not asked:
        return
    # Two passes over all apps, so that no running pod leaves while a pending one could.
    for waiting in (True, False):
        for step in range(order.size):
            app = order[step]
            if app == NO_APP:
                break
            d = domain[app]
            if release[d] <= 0.0 or features[_MISSING, app] != _ZERO:
                continue
            level = damping.give_way_level[d]
            # An app that is fuller than the level it would shrink to has nothing to give.
            if is_overloaded(features, app, level) or reason[app] == _YIELD:
                continue
            if damping.rest_first[d] == 1 and rested[app] > tick:
                continue
            spare = current[app] - math.ceil(min(_MOST_PODS, load[app] / level))
            # One pod more than the quotient: rounding down would never release the last cores.
            fewer = min(spare, int(release[d] / max(1, size[app])) + 1)
            fewer = min(fewer, pending[app]) if waiting else fewer
            # Pods that never ran may go one by one, running ones only where it is worth a change.
            least = 0.0 if waiting else _GIVEN_SHARE * current[app]
            if fewer > least:
                wanted[app], reason[app] = current[app] - fewer, _YIELD
                modest_until[app] = tick + damping.modest_ticks
                release[d] -= float(fewer) * size[app]


@kernel
def wish_sizes(
    apps: Apps, features: F32, level: F32, most: I32, first: FirstSizes, e: int, wishes: Wishes
) -> None:
    """Sizes of one environment's pods, before any limit.

    `level` [D] is the utilisation that pods should carry, `most` [A] the maximum of replicas.
    """
    domain, load = apps.status[rows.DOMAIN], apps.load
    cpu, memory = apps.status[rows.CPU_REQUEST], apps.status[rows.MEMORY_REQUEST]
    first_cpu, first_memory = first.cpu[e], first.memory[e]
    for app in range(load.size):
        wishes.cpu[app], wishes.memory[app] = cpu[app], memory[app]
        if features[_MISSING, app] > 0.0 or features[_ACTIVE, app] == 0.0:
            continue
        need = min(_MOST_PODS, load[app] / level[domain[app]])
        wishes.cpu[app] = _cpu_for(need, most[app], cpu[app], first_cpu[app])
        # Limits kill, so memory grows in steps before it is full. It never shrinks.
        larger = min(
            memory[app] * _MEMORY_STEP, first_memory[app] * LARGEST_MEMORY, float(_LARGEST_SIZE)
        )
        if features[_MEMORY_USE, app] > _MEMORY_FULL and larger > memory[app]:
            wishes.memory[app] = math.ceil(larger)


@kernel
def enlarge(
    apps: Apps, features: F32, factor: F32, first: FirstSizes, e: int, wishes: Wishes
) -> None:
    """Make pods larger by a policy's `factor` [A] of 1 or more; [0] without a policy.

    A pod that grows in place has its capacity before a new one has started. The factor is on the
    first size, not on the present one: repeated, it would add up.
    """
    cpu, owners = apps.status[rows.CPU_REQUEST], first.cpu[e]
    for app in range(factor.size):
        if factor[app] <= _ONE or features[_MISSING, app] > 0.0 or features[_ACTIVE, app] == 0.0:
            continue
        largest = min(int(LARGEST_CPU * owners[app]), _LARGEST_SIZE)
        asked = min(largest, math.ceil(owners[app] * factor[app] / _CPU_STEP) * _CPU_STEP)
        # Resizes touch every pod of the app: a small one is not worth it.
        if abs(asked - cpu[app]) <= _RESIZE_FROM * cpu[app]:
            asked = cpu[app]
        wishes.cpu[app] = max(wishes.cpu[app], asked)


@kernel
def keep_sizes(apps: Apps, wishes: Wishes) -> None:
    """Leave every pod as large as it is."""
    cpu, memory = apps.status[rows.CPU_REQUEST], apps.status[rows.MEMORY_REQUEST]
    for app in range(wishes.cpu.size):
        wishes.cpu[app], wishes.memory[app] = cpu[app], memory[app]


@kernel
def _cpu_for(need: np.float32, most: int, cpu: int, first: int) -> int:
    """Millicores per pod with which `most` pods carry the need; the first size if enough."""
    # `need` counts pods of the present size, so sizes scale by the need over the maximum.
    if need > most and cpu < LARGEST_CPU * first:
        exact = cpu * (need / max(1, most))
        largest = min(int(LARGEST_CPU * first), _LARGEST_SIZE)
        return min(largest, math.ceil(exact / _CPU_STEP) * _CPU_STEP)
    # Well below the maximum at the first size, or the next rise would enlarge the pods again.
    if cpu > first and need * cpu < _RETURN_BELOW * most * first:
        return first
    return cpu
