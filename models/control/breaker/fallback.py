"""Down and up the levels: policy, heuristic, reactive, hold.

A condition that has held for its ticks steps down, at least to the first level without what it
doubts. It steps on while it holds, for its whole time at each level, until its last level: doubt
about forecasts ends where they are not used, doubt about the decisions themselves ends in a hold.
One level is climbed after each calm probation of all conditions. Phases of the breaker (`phases`)
are a matter of their own: a domain may be half-open and have fallen back. E environments, D
domains, C conditions.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I8, I32
from models.control.breaker.actions import Cause
from models.control.breaker.limits import Table
from models.control.breaker.phases import count_bad_ticks
from models.control.fallback import Level
from models.jit import kernel

_NONE: Final = int(Cause.NONE)
_STEPS: Final = {
    Cause.SKILL: (Level.REACTIVE, Level.REACTIVE),
    Cause.OUTPUT: (Level.REACTIVE, Level.REACTIVE),
    Cause.BUDGETS: (Level.HEURISTIC, Level.HOLD),
}
"""The first level that a condition steps down to, and the last. A condition that doubts the output
of a learned policy steps down to the heuristic."""
_STEPS_BY_CAUSE: Final = np.array(
    [_STEPS.get(cause, (Level.POLICY, Level.POLICY)) for cause in Cause]
)
"""The same for kernels, [Cause, first and last]. A cause without steps has nowhere to go."""


class FallbackMemory(NamedTuple):
    """What is remembered from tick to tick."""

    level: I8
    """[E, D] of Level."""
    cause: I8
    """[E, D] of Cause, for the last step down; NONE where nothing fell back."""
    held: I32
    """[E, D, C] ticks for which each condition has held."""
    calm: I32
    """[E, D] ticks in a row in which all conditions were calm."""


def start_fallback(environments: int, table: Table, level: Level = Level.POLICY) -> FallbackMemory:
    """At a level, for no known reason; by default nothing has fallen back."""
    domains, conditions = table.threshold.shape
    shape = environments, domains
    return FallbackMemory(
        level=np.full(shape, level, np.int8),
        cause=np.zeros(shape, np.int8),
        held=np.zeros((*shape, conditions), np.int32),
        calm=np.zeros(shape, np.int32),
    )


def advance_levels(values: F64, memory: FallbackMemory, table: Table) -> FallbackMemory:
    """The levels after a tick in which the conditions had these values, [E, D, C]; NaN: unknown."""
    after = FallbackMemory._make(part.copy() for part in memory)
    _advance_levels(values, table, after)
    return after


@kernel
def _advance_levels(values: F64, table: Table, memory: FallbackMemory) -> None:
    for e in range(values.shape[0]):
        for d in range(values.shape[1]):
            _advance_level(values[e, d], table, memory, e, d)


@kernel
def _advance_level(values: F64, table: Table, memory: FallbackMemory, e: int, d: int) -> None:
    level = below = int(memory.level[e, d])
    cause, all_calm = memory.cause[e, d], True
    for c in range(values.size):
        # Unknown is neither bad nor calm: nothing steps down, nothing climbs.
        calm = values[c] <= table.threshold[d, c] * table.calm_part
        held = count_bad_ticks(values[c], table.threshold[d, c], calm, memory.held[e, d, c])
        memory.held[e, d, c] = held
        all_calm &= calm
        kind = table.causes[c]
        first, last = _STEPS_BY_CAUSE[kind, 0], _STEPS_BY_CAUSE[kind, 1]
        # What a level does not use cannot be what is wrong with it.
        steps = held >= table.patience[d, c] and level < last
        target = max(level + 1, first) if steps else level
        # The first condition that steps that far.
        if target > below:
            below, cause = target, kind
    count = memory.calm[e, d] + 1 if all_calm and level > Level.POLICY else 0
    falls = below > level
    climbs = not falls and count >= table.probation
    level = below - 1 if climbs else below
    moved = falls or climbs
    memory.level[e, d] = level
    memory.cause[e, d] = _NONE if level == Level.POLICY else cause
    memory.calm[e, d] = 0 if moved else count
    if moved:
        # At a new level a condition has to hold for its whole time again.
        memory.held[e, d] = 0
