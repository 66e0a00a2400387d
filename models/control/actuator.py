"""The actuator's rules: what may be applied of a plan, whatever controller of ours made it.

Run in process here and by the actuator's service alike. Increases need a valid budget or stay
below the floor; decreases need data, a rested app and room in the blast radius.
"""

from typing import Final, NamedTuple

import numpy as np

from models.control.projection import hold_of, project
from models.jit import kernel
from models.sim.apps import F32, F64, I32
from models.sim.plan import Reason
from models.sim.state import DOMAIN, PENDING, READY, REPLICAS, STARTING

BLAST_SHARE: Final = 0.1
"""Of what a domain holds: that much may be decreased within a window."""
BLAST_WINDOW_S: Final = 60
COOL_DOWN_S: Final = 360
"""From any change of an app to its next decrease; longer than what counts as turning back."""
_ROUNDING: Final = 1e-6

_NO_METRICS = int(Reason.HOLD_NO_METRICS)
_RESTING = int(Reason.HOLD_COOL_DOWN)
_BLAST = int(Reason.HOLD_BLAST_RADIUS)
_BUDGET = int(Reason.HOLD_BUDGET)
_OUT, _YIELD = int(Reason.SCALE_OUT), int(Reason.YIELD)


class Restraint(NamedTuple):
    """What the actuator remembers. E environments, A apps, D domains."""

    rested: I32
    """[E, A] tick from which the app may be decreased again."""
    decreased: F64
    """[E, W, D] millicores taken away in each tick of the window."""
    sizing: I32
    """[E, A] millicores per pod that were asked for last: resizes land ticks later."""


class Workspace(NamedTuple):
    """Scratch of the kernels: [D], unless said otherwise."""

    held: F64
    room: F64
    low: F32
    high: F32
    limit: F64
    """Millicores that replicas may hold."""
    size: I32
    """[A] millicores per pod that count as held."""
    resized: I32
    """[A] the same after the tick."""


