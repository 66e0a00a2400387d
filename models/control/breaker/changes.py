"""What changes of replicas do to a domain, and the last replicas that were known to be good.

Changes are taken from the observed replicas, whoever made them: what counts is what happened to the
apps. E environments, D domains, A apps.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I8, I32
from models.control.breaker.readings import (
    AppSamples,
    Readings,
    is_valid,
    share,
    share_of,
    sums,
)
from models.jit import kernel

WINDOW_TICKS: Final = 30
"""Five minutes: so long a decrease is blamed for lost headroom, and a change back is a reversal."""
RATE_TICKS: Final = 6
"""The minute over which decreases are summed, as for the blast radius."""
GOOD_TICKS: Final = 30
"""Calm ticks after which a set of replicas is known to be good."""
GOOD_RISK: Final = 0.02
"""A domain is calm up to this share of requests at risk or failing."""
NOISE: Final = 1.05
"""What traffic varies by from tick to tick, as a factor."""
ROLLBACK_SHARE: Final = 0.05
"""Share of a domain's cores that a rollback adds per tick at most, less those of pods that wait for
nodes; at least a pod per app."""
LEAST_CHANGES: Final = 5
"""Fewest planned changes to judge holds by."""
_NEVER: Final = -(1 << 30)

_APPS, _TURNED, _REQUESTS, _BLAMED, _REMOVED, _RUNNING = range(6)
"""Rows of the sums by domain."""
_SUMS: Final = 6


class ChangeMemory(NamedTuple):
    """What is remembered of the apps, updated in place; the axis of apps is the last if any."""

    replicas: I32
    """[E, A] as last observed; 0 before."""
    pending: I32
    """[E, A] likewise."""
    fine: I8
    """[E, A] 1 where the app had headroom when last observed."""
    direction: I8
    """[E, A] of the last change: 1 more, -1 fewer, 0 none yet."""
    changed: I32
    """[E, A] tick of the last change."""
    turned: I32
    """[E, A] tick of the last change back."""
    shrunk: I32
    """[E, A] tick of the last decrease."""
    fine_before: I8
    """[E, A] 1 where the app had headroom before the decreases of the window."""
    rps_before: F64
    """[E, A] its traffic then."""
    replicas_before: I32
    """[E, A] its replicas then."""
    candidate: I32
    """[E, A] replicas that become good if the domain stays calm."""
    good: I32
    """[E, A] replicas that were known to be good last; 0 if none."""
    removed: F64
    """[E, D, RATE_TICKS] millicores of running pods taken away, the newest last."""
    running: F64
    """[E, D, RATE_TICKS] millicores of running pods before."""
    outcomes: F64
    """[E, D, WINDOW_TICKS, 2] planned changes, and those of them that could not be made."""
    calm: I32
    """[E, D] ticks in a row in which the domain was calm, since the candidate was taken."""


def start_changes(environments: int, domains: int, apps: int) -> ChangeMemory:
    """Nothing observed yet."""
    per_app, per_domain = (environments, apps), (environments, domains)
    return ChangeMemory(
        replicas=np.zeros(per_app, np.int32),
        pending=np.zeros(per_app, np.int32),
        fine=np.zeros(per_app, np.int8),
        direction=np.zeros(per_app, np.int8),
        changed=np.full(per_app, _NEVER, np.int32),
        turned=np.full(per_app, _NEVER, np.int32),
        shrunk=np.full(per_app, _NEVER, np.int32),
        fine_before=np.zeros(per_app, np.int8),
        rps_before=np.zeros(per_app),
        replicas_before=np.zeros(per_app, np.int32),
        candidate=np.zeros(per_app, np.int32),
        good=np.zeros(per_app, np.int32),
        removed=np.zeros((*per_domain, RATE_TICKS)),
        running=np.zeros((*per_domain, RATE_TICKS)),
        outcomes=np.zeros((*per_domain, WINDOW_TICKS, 2)),
        calm=np.zeros(per_domain, np.int32),
    )


def follow(
    tick: I32, samples: AppSamples, readings: Readings, outcomes: F64, memory: ChangeMemory
) -> Readings:
    """Take a tick into the memory, and fill in the readings that depend on earlier ticks.

    `tick` is [E]; `outcomes` [E, D, 2] are the changes planned and held since the last tick.
    """
    environments, domains = readings.age.shape
    held, regression, oscillation, decreases = np.zeros((4, environments, domains))
    readings = readings._replace(
        held=held, regression=regression, oscillation=oscillation, decreases=decreases
    )
    _follow(tick, samples, outcomes, np.zeros((environments, _SUMS, domains)), readings, memory)
    return readings


def rollback_targets(samples: AppSamples, memory: ChangeMemory, room: F64) -> I32:
    """[E, A] replicas after the next step back to the last good ones; -1 where none is needed.

    Only increases: fewer replicas than now may have been good under less traffic. `room` [E, D]
    are the millicores that each domain may add.
    """
    domain, domains = samples.domain, room.shape[1]
    known = (domain >= 0) & (samples.replicas > 0) & (samples.cpu > 0)
    lacking = np.where(known, np.maximum(memory.good - samples.replicas, 0), 0)
    cores = samples.cpu.astype(np.float64)
    whole = sums(lacking * cores, domain, domains)
    rate = ROLLBACK_SHARE * sums(np.maximum(samples.replicas, 0) * cores, domain, domains)
    # Pods that wait for nodes are not back yet. Where many do, more would take nodes from others.
    rate -= sums(np.where(known, np.maximum(samples.pending, 0), 0) * cores, domain, domains)
    part = np.clip(share(np.minimum(rate, room), whole, 0.0), 0.0, 1.0)
    # An app that is not declared (index -1) lacks nothing, whatever part it reads.
    each = np.take_along_axis(part, np.maximum(domain, 0), axis=1)
    # At least a pod while there is room: a rate below one pod would never get there.
    step = np.maximum(np.floor(lacking * each), (each > 0) & (lacking > 0))
    return np.where(step > 0, samples.replicas + step, -1).astype(np.int32)


@kernel
def _follow(
    tick: I32,
    samples: AppSamples,
    outcomes: F64,
    sums: F64,
    readings: Readings,
    memory: ChangeMemory,
) -> None:
    """Update the memory and fill in the readings of every environment."""
    for e in range(tick.size):
        now, begins = tick[e], False
        for app in range(samples.domain.shape[1]):
            _compare(now, samples, e, app, sums[e], memory)
            _count(now, samples, e, app, sums[e], memory)
        for d in range(sums.shape[2]):
            own = sums[e, :, d]
            _push(memory.removed[e, d], own[_REMOVED])
            _push(memory.running[e, d], own[_RUNNING])
            _push(memory.outcomes[e, d, :, 0], outcomes[e, d, 0])
            _push(memory.outcomes[e, d, :, 1], outcomes[e, d, 1])
            planned, held = memory.outcomes[e, d, :, 0].sum(), memory.outcomes[e, d, :, 1].sum()
            if planned >= LEAST_CHANGES:
                readings.held[e, d] = share_of(held, planned, 0.0)
            readings.regression[e, d] = share_of(own[_BLAMED], own[_REQUESTS], 0.0)
            readings.oscillation[e, d] = share_of(own[_TURNED], own[_APPS], 0.0)
            running = 0.0
            for cores in memory.running[e, d]:
                running = max(running, cores)
            removed = share_of(memory.removed[e, d].sum(), running, 0.0)
            readings.decreases[e, d] = min(removed, 1.0)
            begins |= _count_calm(readings, memory, e, d)
        if begins:
            _remember_good(samples, memory, e)


@kernel
def _compare(
    now: int, samples: AppSamples, e: int, app: int, sums: F64, memory: ChangeMemory
) -> None:
    """Compare an app's replicas with those of the last tick."""
    replicas, cores = samples.replicas[e, app], np.float64(samples.cpu[e, app])
    # Zero replicas are unknown or their owner's decision; then there is nothing to compare.
    if samples.missing[e, app] or replicas <= 0 or cores <= 0.0:
        return
    before, measured = memory.replicas[e, app], is_valid(samples, e, app)
    if before > 0:
        running, d = max(before - memory.pending[e, app], 0), samples.domain[e, app]
        if 0 <= d < sums.shape[1]:
            # Pending pods may leave without counting: nothing runs there that could be missed.
            sums[_REMOVED, d] += max(running - replicas, 0) * cores
            sums[_RUNNING, d] += running * cores
        if replicas != before:
            direction = 1 if replicas > before else -1
            back = direction == -memory.direction[e, app]
            if back and now - memory.changed[e, app] <= WINDOW_TICKS:
                memory.turned[e, app] = now
            memory.direction[e, app], memory.changed[e, app] = direction, now
        if replicas < before:
            # Later decreases of the window are blamed together with the first.
            if now - memory.shrunk[e, app] > WINDOW_TICKS:
                memory.fine_before[e, app] = memory.fine[e, app]
                memory.replicas_before[e, app] = before
                if measured:
                    memory.rps_before[e, app] = samples.rps[e, app]
            memory.shrunk[e, app] = now
    memory.replicas[e, app], memory.pending[e, app] = replicas, samples.pending[e, app]
    if measured:
        memory.fine[e, app] = 1 if samples.headroom[e, app] >= 0 else 0


