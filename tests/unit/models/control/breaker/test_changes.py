"""What changes of replicas do to a domain, and the way back to the last good ones."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from models.control.breaker.changes import (
    GOOD_TICKS,
    LEAST_CHANGES,
    ROLLBACK_SHARE,
    WINDOW_TICKS,
    ChangeMemory,
    follow,
    rollback_targets,
    start_changes,
)
from models.control.breaker.readings import AppSamples, Readings, read

APPS = 4
MISMATCH_APPS = np.array([5], np.int32)
NO_OUTCOMES = np.zeros((1, 1, 2))


def tick_of(replicas: Sequence[int] = (10,) * APPS, **columns: object) -> AppSamples:
    """A tick of one domain; all apps are fine unless a column says otherwise."""
    usual: dict[str, object] = {
        "domain": [0] * APPS,
        "missing": [False] * APPS,
        "rps": [100.0] * APPS,
        "errors": [0.0] * APPS,
        "headroom": [0.5] * APPS,
        "replicas": list(replicas),
        "cpu": [1000] * APPS,
        "pending": [0] * APPS,
        "accepted": np.zeros((APPS, 0)),
    }
    arrays: dict[str, Any] = {name: np.array([row]) for name, row in {**usual, **columns}.items()}
    return AppSamples(**arrays)


def play(
    history: Iterable[AppSamples], memory: ChangeMemory | None = None, outcomes: Any = NO_OUTCOMES
) -> tuple[list[Readings], ChangeMemory]:
    memory, seen = memory or start_changes(1, 1, APPS), []
    for tick, samples in enumerate(history):
        plain = read(samples, np.zeros((1, 1)), MISMATCH_APPS)
        readings = follow(np.array([tick], np.int32), samples, plain, outcomes, memory)
        seen.append(readings)
    return seen, memory


def last(history: Iterable[AppSamples], name: str) -> float:
    return float(getattr(play(history)[0][-1], name)[0, 0])


def test_burn_after_a_decrease_is_a_regression_and_burn_without_one_is_not() -> None:
    slow = [-0.2, 0.5, 0.5, 0.5]
    shrunk = [tick_of(), tick_of((8, 10, 10, 10)), tick_of((8, 10, 10, 10), headroom=slow)]
    assert last(shrunk, "regression") == 0.25
    assert last([tick_of(), tick_of(), tick_of(headroom=slow)], "regression") == 0.0


def test_an_app_that_was_slow_before_its_decrease_is_no_regression() -> None:
    slow = [-0.2, 0.5, 0.5, 0.5]
    history = [tick_of(headroom=slow), *[tick_of((8, 10, 10, 10), headroom=slow)] * 3]
    assert last(history, "regression") == 0.0


def test_burn_is_no_regression_where_traffic_grew_by_more_than_the_app_shrank() -> None:
    slow = [-0.2, 0.5, 0.5, 0.5]
    for rps, expected in ((150.0, 0.0), (120.0, 120 / 420)):
        busy = tick_of((8, 10, 10, 10), headroom=slow, rps=[rps, 100.0, 100.0, 100.0])
        assert last([tick_of(), tick_of((8, 10, 10, 10)), busy], "regression") == expected


def test_burn_is_no_regression_where_as_many_pods_wait_for_nodes_as_were_taken_away() -> None:
    slow = [-0.2, 0.5, 0.5, 0.5]
    for pending, expected in ((1, 0.25), (2, 0.0), (6, 0.0)):
        lost = tick_of((8, 10, 10, 10), headroom=slow, pending=[pending, 0, 0, 0])
        assert last([tick_of(), tick_of((8, 10, 10, 10)), lost], "regression") == expected


def test_a_decrease_is_blamed_for_a_limited_time() -> None:
    late = tick_of((8, 10, 10, 10), headroom=[-0.2, 0.5, 0.5, 0.5])
    calm = [tick_of((8, 10, 10, 10))] * (WINDOW_TICKS + 1)
    assert last([tick_of(), *calm, late], "regression") == 0.0


def test_apps_that_turn_back_within_the_window_oscillate() -> None:
    history = [tick_of(), tick_of((12, 12, 10, 10)), tick_of((9, 12, 10, 10))]
    assert last(history, "oscillation") == 0.25
    # Further in the same direction, or back after the window, is none.
    assert last([tick_of(), tick_of((12,) * 4), tick_of((14,) * 4)], "oscillation") == 0.0
    rest = [tick_of((12,) * 4)] * (WINDOW_TICKS + 1)
    assert last([tick_of(), *rest, tick_of((9,) * 4)], "oscillation") == 0.0


def test_decreases_are_summed_over_a_minute_and_pending_pods_do_not_count() -> None:
    history = [tick_of(), tick_of((9,) * 4), tick_of((8,) * 4)]
    assert last(history, "decreases") == 0.2
    waiting = tick_of(pending=[2] * APPS)
    assert last([waiting, tick_of((8,) * 4)], "decreases") == 0.0
    assert last([*history, *[tick_of((8,) * 4)] * 6], "decreases") == 0.0


def test_replicas_without_a_sample_or_at_zero_are_compared_with_nothing() -> None:
    missing = tick_of((1,) * 4, missing=[True] * APPS)
    for hidden in (missing, tick_of((0,) * 4)):
        seen, memory = play([tick_of(), hidden, tick_of()])
        assert [one.decreases[0, 0] for one in seen] == [0.0] * 3
        assert (memory.replicas == 10).all()


def test_holds_count_from_a_few_planned_changes_on() -> None:
    for planned, expected in ((LEAST_CHANGES - 1, 0.0), (LEAST_CHANGES, 0.4)):
        seen, _ = play([tick_of()], outcomes=np.array([[[planned, 0.4 * planned]]]))
        assert seen[-1].held[0, 0] == expected


def test_replicas_are_good_when_the_domain_stayed_calm_after_them() -> None:
    before = [tick_of()] * (GOOD_TICKS + 1)
    _, memory = play(before)
    assert (memory.good == 10).all()
    # Fewer replicas, then slow: what was good stays good.
    slow = [-0.2] * APPS
    _, memory = play([*before, tick_of((5,) * 4), *[tick_of((5,) * 4, headroom=slow)] * 60])
    assert (memory.good == 10).all()
    _, memory = play([*before, *[tick_of((5,) * 4)] * (2 * GOOD_TICKS + 1)])
    assert (memory.good == 5).all()


def test_without_calm_ticks_nothing_is_known_to_be_good() -> None:
    _, memory = play([tick_of(errors=[0.1] * APPS)] * 100)
    assert (memory.good == 0).all()
    plenty = np.full((1, 1), np.inf)
    targets = rollback_targets(tick_of((1,) * 4), memory, plenty)
    assert (targets == -1).all()


counts = st.lists(st.integers(0, 40), min_size=APPS, max_size=APPS)


@settings(max_examples=100, deadline=None)
@given(
    counts,
    counts,
    st.lists(st.integers(0, 2), min_size=APPS, max_size=APPS),
    st.floats(0, 50_000),
)
def test_a_rollback_only_raises_never_beyond_the_good_and_at_a_limited_rate(
    good: list[int], now: list[int], pending: list[int], room: float
) -> None:
    memory = start_changes(1, 1, APPS)._replace(good=np.array([good], np.int32))
    samples = tick_of(now, pending=pending)
    targets = rollback_targets(samples, memory, np.array([[room]]))[0]
    added = 0
    for target, lowest, current in zip(targets.tolist(), good, now, strict=True):
        assert target == -1 or current < target <= lowest
        added += max(0, target - current)
    # Pods that wait for nodes count as added.
    waiting = sum(count for count, replicas in zip(pending, now, strict=True) if replicas)
    most = ROLLBACK_SHARE * sum(now) - waiting
    assert added <= max(0.0, most) + APPS
    if room == 0 or most <= 0:
        assert added == 0


@settings(max_examples=50, deadline=None)
@given(counts, st.lists(st.integers(1, 40), min_size=APPS, max_size=APPS))
def test_a_rollback_ends_at_the_good_replicas(good: list[int], now: list[int]) -> None:
    memory = start_changes(1, 1, APPS)._replace(good=np.array([good], np.int32))
    for _ in range(200):
        samples = tick_of(now)
        plenty = np.full((1, 1), np.inf)
        targets = rollback_targets(samples, memory, plenty)[0]
        now = [max(pair) for pair in zip(now, targets.tolist(), strict=True)]
    assert all(current >= lowest for current, lowest in zip(now, good, strict=True))
