"""What changes of replicas do to a domain, and the last replicas that were known to be good.

Changes are taken from the observed replicas, whoever made them: what counts is what happened to the
apps. E environments, D domains, A apps.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I8, I32
from models.control.breaker.readings import AppSamples, Mask, Readings, members, share, sums

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
"""Share of a domain's cores that a rollback adds per tick at most, and at least a pod per app."""
LEAST_CHANGES: Final = 5
"""Fewest planned changes to judge holds by."""
_NEVER: Final = -(1 << 30)


class ChangeMemory(NamedTuple):
    """What is remembered of the apps; the axis of apps is the last where there is one."""

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
    none, small = np.zeros(per_app, np.int32), np.zeros(per_app, np.int8)
    never = np.full(per_app, _NEVER, np.int32)
    ring = np.zeros((*per_domain, RATE_TICKS))
    return ChangeMemory(
        replicas=none,
        pending=none,
        fine=small,
        direction=small,
        changed=never,
        turned=never,
        shrunk=never,
        fine_before=small,
        rps_before=np.zeros(per_app),
        replicas_before=none,
        candidate=none,
        good=none,
        removed=ring,
        running=ring,
        outcomes=np.zeros((*per_domain, WINDOW_TICKS, 2)),
        calm=np.zeros(per_domain, np.int32),
    )


def follow(
    tick: I32, samples: AppSamples, readings: Readings, outcomes: F64, memory: ChangeMemory
) -> tuple[Readings, ChangeMemory]:
    """Fill in the readings that depend on earlier ticks.

    `tick` is [E]; `outcomes` [E, D, 2] are the changes planned and held since the last tick.
    """
    member = members(samples.domain, readings.age.shape[1])
    memory = _with_outcomes(outcomes, memory)
    memory = _with_changes(tick[:, None], samples, member, memory)
    readings = readings._replace(
        held=_held(memory),
        regression=_regression(tick[:, None], samples, member, memory),
        oscillation=share(
            sums(tick[:, None] - memory.turned < WINDOW_TICKS, member),
            sums(np.ones_like(samples.missing), member),
            0.0,
        ),
        decreases=np.minimum(
            share(memory.removed.sum(axis=2), memory.running.max(axis=2), 0.0), 1.0
        ),
    )
    return readings, _with_good(samples, readings, memory)


def rollback_targets(samples: AppSamples, memory: ChangeMemory, room: F64, member: F64) -> I32:
    """[E, A] replicas after the next step back to the last good ones; -1 where none is needed.

    Only increases: fewer replicas than now may have been good under less traffic. `room` [E, D]
    are the millicores that each domain may add, `member` [E, A, D] says whose app is whose.
    """
    known = (samples.domain >= 0) & (samples.replicas > 0) & (samples.cpu > 0)
    lacking = np.where(known, np.maximum(memory.good - samples.replicas, 0), 0)
    cores = samples.cpu.astype(np.float64)
    whole = sums(lacking * cores, member)
    rate = ROLLBACK_SHARE * sums(np.maximum(samples.replicas, 0) * cores, member)
    part = np.clip(share(np.minimum(rate, np.maximum(room, 0.0)), whole, 0.0), 0.0, 1.0)
    each = np.matmul(member, part[..., None])[..., 0]
    # At least a pod while there is room: a rate below one pod would never get there.
    step = np.maximum(np.floor(lacking * each), (each > 0) & (lacking > 0))
    return np.where(step > 0, samples.replicas + step, -1).astype(np.int32)


def _with_outcomes(outcomes: F64, memory: ChangeMemory) -> ChangeMemory:
    ring = np.concatenate([memory.outcomes[:, :, 1:], outcomes[:, :, None]], axis=2)
    return memory._replace(outcomes=ring)


def _held(memory: ChangeMemory) -> F64:
    planned, held = np.moveaxis(memory.outcomes.sum(axis=2), 2, 0)
    return np.where(planned < LEAST_CHANGES, 0.0, share(held, planned, 0.0))