@kernel
def _count(
    now: int, samples: AppSamples, e: int, app: int, sums: F64, memory: ChangeMemory
) -> None:
    """Add a declared app to the sums of its domain."""
    d = samples.domain[e, app]
    if d < 0 or d >= sums.shape[1]:
        return
    sums[_APPS, d] += 1
    sums[_TURNED, d] += 1 if now - memory.turned[e, app] < WINDOW_TICKS else 0
    if not is_valid(samples, e, app):
        return
    requests = samples.rps[e, app]
    sums[_REQUESTS, d] += requests
    lost = samples.headroom[e, app] < 0 and memory.fine_before[e, app] == 1
    if lost and now - memory.shrunk[e, app] <= WINDOW_TICKS:
        replicas, pending = samples.replicas[e, app], samples.pending[e, app]
        # Traffic that grew by more than the replicas shrank explains the burn by itself.
        explained = NOISE * memory.rps_before[e, app] * memory.replicas_before[e, app]
        # So do missing nodes, where at least as many pods wait for them as were taken away: more
        # replicas would only wait, too.
        short = pending > 0 and pending >= memory.replicas_before[e, app] - replicas
        blamed = not short and requests * replicas <= explained
        sums[_BLAMED, d] += requests if blamed else 0.0


@kernel
def _count_calm(readings: Readings, memory: ChangeMemory, e: int, d: int) -> bool:
    """Count a domain's calm ticks; whether a candidate begins with this one."""
    # Comparisons with NaN are false: an unknown tick is not calm.
    calm = readings.risk[e, d] <= GOOD_RISK and readings.errors[e, d] <= GOOD_RISK
    calm = calm and readings.missing[e, d] < 0.5
    memory.calm[e, d] = memory.calm[e, d] + 1 if calm else 0
    return bool(memory.calm[e, d] == 1 or memory.calm[e, d] > GOOD_TICKS)


@kernel
def _remember_good(samples: AppSamples, memory: ChangeMemory, e: int) -> None:
    """Replicas that were followed by enough calm ticks are good, and the next candidate begins."""
    calm = memory.calm[e]
    for app in range(samples.domain.shape[1]):
        d = samples.domain[e, app]
        if d < 0 or d >= calm.size:
            continue
        if calm[d] > GOOD_TICKS:
            memory.good[e, app] = memory.candidate[e, app]
        if calm[d] > GOOD_TICKS or calm[d] == 1:
            memory.candidate[e, app] = memory.replicas[e, app]
    for d in range(calm.size):
        calm[d] = 1 if calm[d] > GOOD_TICKS else calm[d]


@kernel
def _push(ring: F64, newest: float) -> None:
    """Drop the oldest value, which is the first."""
    for index in range(1, ring.size):
        ring[index - 1] = ring[index]
    ring[ring.size - 1] = newest
