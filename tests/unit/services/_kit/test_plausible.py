"""Ticks and times: what is on the line is believed, one record moves nothing."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.fields import TickEvent
from services._kit.plausible import FUTURE, OUT_OF_RANGE, Judged, Pace, Timeline
from services._kit.ticks import spell

REAL, LOCK_STEP, FAST = Pace(10, 1.0), Pace(10, None), Pace(10, 60.0)
START = 1_767_571_200.0
"""Moment of tick 0 of a simulated cluster."""
DOMAINS = frozenset({"a", "b", "c", "d", "e"})
FAR = (300, 345, 10**6, 10**9, 2**31 - 1)


class Consumer:
    """A timeline with a clock."""

    def __init__(self, pace: Pace = REAL, voters: frozenset[str] = frozenset({"a"})) -> None:
        self.pace, self.voters = pace, voters
        self.timeline, self.date = Timeline(), 5000.0

    def take(self, tick: int, name: str = "a", *, shift_s: float = 0.0) -> Judged:
        moment = START + 10.0 * tick + shift_s
        return self.hear(tick, moment, name)

    def hear(self, tick: int, moment: float, name: str = "a") -> Judged:
        time = spell(datetime.fromtimestamp(min(moment, 2.5e11), UTC))
        event = TickEvent(tick=tick, time=time)
        judged = self.timeline.judge(name, event, self.date, self.pace, self.voters)
        self.timeline = judged.timeline.settled()
        return judged

    def play(self, first: int, last: int) -> list[Judged]:
        """Every voter reports each tick, as the clock goes."""
        judged = []
        for tick in range(first, last + 1):
            judged += [self.take(tick, name) for name in sorted(self.voters)]
            self.date += 10.0 / (self.pace.speed or 1.0)
        return judged

    def restart(self) -> None:
        self.timeline = Timeline(self.timeline.saved)


def error(judged: Judged) -> str:
    return "" if judged.refused is None else judged.refused.kind


def all_believed(judged: list[Judged]) -> bool:
    return not any(map(error, judged))


@pytest.mark.parametrize("tick", FAR)
@pytest.mark.parametrize("pace", [REAL, LOCK_STEP, FAST])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_tick_far_ahead_is_refused_and_the_stream_goes_on(
    pace: Pace, tick: int, *, restarts: bool
) -> None:
    consumer = Consumer(pace)
    consumer.play(0, 9)
    if restarts:
        consumer.restart()
    assert error(consumer.take(tick)) == FUTURE
    assert all_believed(consumer.play(10, 20))
    assert consumer.timeline.tick == 20


@pytest.mark.parametrize("shift_s", [60.0, -60.0, 86_400.0, 1e9])
@pytest.mark.parametrize("pace", [REAL, LOCK_STEP])
def test_a_time_that_does_not_belong_to_its_tick_is_refused(pace: Pace, shift_s: float) -> None:
    consumer = Consumer(pace)
    consumer.play(0, 9)
    assert error(consumer.take(10, shift_s=shift_s)) == OUT_OF_RANGE
    assert all_believed(consumer.play(10, 20))


def test_a_real_cluster_is_never_ahead_of_the_clock_even_at_the_very_first_tick() -> None:
    consumer = Consumer()
    consumer.date = 1.79e9
    assert error(consumer.hear(10**9, 1e10)) == OUT_OF_RANGE
    assert error(consumer.hear(179_000_000, 1.79e9)) == ""
    assert error(consumer.hear(179_000_001, 1.79e9 + 10)) == "", "clocks may differ a little"


def test_a_wrong_first_tick_gives_way_to_three_ticks_in_a_row() -> None:
    consumer = Consumer()
    consumer.take(10**9)
    judged = consumer.play(5, 9)
    assert [bool(error(one)) for one in judged] == [True, True, False, False, False]
    assert judged[2].starts_over, "what was closed on the wrong line does not count"
    assert consumer.timeline.tick == 9


def test_in_lock_step_a_wrong_first_tick_gives_way_at_once() -> None:
    consumer = Consumer(LOCK_STEP)
    consumer.take(10**9)
    first, *others = consumer.play(0, 5)
    assert first.starts_over
    assert all_believed([first, *others])


def test_a_pause_is_followed_as_far_as_the_clock_went_on() -> None:
    consumer = Consumer()
    consumer.play(0, 9)
    consumer.restart()
    consumer.date += 3600.0
    assert error(consumer.take(9 + 1000)) == FUTURE
    assert all_believed(consumer.play(9 + 361, 9 + 370))


def test_what_waited_in_an_outage_is_believed_in_one_burst_with_its_gaps() -> None:
    consumer = Consumer()
    consumer.play(0, 9)
    consumer.date += 600.0
    judged = [consumer.take(tick) for tick in (10, 11, 30, 31, 60, 70)]
    assert all_believed(judged)
    assert all_believed(consumer.play(71, 80))


def test_a_consumer_that_was_slow_for_long_may_catch_up() -> None:
    consumer = Consumer()
    consumer.play(0, 9)
    for tick in range(10, 70):
        assert error(consumer.take(tick)) == ""
        consumer.date += 20.0
    judged = [consumer.take(tick) for tick in range(70, 130)]
    assert all_believed(judged)
    assert error(consumer.take(200)) == FUTURE


def test_a_source_that_really_jumped_is_followed_after_three_ticks() -> None:
    consumer = Consumer()
    consumer.play(0, 9)
    judged = consumer.play(10_000, 10_009)
    assert [error(one) for one in judged] == [FUTURE] * 2 + [""] * 8
    assert not judged[2].starts_over, "what is closed stays closed"


def test_three_forged_ticks_between_two_true_ones_move_nothing() -> None:
    consumer = Consumer()
    consumer.play(0, 9)
    # The last true tick came 10 s ago, and the next one is 1 s late.
    consumer.date -= 9.9
    for tick in range(10_000, 10_003):
        assert error(consumer.take(tick)) == FUTURE
        consumer.date += 5.3
    assert all_believed(consumer.play(10, 20))


def test_a_real_cluster_never_gets_another_moment_of_tick_0() -> None:
    consumer, now = Consumer(), 1.79e9
    for tick in range(5):
        consumer.date = now + 10 * tick
        assert error(consumer.hear(179_000_000 + tick, consumer.date)) == ""
    # However long the true source is silent: its ticks would be closed for good.
    for tick in range(20):
        consumer.date += 10
        assert error(consumer.hear(10**9 + tick, consumer.date)) == OUT_OF_RANGE
    assert error(consumer.hear(179_000_024, consumer.date)) == ""


def test_a_burst_confirms_nothing() -> None:
    consumer = Consumer()
    consumer.play(0, 9)
    judged = [consumer.take(tick) for tick in range(10_000, 10_100)]
    assert all(map(error, judged))
    assert all_believed(consumer.play(10, 20))


def test_many_records_slightly_ahead_do_not_add_up() -> None:
    consumer = Consumer()
    consumer.play(0, 9)
    for tick in range(10, 200):
        consumer.take(tick)
    assert consumer.timeline.tick <= 9 + 1 + 3
    assert all_believed(consumer.play(10, 20))


def test_one_domain_of_five_moves_nothing() -> None:
    consumer = Consumer(voters=DOMAINS)
    consumer.play(0, 9)
    for tick in range(10, 30):
        assert error(consumer.take(10_000 + tick, "a")) == FUTURE
        assert all_believed([consumer.take(tick, name) for name in "bcde"])
        consumer.date += 10.0
    assert consumer.timeline.tick == 29


def test_most_domains_move_all() -> None:
    consumer = Consumer(voters=DOMAINS)
    consumer.play(0, 9)
    for tick in range(10_000, 10_005):
        judged = [consumer.take(tick, name) for name in "abc"]
        consumer.date += 10.0
    assert all_believed(judged)
    assert consumer.timeline.tick == 10_004


@pytest.mark.parametrize("pace", [REAL, LOCK_STEP])
def test_before_most_domains_reported_one_sets_no_line(pace: Pace) -> None:
    consumer = Consumer(pace, DOMAINS)
    consumer.take(10**9, "e")
    assert consumer.timeline.line is None
    assert all_believed(consumer.play(0, 9))
    assert consumer.timeline.tick == 9


def test_a_few_domains_alone_set_a_line_with_three_ticks_in_a_row() -> None:
    consumer = Consumer(voters=DOMAINS)
    for tick in (100, 101, 102):
        consumer.take(tick, "a")
        consumer.date += 10.0
    assert consumer.timeline.tick == 102


def test_domains_that_fell_silent_do_not_hold_back_the_others() -> None:
    consumer = Consumer(voters=DOMAINS)
    consumer.play(0, 9)
    for tick in range(10, 30):
        judged = consumer.take(tick, "a")
        consumer.date += 10.0
        assert error(judged) == ""
    assert consumer.timeline.tick == 29


def test_a_corrected_clock_of_this_machine_stops_nothing() -> None:
    consumer = Consumer()
    consumer.play(0, 9)
    for step_s in (-3600.0, 3600.0, 90_000.0, -90_000.0):
        consumer.date += step_s
        first = consumer.timeline.tick + 1
        assert all_believed(consumer.play(first, first + 20))


nonsense = st.one_of(
    st.tuples(st.integers(0, 2**31 - 1), st.just(0.0)),
    st.tuples(st.integers(0, 200), st.floats(-1e9, 1e11)),
    st.tuples(st.integers(0, 2**31 - 1), st.floats(-1e9, 1e11)),
)
forgeries = st.lists(st.tuples(st.integers(0, 40), st.sampled_from("abcde"), nonsense), max_size=40)


@settings(deadline=None)
@given(forgeries, st.sampled_from([REAL, LOCK_STEP, FAST]), st.sampled_from([1, 2, 5]))
def test_no_forged_events_stop_a_valid_stream(
    forged: list[tuple[int, str, tuple[int, float]]], pace: Pace, sources: int
) -> None:
    voters = frozenset("abcde"[:sources])
    consumer = Consumer(pace, voters)
    consumer.play(0, 5)
    refused = []
    for tick in range(6, 41):
        for _, name, (wrong, shift_s) in [one for one in forged if one[0] == tick]:
            consumer.take(wrong, name, shift_s=shift_s)
        refused += [error(one) for one in consumer.play(tick, tick)]
    assert not any(refused)
    assert consumer.timeline.tick <= 41 + pace.early


@settings(deadline=None)
@given(forgeries, st.sampled_from([REAL, FAST]), st.sampled_from([1, 2, 5]))
def test_after_forged_events_before_the_first_tick_a_valid_stream_goes_on(
    forged: list[tuple[int, str, tuple[int, float]]], pace: Pace, sources: int
) -> None:
    voters = frozenset("abcde"[:sources])
    consumer = Consumer(pace, voters)
    for _, name, (wrong, shift_s) in forged:
        if name in voters:
            consumer.take(wrong, name, shift_s=shift_s)
    judged = consumer.play(50, 80)
    assert all_believed(judged[-10:])
    assert 80 <= consumer.timeline.tick <= 81 + pace.early