def _with_changes(now: I32, samples: AppSamples, member: F64, memory: ChangeMemory) -> ChangeMemory:
    """Compare the replicas with those of the last tick."""
    # Zero replicas are unknown or their owner's decision; then there is nothing to compare.
    known = ~samples.missing & (samples.replicas > 0) & (samples.cpu > 0)
    comparable = known & (memory.replicas > 0)
    delta = np.where(comparable, samples.replicas - memory.replicas, 0)
    direction = np.sign(delta).astype(np.int8)
    back = (direction != 0) & (direction == -memory.direction)
    turned = back & (now - memory.changed <= WINDOW_TICKS)
    shrank = delta < 0
    # Later decreases of the window are blamed together with the first.
    first = shrank & (now - memory.shrunk > WINDOW_TICKS)
    running = np.maximum(memory.replicas - memory.pending, 0)
    cores = samples.cpu.astype(np.float64)
    # Pending pods may leave without counting: nothing runs there that could be missed.
    removed = np.where(comparable, np.maximum(running - samples.replicas, 0), 0) * cores
    measured = known & samples.valid
    return memory._replace(
        replicas=np.where(known, samples.replicas, memory.replicas).astype(np.int32),
        pending=np.where(known, samples.pending, memory.pending).astype(np.int32),
        fine=np.where(measured, samples.headroom >= 0, memory.fine).astype(np.int8),
        direction=np.where(direction != 0, direction, memory.direction).astype(np.int8),
        changed=np.where(direction != 0, now, memory.changed).astype(np.int32),
        turned=np.where(turned, now, memory.turned).astype(np.int32),
        shrunk=np.where(shrank, now, memory.shrunk).astype(np.int32),
        fine_before=np.where(first, memory.fine, memory.fine_before).astype(np.int8),
        rps_before=np.where(first & measured, samples.rps, memory.rps_before),
        replicas_before=np.where(first, memory.replicas, memory.replicas_before).astype(np.int32),
        removed=_pushed(memory.removed, sums(removed, member)),
        running=_pushed(memory.running, sums(np.where(comparable, running, 0) * cores, member)),
    )


def _regression(now: I32, samples: AppSamples, member: F64, memory: ChangeMemory) -> F64:
    valid = samples.valid
    requests = np.where(valid, samples.rps, 0.0)
    blamed: Mask = valid & (samples.headroom < 0) & (memory.fine_before == 1)
    blamed &= now - memory.shrunk <= WINDOW_TICKS
    # Traffic that grew by more than the replicas shrank explains the burn by itself.
    blamed &= requests * samples.replicas <= NOISE * memory.rps_before * memory.replicas_before
    return share(sums(np.where(blamed, requests, 0.0), member), sums(requests, member), 0.0)


def _with_good(samples: AppSamples, readings: Readings, memory: ChangeMemory) -> ChangeMemory:
    """Replicas that were followed by enough calm ticks are good, and the next candidate begins."""
    # Comparisons with NaN are false: an unknown tick is not calm.
    calm = (readings.risk <= GOOD_RISK) & (readings.errors <= GOOD_RISK) & (readings.missing < 0.5)
    count = np.where(calm, memory.calm + 1, 0)
    proven = count > GOOD_TICKS
    begins = proven | (count == 1)
    domain, rows = samples.domain, np.arange(samples.domain.shape[0])[:, None]
    # The last column stands for apps that are not declared (index -1).
    columns = [np.pad(mask, ((0, 0), (0, 1))) for mask in (proven, begins)]
    is_proven, is_new = (mask[rows, domain] for mask in columns)
    return memory._replace(
        good=np.where(is_proven, memory.candidate, memory.good).astype(np.int32),
        candidate=np.where(is_new, memory.replicas, memory.candidate).astype(np.int32),
        calm=np.where(proven, 1, count).astype(np.int32),
    )


def _pushed(ring: F64, newest: F64) -> F64:
    return np.concatenate([ring[..., 1:], newest[..., None]], axis=2)
