"""The state machine of the breakers, on arrays."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.control.breaker.actions import Cause, Phase
from models.control.breaker.limits import Thresholds, table_of
from models.control.breaker.phases import (
    BreakerMemory,
    advance,
    burn,
    lost,
    start,
    windows_of,
)
from models.control.breaker.readings import Readings, unknown

# Short times, so that a random history of 40 ticks passes through every phase.
SHORT = Thresholds(
    missing_ticks=2, mismatch_ticks=2, error_ticks=3, burn_ticks=2, burn_short_ticks=3,
    burn_long_ticks=6, held_ticks=2, regression_ticks=2, oscillation_ticks=2, quiet_ticks=3,
    quiet_most_ticks=10, probation_ticks=4, resume_ticks=2, forget_ticks=20,
)  # fmt: skip
USUAL = Thresholds()
NAN = math.nan
some = settings(max_examples=30, deadline=None)
# Mostly fine, and values on both sides of each threshold and of its calm part.
reading = st.sampled_from([0.0, 0.0, 0.0, 0.12, 0.2, 0.25, 0.45, 0.8, 1.0, NAN])
ages = st.sampled_from([0.0] * 8 + [4.0, 7.0, NAN])
ticks = st.tuples(ages, *[reading] * 8)
"""In the order of `Readings`."""
histories = st.lists(ticks, min_size=1, max_size=40)
GOOD = (0.0,) * 9

Tick = tuple[float, ...]


def readings(values: Tick) -> Readings:
    return Readings(*np.array(values, np.float64)[:, None, None])


def play(
    history: Sequence[Tick], limits: Thresholds = SHORT, memory: BreakerMemory | None = None
) -> list[BreakerMemory]:
    """The memory after each tick, of one domain."""
    table, windows = table_of([limits]), windows_of((limits,))
    memories = [memory or start(0, 1, table, windows.longest)]
    for tick, values in enumerate(history):
        now = np.array([tick], np.int32)
        memories.append(advance(now, readings(values), memories[-1], table, windows))
    return memories[1:]


def phases(memories: Sequence[BreakerMemory]) -> list[Phase]:
    return [Phase(memory.phase[0, 0]) for memory in memories]


def tick_with(**values: float) -> Tick:
    return tuple({**dict.fromkeys(Readings._fields, 0.0), **values}.values())


def opened(limits: Thresholds = SHORT) -> BreakerMemory:
    """Open after a fault of the input."""
    return play([tick_with(missing=1.0)] * limits.missing_ticks, limits)[-1]


@some
@given(histories)
def test_an_open_breaker_never_closes_without_its_quiet_period_and_its_probation(
    history: list[Tick],
) -> None:
    seen = [Phase.CLOSED, *phases(play([*history, *[GOOD] * 30]))]
    began = 0
    for now in range(1, len(seen)):
        if seen[now] == seen[now - 1]:
            continue
        # After an outage of our own both periods are shorter, never none.
        if seen[now - 1] == Phase.OPEN:
            assert seen[now] == Phase.HALF_OPEN
            assert now - began >= SHORT.resume_ticks
        if seen[now] == Phase.CLOSED:
            assert seen[now - 1] == Phase.HALF_OPEN
            assert now - began >= SHORT.resume_ticks
        began = now


@some
@given(histories)
def test_a_breaker_always_closes_after_enough_calm_ticks(
    history: list[Tick],
) -> None:
    longest = SHORT.burn_long_ticks + SHORT.quiet_most_ticks + SHORT.probation_ticks + 2
    assert phases(play([*history, *[GOOD] * (2 * longest)]))[-1] == Phase.CLOSED


@some
@given(st.integers(0, 40), ticks)
def test_a_single_bad_tick_opens_nothing_unless_it_is_stale(before: int, bad: Tick) -> None:
    fresh = (0.0, *bad[1:])
    seen = phases(play([GOOD] * before + [fresh] + [GOOD] * 40, USUAL))
    assert set(seen) == {Phase.CLOSED}


def test_stale_input_opens_at_once() -> None:
    after = play([tick_with(age=7)], USUAL)[-1]
    assert phases([after]) == [Phase.OPEN]
    assert after.cause[0, 0] == Cause.STALE


@pytest.mark.parametrize("age", [NAN, math.inf, -1.0])
def test_an_invalid_age_counts_as_stale(age: float) -> None:
    assert phases(play([tick_with(age=age)], USUAL)) == [Phase.OPEN]


@pytest.mark.parametrize("field", Readings._fields[1:])
@pytest.mark.parametrize("value", [NAN, math.inf, -0.1, 1.5])
def test_an_invalid_reading_counts_as_missing(field: str, value: float) -> None:
    bad = tick_with(**{field: value})
    assert phases(play([bad] * SHORT.missing_ticks))[-1] == Phase.OPEN
    assert play([bad] * SHORT.missing_ticks)[-1].cause[0, 0] == Cause.MISSING
    assert set(phases(play([bad] * 50, memory=opened()))) == {Phase.OPEN}


@some
@given(histories)
def test_it_closes_only_after_a_probation_with_valid_and_calm_readings(
    history: list[Tick],
) -> None:
    calm = [SHORT.calm_part * bar for bar in (6, 0.5, 0.3, 0.5, 0.2)]
    whole = [*history, *[GOOD] * 20]
    seen = phases(play(whole, memory=opened()))
    for now in range(1, len(whole)):
        if (seen[now - 1], seen[now]) == (Phase.HALF_OPEN, Phase.CLOSED):
            for values in whole[now - SHORT.resume_ticks + 1 : now + 1]:
                assert all(value <= bar for value, bar in zip(values, calm, strict=False))


def test_an_unknown_tick_does_not_reset_a_condition() -> None:
    limits = SHORT._replace(missing_ticks=99)
    seen = phases(
        play(
            [
                tick_with(errors=0.3),
                tick_with(errors=0.3),
                tick_with(errors=NAN),
                tick_with(errors=0.3),
            ],
            limits,
        )
    )
    assert seen[-2:] == [Phase.CLOSED, Phase.HALF_OPEN]


@pytest.mark.parametrize(
    ("bad", "cause", "patience", "after"),
    [
        (tick_with(missing=0.51), Cause.MISSING, USUAL.missing_ticks, Phase.OPEN),
        (tick_with(mismatch=0.31), Cause.MISMATCH, USUAL.mismatch_ticks, Phase.OPEN),
        (tick_with(held=0.51), Cause.HELD, USUAL.held_ticks, Phase.OPEN),
        (tick_with(errors=0.21), Cause.ERRORS, USUAL.error_ticks, Phase.HALF_OPEN),
        (tick_with(regression=0.11), Cause.REGRESSION, USUAL.regression_ticks, Phase.HALF_OPEN),
        (tick_with(oscillation=0.41), Cause.OSCILLATION, USUAL.oscillation_ticks, Phase.HALF_OPEN),
        (tick_with(decreases=0.21), Cause.DECREASES, USUAL.decrease_ticks, Phase.HALF_OPEN),
    ],
)
def test_a_condition_trips_after_it_has_held_for_its_ticks_and_not_before(
    bad: Tick, cause: Cause, patience: int, after: Phase
) -> None:
    memories = play([bad] * patience, USUAL)
    assert phases(memories) == [Phase.CLOSED] * (patience - 1) + [after]
    assert memories[-1].cause[0, 0] == cause
    assert memories[-1].since[0, 0] == patience - 1


def test_moderate_errors_for_half_an_hour_do_not_trip() -> None:
    assert set(phases(play([tick_with(errors=0.1, risk=0.2, missing=0.1)] * 180, USUAL))) == {
        Phase.CLOSED
    }


def test_burn_trips_only_when_both_windows_exceed_the_threshold() -> None:
    surge = [tick_with(risk=1.0)] * 45 + [GOOD] * 180
    assert set(phases(play(surge, USUAL))) == {Phase.CLOSED}
    lasting = play([tick_with(risk=0.5)] * 130, USUAL)
    assert phases(lasting)[-1] == Phase.HALF_OPEN
    assert lasting[-1].cause[0, 0] == Cause.BURN
    # Both windows must agree: the short one has forgotten what the long one still remembers.
    over = play([tick_with(risk=0.5)] * 100 + [GOOD] * 30, USUAL)
    assert burn(over[-1], windows_of((USUAL,)))[0, 0] == 0


def test_lasting_errors_do_not_keep_an_open_breaker_from_half_open() -> None:
    seen = phases(play([tick_with(errors=0.5)] * 50, memory=opened()))
    assert seen[SHORT.quiet_ticks - 1 :] == [Phase.HALF_OPEN] * (51 - SHORT.quiet_ticks)


def test_a_reading_between_calm_and_its_threshold_neither_opens_nor_closes() -> None:
    between = tick_with(errors=0.15)
    assert set(phases(play([between] * 50))) == {Phase.CLOSED}
    trial = play([GOOD] * SHORT.quiet_ticks, memory=opened())[-1]
    assert phases([trial]) == [Phase.HALF_OPEN]
    assert set(phases(play([between] * 50, memory=trial))) == {Phase.HALF_OPEN}


def test_quiet_periods_double_with_each_trip_up_to_a_limit_until_trips_are_forgotten() -> None:
    memory, lengths = play([GOOD])[-1], []
    for _ in range(5):
        memory = play([tick_with(missing=1.0)] * SHORT.missing_ticks, memory=memory)[-1]
        after = play([GOOD] * 20, memory=memory)
        lengths.append(phases(after).index(Phase.HALF_OPEN) + 1)
        memory = after[lengths[-1] - 1]
    assert lengths == [3, 6, 10, 10, 10]
    rested = play([GOOD] * (2 * SHORT.forget_ticks), memory=memory)[-1]
    assert rested.trips[0, 0] == 0


@some
@given(st.lists(st.tuples(ticks, ticks), min_size=1, max_size=20))
def test_domains_and_environments_do_not_affect_each_other(
    pairs: list[tuple[Tick, Tick]],
) -> None:
    table, windows = table_of([SHORT] * 2), windows_of((SHORT,) * 2)
    both = start(0, 2, table, windows.longest)
    for tick, (one, other) in enumerate(pairs):
        shares = np.array([[one, other], [other, one]]).transpose(2, 0, 1)
        both = advance(np.array([tick] * 2, np.int32), Readings(*shares), both, table, windows)
    for index in (0, 1):
        alone = play([pair[index] for pair in pairs])[-1]
        for field in BreakerMemory._fields:
            values, expected = getattr(both, field), getattr(alone, field)[0, 0]
            np.testing.assert_array_equal(values[0, index], expected)
            np.testing.assert_array_equal(values[1, 1 - index], expected)


def test_unknown_readings_count_as_stale() -> None:
    table, windows = table_of([USUAL] * 2), windows_of((USUAL,) * 2)
    before = start(0, 3, table, windows.longest)
    after = advance(np.zeros(3, np.int32), unknown(3, 2), before, table, windows)
    assert (after.phase == Phase.OPEN).all()


def test_an_outage_of_our_own_is_over_after_a_few_calm_ticks_and_never_doubles() -> None:
    memory = None
    for _ in range(5):
        after = play([tick_with(age=99), *[GOOD] * 2 * SHORT.resume_ticks], memory=memory)
        assert phases(after) == [
            *[Phase.OPEN] * SHORT.resume_ticks, *[Phase.HALF_OPEN] * SHORT.resume_ticks,
            Phase.CLOSED,
        ]  # fmt: skip
        memory = after[-1]
        assert memory.trips[0, 0] == 0


def test_a_fault_of_the_input_after_an_outage_keeps_the_long_quiet_period() -> None:
    bad = [tick_with(missing=1.0)] * SHORT.missing_ticks
    after = play([tick_with(age=99), *bad])
    assert after[-1].cause[0, 0] == Cause.MISSING
    assert after[-1].trips[0, 0] == 1
    recovery = phases(play([GOOD] * SHORT.quiet_ticks, memory=after[-1]))
    assert recovery == [Phase.OPEN] * (SHORT.quiet_ticks - 1) + [Phase.HALF_OPEN]


def test_silence_while_open_for_a_fault_does_not_shorten_its_quiet_period() -> None:
    after = play([tick_with(age=99), *[GOOD] * SHORT.quiet_ticks], memory=opened())
    assert after[0].cause[0, 0] == Cause.MISSING
    assert phases(after)[-2:] == [Phase.OPEN, Phase.HALF_OPEN]


def test_a_lost_memory_is_open_and_recovers_by_the_ordinary_periods() -> None:
    table = table_of([SHORT])
    seen = play([GOOD] * 7, memory=lost(start(0, 1, table, SHORT.burn_long_ticks)))
    assert phases(seen) == [*[Phase.OPEN] * 2, *[Phase.HALF_OPEN] * 4, Phase.CLOSED]
    assert seen[0].cause[0, 0] == Cause.STATE_LOST
