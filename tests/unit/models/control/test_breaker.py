"""The breaker's rules, on arrays."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.control.breaker import (
    AppSamples,
    BreakerMemory,
    Cause,
    Phase,
    Readings,
    Thresholds,
    advance,
    burn,
    read,
    start,
    unknown,
)

# Short times, so that a random history of 40 ticks passes through every phase.
SHORT = Thresholds(
    missing_ticks=2, mismatch_ticks=2, error_ticks=3, burn_ticks=2, burn_short_ticks=3,
    burn_long_ticks=6, quiet_ticks=3, quiet_most_ticks=10, probation_ticks=4,
    forget_ticks=20,
)  # fmt: skip
USUAL = Thresholds()
NAN = math.nan
some = settings(max_examples=30, deadline=None)
# Mostly fine, and values on both sides of each threshold and of its calm part.
reading = st.sampled_from([0.0, 0.0, 0.0, 0.12, 0.2, 0.25, 0.45, 0.8, 1.0, NAN])
ages = st.sampled_from([0.0] * 8 + [4.0, 7.0, NAN])
ticks = st.tuples(ages, reading, reading, reading, reading)
"""In the order of `Readings`."""
histories = st.lists(ticks, min_size=1, max_size=40)
GOOD = (0.0, 0.0, 0.0, 0.0, 0.0)

Tick = tuple[float, ...]


def readings(values: Tick) -> Readings:
    return Readings(*np.array(values, np.float64)[:, None, None])


def play(
    history: Sequence[Tick], limits: Thresholds = SHORT, memory: BreakerMemory | None = None
) -> list[BreakerMemory]:
    """The memory after each tick, of one domain."""
    memories = [memory or start(0, 1, 1, limits)]
    for tick, values in enumerate(history):
        now = np.array([tick], np.int32)
        memories.append(advance(now, readings(values), memories[-1], limits))
    return memories[1:]


def phases(memories: Sequence[BreakerMemory]) -> list[Phase]:
    return [Phase(memory.phase[0, 0]) for memory in memories]


def tick_with(**values: float) -> Tick:
    return tuple({**dict.fromkeys(Readings._fields, 0.0), **values}.values())


def opened(limits: Thresholds = SHORT) -> BreakerMemory:
    return play([tick_with(age=99)], limits)[-1]


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
        if seen[now - 1] == Phase.OPEN:
            assert seen[now] == Phase.HALF_OPEN
            assert now - began >= SHORT.quiet_ticks
        if seen[now] == Phase.CLOSED:
            assert seen[now - 1] == Phase.HALF_OPEN
            assert now - began >= SHORT.probation_ticks
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


@pytest.mark.parametrize("field", ["missing", "mismatch", "errors", "risk"])
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
    calm = [SHORT.calm_part * bar for bar in (6, 0.5, 0.3, 0.2)]
    whole = [*history, *[GOOD] * 20]
    seen = phases(play(whole, memory=opened()))
    for now in range(1, len(whole)):
        if (seen[now - 1], seen[now]) == (Phase.HALF_OPEN, Phase.CLOSED):
            for values in whole[now - SHORT.probation_ticks + 1 : now + 1]:
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
        (tick_with(errors=0.21), Cause.ERRORS, USUAL.error_ticks, Phase.HALF_OPEN),
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
    assert burn(over[-1], USUAL)[0, 0] == 0


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
    memory, lengths = start(0, 1, 1, SHORT), []
    for _ in range(5):
        memory = play([tick_with(age=99)], memory=memory)[-1]
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
    both = start(0, 2, 2, SHORT)
    for tick, (one, other) in enumerate(pairs):
        shares = np.array([[one, other], [other, one]]).transpose(2, 0, 1)
        both = advance(np.array([tick] * 2, np.int32), Readings(*shares), both, SHORT)
    for index in (0, 1):
        alone = play([pair[index] for pair in pairs])[-1]
        for field in BreakerMemory._fields:
            values, expected = getattr(both, field), getattr(alone, field)[0, 0]
            np.testing.assert_array_equal(values[0, index], expected)
            np.testing.assert_array_equal(values[1, 1 - index], expected)


def test_unknown_readings_count_as_stale() -> None:
    after = advance(np.zeros(3, np.int32), unknown(3, 2), start(0, 3, 2, USUAL), USUAL)
    assert (after.phase == Phase.OPEN).all()


def app_samples(apps: int, **columns: object) -> AppSamples:
    usual: dict[str, object] = {
        "domain": [0] * apps,
        "missing": [False] * apps,
        "rps": [1.0] * apps,
        "errors": [0.0] * apps,
        "headroom": [0.5] * apps,
        "replicas": [1] * apps,
        "accepted": [[-1]] * apps,
    }
    arrays: dict[str, Any] = {name: np.array([row]) for name, row in {**usual, **columns}.items()}
    return AppSamples(**arrays)


def readings_of(samples: AppSamples, domains: int = 1) -> dict[str, list[float]]:
    values = read(samples, np.zeros((1, domains)), USUAL)
    return {name: row[0].tolist() for name, row in values._asdict().items()}


def test_errors_and_risk_are_weighted_by_requests_within_each_domain() -> None:
    samples = app_samples(
        4, domain=[0, 0, 1, -1], rps=[30.0, 10.0, 5.0, 99.0], errors=[0.0, 0.4, 0.2, 1.0],
        headroom=[-1.0, 0.5, 0.5, -1.0],
    )  # fmt: skip
    seen = readings_of(samples, 2)
    assert seen["errors"] == pytest.approx([0.1, 0.2])
    assert seen["risk"] == pytest.approx([0.75, 0.0])


@pytest.mark.parametrize("column", ["rps", "errors", "headroom"])
def test_an_app_with_nan_in_its_sample_is_missing(column: str) -> None:
    assert readings_of(app_samples(2, **{column: [NAN, 0.5]}))["missing"] == [0.5]


def test_errors_are_unknown_without_samples_and_zero_without_requests() -> None:
    assert np.isnan(readings_of(app_samples(2, missing=[True, True]))["errors"][0])
    assert readings_of(app_samples(2, rps=[0.0, 0.0]))["errors"] == [0.0]


def test_a_domain_without_apps_is_unknown_not_healthy() -> None:
    assert np.isnan(readings_of(app_samples(2, domain=[0, 0]), 2)["missing"][1])


def test_mismatch_counts_apps_whose_replicas_are_none_of_those_accepted() -> None:
    accepted = [[2, -1]] * 3 + [[3, 1]] * 3 + [[-1, -1]] * 4
    assert readings_of(app_samples(10, accepted=accepted))["mismatch"] == [0.5]


def test_mismatch_ignores_missing_apps_and_too_few_changed_apps() -> None:
    assert readings_of(app_samples(4, accepted=[[2]] * 4))["mismatch"] == [0.0]
    assert readings_of(app_samples(6, accepted=[[2]] * 6, missing=[True] * 6))["mismatch"] == [0.0]