def start_restraint(environments: int, apps: int, domains: int, tick_s: int) -> Restraint:
    """Nothing was changed yet."""
    ticks = max(1, BLAST_WINDOW_S // tick_s)
    return Restraint(
        np.zeros((environments, apps), np.int32),
        np.zeros((environments, ticks, domains)),
        np.zeros((environments, apps), np.int32),
    )


def workspace(domains: int, apps: int) -> Workspace:
    """Scratch for one environment at a time."""
    return Workspace(
        held=np.zeros(domains),
        room=np.zeros(domains),
        low=np.zeros(domains, np.float32),
        high=np.zeros(domains, np.float32),
        limit=np.zeros(domains),
        size=np.zeros(apps, np.int32),
        resized=np.zeros(apps, np.int32),
    )


@kernel
def held_sizes(active: I32, cpu: I32, sizing: I32, size: I32) -> None:
    """[A] what a pod of each app holds, or will when the resize on its way has landed.

    An app that is not declared holds nothing.
    """
    for app in range(size.size):
        size[app] = max(cpu[app], sizing[app]) if active[app] == 1 else 0


@kernel
def without_surge(allowed: F64, known: I32, size: I32, limit: F64) -> None:
    """[D] what is left of the budgets for replicas: extra pods of a deploy are held, too."""
    for place in range(limit.size):
        limit[place] = allowed[place]
    for app in range(size.size):
        pods = known[READY, app] + known[STARTING, app] + known[PENDING, app]
        extra = max(0, pods - known[REPLICAS, app])
        limit[known[DOMAIN, app]] -= np.float64(extra) * np.float64(size[app])


def cool_down_ticks(tick_s: int) -> int:
    """Ticks from a change of an app to its next decrease."""
    return COOL_DOWN_S // tick_s


@kernel
def enforce(
    wanted: I32,
    reason: I32,
    current: I32,
    pending: I32,
    size: I32,
    domain: I32,
    missing: F32,
    load: F32,
    tick: int,
    cool_down: int,
    least: I32,
    most: I32,
    allowed: F64,
    rested: I32,
    decreased: F64,
    work: Workspace,
) -> None:
    """Cut the wishes of one environment to what is allowed, and remember what was changed."""
    _keep_bounds(wanted, reason, current, missing, rested, tick, least, most)
    _keep_blast_radius(wanted, reason, current, pending, size, domain, tick, decreased, work.held)
    _keep_budget(wanted, reason, current, load, size, domain, allowed, work)
    for app in range(wanted.size):
        if wanted[app] != current[app]:
            rested[app] = tick + cool_down


@kernel
def _keep_bounds(
    wanted: I32,
    reason: I32,
    current: I32,
    missing: F32,
    rested: I32,
    tick: int,
    least: I32,
    most: I32,
) -> None:
    """Declared minima and maxima; and nothing is taken from an app that is unseen or unrested.

    Only what others cannot do without is given before an app has rested.
    """
    for app in range(wanted.size):
        wanted[app] = min(max(wanted[app], least[app]), most[app])
        if wanted[app] >= current[app]:
            continue
        if missing[app] > 0.0:
            wanted[app], reason[app] = current[app], _NO_METRICS
        elif rested[app] > tick and reason[app] != _YIELD:
            wanted[app], reason[app] = current[app], _RESTING


@kernel
def _keep_blast_radius(
    wanted: I32,
    reason: I32,
    current: I32,
    pending: I32,
    size: I32,
    domain: I32,
    tick: int,
    decreased: F64,
    room: F64,
) -> None:
    """Take away no more per domain and window than its share; who comes first changes by tick."""
    slot = decreased[tick % decreased.shape[0]]
    for place in range(slot.size):
        slot[place] = 0.0
    left_of_blast(current, size, domain, decreased, room)
    for step in range(wanted.size):
        app = (step + tick * 131) % wanted.size
        if wanted[app] >= current[app]:
            continue
        # A pod that never found a node can be withdrawn: nothing runs there to be missed.
        running = current[app] - pending[app]
        lot = np.float64(max(0, running - wanted[app])) * np.float64(size[app])
        if lot > max(0.0, room[domain[app]]):
            fewer = max(0, int(room[domain[app]] / max(1, size[app])))
            wanted[app] = min(running, current[app]) - fewer
            reason[app] = _BLAST if wanted[app] == current[app] else reason[app]
            lot = np.float64(fewer) * np.float64(size[app])
        room[domain[app]] -= lot
        slot[domain[app]] += lot


@kernel
def left_of_blast(current: I32, size: I32, domain: I32, decreased: F64, room: F64) -> None:
    """[D] millicores that may still be taken away or resized in this window."""
    hold_of(current, size, domain, room)
    for place in range(room.size):
        room[place] *= BLAST_SHARE
        for past in range(decreased.shape[0]):
            room[place] -= decreased[past, place]


@kernel
def left_of_budget(replicas: I32, size: I32, domain: I32, allowed: F64, room: F64) -> None:
    """[D] millicores of the budgets that are not held."""
    hold_of(replicas, size, domain, room)
    for place in range(room.size):
        room[place] = max(0.0, allowed[place] - room[place])


@kernel
def _keep_budget(
    wanted: I32,
    reason: I32,
    current: I32,
    load: F32,
    size: I32,
    domain: I32,
    allowed: F64,
    work: Workspace,
) -> None:
    project(wanted, current, load, size, domain, allowed, work.held, work.low, work.high)
    for app in range(wanted.size):
        cut = work.high[domain[app]] > 0.0 and reason[app] == _OUT
        if cut and wanted[app] == current[app]:
            reason[app] = _BUDGET


@kernel
def overruns(
    before: I32,
    size_before: I32,
    after: I32,
    size_after: I32,
    domain: I32,
    allowed: F64,
    was: F64,
    now: F64,
) -> int:
    """How many domains were increased beyond what they may hold: none, if all is well."""
    hold_of(before, size_before, domain, was)
    hold_of(after, size_after, domain, now)
    count = 0
    for place in range(allowed.size):
        beyond = now[place] > allowed[place] * (1.0 + _ROUNDING)
        count += 1 if beyond and now[place] > was[place] else 0
    return count
