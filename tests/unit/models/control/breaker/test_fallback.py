"""Down and up the levels."""

import math
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from models.control.breaker.actions import Cause
from models.control.breaker.cluster import ClusterThresholds, cluster_fallback_table
from models.control.breaker.fallback import FallbackMemory, advance_levels, start_fallback
from models.control.breaker.limits import Table, Thresholds, fallback_table
from models.control.fallback import Level

NAN = math.nan
LIMITS = Thresholds(skill_share=0.5, skill_ticks=3, output_ticks=2, probation_ticks=4)
FORECASTS = fallback_table([LIMITS])
BUDGETS = cluster_fallback_table(ClusterThresholds(budgets_fallback_ticks=3), LIMITS)
Values = tuple[float, ...]
GOOD, UNSKILLED, BROKEN, UNKNOWN = (0.0, 0.0), (0.9, 0.0), (0.0, 1.0), (NAN, NAN)
some = settings(max_examples=50, deadline=None)
reading = st.sampled_from([0.0, 0.0, 0.04, 0.2, 0.4, 0.6, 1.0, NAN])


def play(
    history: Sequence[Values], table: Table = FORECASTS, memory: FallbackMemory | None = None
) -> list[FallbackMemory]:
    """The memory after each tick."""
    memories = [memory or start_fallback(1, table)]
    for values in history:
        memories.append(advance_levels(np.array([[values]]), memories[-1], table))
    return memories[1:]


def levels(memories: Sequence[FallbackMemory]) -> list[int]:
    return [int(memory.level[0, 0]) for memory in memories]


def cause(memory: FallbackMemory) -> Cause:
    return Cause(memory.cause[0, 0])


def test_doubt_about_forecasts_steps_down_to_the_first_level_without_them() -> None:
    for values, ticks, why in ((UNSKILLED, 3, Cause.SKILL), (BROKEN, 2, Cause.OUTPUT)):
        found = play([values] * ticks)
        assert levels(found) == [Level.POLICY] * (ticks - 1) + [Level.REACTIVE]
        assert cause(found[-1]) == why


@some
@given(st.lists(st.tuples(reading, reading), max_size=60))
def test_doubt_about_forecasts_never_ends_in_a_hold(history: list[Values]) -> None:
    assert all(level <= Level.REACTIVE for level in levels(play(history)))


def test_implausible_budgets_step_down_one_level_at_a_time_until_nothing_decides() -> None:
    found = levels(play([(1.0,)] * 15, BUDGETS))
    assert found == [0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3]


def test_another_cause_steps_down_from_where_the_first_one_led() -> None:
    table = FORECASTS._replace(causes=np.array([Cause.SKILL, Cause.BUDGETS], np.int8))
    fallen = play([UNSKILLED] * 3, table)[-1]
    found = play([BROKEN] * 2, table, fallen)
    assert levels(found) == [Level.REACTIVE, Level.HOLD]
    assert cause(found[-1]) == Cause.BUDGETS


def test_one_level_is_climbed_after_each_calm_probation() -> None:
    fallen = play([(1.0,)] * 9, BUDGETS)[-1]
    found = play([(0.0,)] * 13, BUDGETS, fallen)
    assert levels(found) == [3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0]
    assert (cause(found[-3]), cause(found[-1])) == (Cause.BUDGETS, Cause.NONE)


def test_a_reading_that_is_not_calm_or_unknown_climbs_nothing() -> None:
    fallen = play([UNSKILLED] * 3)[-1]
    for values in ((0.3, 0.0), UNKNOWN, (0.0, NAN)):
        assert set(levels(play([values] * 20, memory=fallen))) == {Level.REACTIVE}


def test_what_is_unknown_steps_nothing_down() -> None:
    assert set(levels(play([UNKNOWN] * 20))) == {Level.POLICY}


@some
@given(st.lists(st.tuples(reading, reading), min_size=1, max_size=60))
def test_trust_comes_back_only_after_a_whole_calm_probation(history: list[Values]) -> None:
    found = [Level.POLICY, *levels(play([*history, *[GOOD] * 10]))]
    moved = 0
    for now in range(1, len(found)):
        if found[now] < found[now - 1]:
            assert now - moved >= LIMITS.probation_ticks
        moved = now if found[now] != found[now - 1] else moved
    assert found[-1] == Level.POLICY
