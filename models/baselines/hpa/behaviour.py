"""The `behavior` field: stabilisation windows, then policies that limit the rate.

Each direction has its own window and policies. Recommendations and scale events are kept per app
with their times, because windows and periods differ from app to app.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from models.baselines.hpa.settings import (
    DISABLED,
    DOWN,
    KIND,
    MAX,
    PERCENT,
    PERIOD,
    UP,
    VALUE,
    BehaviourRules,
)
from models.baselines.hpa.window import ABSENT, OUTSIDE, bounded, is_sync
from models.cluster.arrays import I64
from models.jit import kernel

_AMOUNT, _TIME = range(2)
# Beyond any number of replicas: where a search for the largest or smallest proposal starts.
_LOWEST: Final = -(1 << 31)
_HIGHEST: Final = (1 << 31) - 1


class BehaviourMemory(NamedTuple):
    """What HPAs with a `behavior` field remember."""

    recommended: I64
    """[K, 2, A] replicas and time; a ring."""
    recommendations: I64
    """[A] number ever written; 0 before the first sync."""
    changed: I64
    """[2, N, 2, A] replicas added or removed, and when; a list."""
    changes: I64
    """[2, A] length of the list."""


def empty_memory(recommendations: int, events: int, apps: int) -> BehaviourMemory:
    """Empty, with room for the longest window and period."""
    return BehaviourMemory(
        recommended=np.zeros((recommendations, 2, apps), np.int64),
        recommendations=np.zeros(apps, np.int64),
        changed=np.zeros((2, events, 2, apps), np.int64),
        changes=np.zeros((2, apps), np.int64),
    )


@kernel
def behave(
    rules: BehaviourRules, memory: BehaviourMemory, app: int, wanted: int, current: int,
    least: int, most: int, now: int,
) -> int:  # fmt: skip
    """Replicas after one sync of one app; callers record a change with `store_change`."""
    if wanted == ABSENT:
        # A deleted HPA takes its memory along; a new one of that name starts afresh.
        memory.recommendations[app] = 0
        memory.changes[UP, app] = memory.changes[DOWN, app] = 0
    if not is_sync(wanted):
        return current
    # The controller seeds its history with the replicas it finds. This keeps a new HPA from
    # scaling in for a whole window, and from scaling out for a whole upscale window.
    if memory.recommendations[app] == 0:
        _store(memory, app, current, now)
    # The bounds come before all else: no metric is read, nothing more is stored and no policy
    # applies, even if the direction is disabled.
    if wanted == OUTSIDE:
        return bounded(current, least, most)
    if wanted < 0:
        return current
    stable = _stabilise(rules, memory, app, wanted, current, now)
    # What the metric recommends is stored, not what is decided: neither bounds nor policies.
    _store(memory, app, wanted, now)
    if stable > current:
        return min(stable, most, _ceiling(rules, memory, app, current, now))
    if stable < current:
        return max(stable, least, _floor(rules, memory, app, current, now))
    return current


@kernel
def _store(memory: BehaviourMemory, app: int, replicas: int, now: int) -> None:
    slot = memory.recommendations[app] % memory.recommended.shape[0]
    memory.recommended[slot, _AMOUNT, app] = replicas
    memory.recommended[slot, _TIME, app] = now
    memory.recommendations[app] += 1


@kernel
def _stabilise(
    rules: BehaviourRules, memory: BehaviourMemory, app: int, wanted: int, current: int, now: int
) -> int:
    """The current replicas, moved only as far as all recommendations of a window agree."""
    up = down = wanted
    for slot in range(min(memory.recommendations[app], memory.recommended.shape[0])):
        past, age = (
            memory.recommended[slot, _AMOUNT, app],
            now - memory.recommended[slot, _TIME, app],
        )
        # The end of a window is excluded here, while the older algorithm in `window` includes it.
        if age < rules.window[UP, app]:
            up = min(up, past)
        if age < rules.window[DOWN, app]:
            down = max(down, past)
    return min(max(current, up), down)


@kernel
def _start_of_period(memory: BehaviourMemory, app: int, current: int, period: int, now: int) -> int:
    """The replicas before the changes of a period; those of both directions count."""
    start = current
    for event in range(memory.changes[UP, app]):
        if now - memory.changed[UP, event, _TIME, app] < period:
            start -= memory.changed[UP, event, _AMOUNT, app]
    for event in range(memory.changes[DOWN, app]):
        if now - memory.changed[DOWN, event, _TIME, app] < period:
            start += memory.changed[DOWN, event, _AMOUNT, app]
    return start


@kernel
def _ceiling(
    rules: BehaviourRules, memory: BehaviourMemory, app: int, current: int, now: int
) -> int:
    """Replicas that the policies allow on the way up."""
    select = rules.select[UP, app]
    if select == DISABLED:
        return current
    found = _LOWEST if select == MAX else _HIGHEST
    for index in range(rules.policies.shape[1]):
        policy = rules.policies[UP, index, :, app]
        if policy[KIND] < 0:
            continue
        start = _start_of_period(memory, app, current, policy[PERIOD], now)
        proposed = start + policy[VALUE]
        if policy[KIND] == PERCENT:
            # Doubles in the order of the controller: ceil(50 * (1 + 10 / 100)) is 56, not 55.
            proposed = math.ceil(start * (1.0 + policy[VALUE] / 100.0))
        found = max(found, proposed) if select == MAX else min(found, proposed)
    # The bounds may have added more within the period than the policies allow; that must not turn
    # a scale-out into a scale-in.
    return max(found, current)


@kernel
def _floor(rules: BehaviourRules, memory: BehaviourMemory, app: int, current: int, now: int) -> int:
    """Replicas that the policies allow on the way down: the lowest when the most is allowed."""
    select = rules.select[DOWN, app]
    if select == DISABLED:
        return current
    found = _HIGHEST if select == MAX else _LOWEST
    for index in range(rules.policies.shape[1]):
        policy = rules.policies[DOWN, index, :, app]
        if policy[KIND] < 0:
            continue
        start = _start_of_period(memory, app, current, policy[PERIOD], now)
        proposed = start - policy[VALUE]
        if policy[KIND] == PERCENT:
            # Truncated, not rounded: 10 * (1 - 80 / 100) is a little below 2 and gives 1.
            proposed = int(start * (1.0 - policy[VALUE] / 100.0))
        found = min(found, proposed) if select == MAX else max(found, proposed)
    return min(found, current)


@kernel
def store_change(
    rules: BehaviourRules, memory: BehaviourMemory, app: int, before: int, after: int, now: int
) -> None:
    """Record a change.

    It replaces the last entry that is too old for the policies of its direction, even if the other
    direction looks further back: the Kubernetes controller saves memory in this way.
    """
    direction = UP if after > before else DOWN
    slot, length = memory.changes[direction, app], memory.changed.shape[1]
    for event in range(memory.changes[direction, app]):
        if now - memory.changed[direction, event, _TIME, app] > rules.longest[direction, app]:
            slot = event
    # Callers allocate enough entries. numba does not check indices, so a mistake there would
    # otherwise overwrite other memory without an error.
    slot = min(slot, length - 1)
    memory.changed[direction, slot, _AMOUNT, app] = abs(after - before)
    memory.changed[direction, slot, _TIME, app] = now
    memory.changes[direction, app] = max(memory.changes[direction, app], slot + 1)
