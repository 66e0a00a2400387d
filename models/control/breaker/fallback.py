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
from models.control.breaker.limits import Table
from models.control.breaker.orders import Cause
from models.control.breaker.phases import count_bad_ticks
from models.control.fallback import Level

_STEPS: Final = {
    Cause.SKILL: (Level.REACTIVE, Level.REACTIVE),
    Cause.OUTPUT: (Level.REACTIVE, Level.REACTIVE),
    Cause.BUDGETS: (Level.HEURISTIC, Level.HOLD),
}
"""The first level that a condition steps down to, and the last. A condition that doubts the output
of a learned policy steps down to the heuristic."""


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
    level = memory.level.astype(np.int32)[..., None]
    first, last = np.array([_STEPS[Cause(cause)] for cause in table.causes.tolist()]).T
    # Unknown is neither bad nor calm: nothing steps down, nothing climbs.
    calm = values <= table.threshold * table.calm_part
    held = count_bad_ticks(values, values > table.threshold, calm, memory.held)
    # What a level does not use cannot be what is wrong with it.
    steps = (held >= table.patience) & (level < last)
    target = np.where(steps, np.maximum(level + 1, first), level)
    below = target.max(axis=2)
    falls = steps.any(axis=2)
    count = np.where(calm.all(axis=2) & (memory.level > Level.POLICY), memory.calm + 1, 0)
    climbs = ~falls & (count >= table.probation)
    after = np.where(falls, below, memory.level - climbs)
    # argmax finds the first condition that steps that far.
    cause = np.where(falls, table.causes[(steps & (target == below[..., None])).argmax(axis=2)],
                     memory.cause)  # fmt: skip
    moved = falls | climbs
    return FallbackMemory(
        level=after.astype(np.int8),
        cause=np.where(after == Level.POLICY, Cause.NONE, cause).astype(np.int8),
        # At a new level a condition has to hold for its whole time again.
        held=np.where(moved[..., None], 0, held).astype(np.int32),
        calm=np.where(moved, 0, count).astype(np.int32),
    )
