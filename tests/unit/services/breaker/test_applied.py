"""Changes that show no effect, and changes that could not be made."""

import itertools

from services.breaker.applied import SETTLE_TICKS, WATCH_TICKS
from tests.unit.services.breaker.breaker_helpers import (
    answers,
    applied,
    bus_of,
    frame,
    states,
)


def test_changes_that_show_no_effect_open_it() -> None:
    published = answers(bus_of(), frame(0), applied(0, 9), *(frame(tick) for tick in range(1, 5)))
    assert states(published) == ["closed"] * 4 + ["open"]
    assert published[-1].reason == "mismatch: 1, threshold 0.3"


def test_lost_writes_open_it_even_if_every_tick_applies_another_number() -> None:
    asked = [applied(tick, 9 + tick) for tick in range(5)]
    frames = [frame(tick) for tick in range(5)]
    published = answers(bus_of(), *itertools.chain(*zip(frames, asked, strict=True)))
    assert states(published)[-1] == "open"


def test_late_held_or_resizing_changes_do_not_open_it() -> None:
    late = [frame(1), frame(2), *(frame(tick, replicas=9) for tick in range(3, 9))]
    frames = [frame(tick) for tick in range(1, 9)]
    for change, seen in [
        (applied(0, 9), late),
        (applied(0, 9, outcome="held"), frames),
        (applied(0, 9, outcome="superseded"), frames),
        (applied(0, 6, before=6), frames),
    ]:
        assert set(states(answers(bus_of(), frame(0), change, *seen))) == {"closed"}


def test_a_newer_change_makes_both_numbers_acceptable_until_it_has_settled() -> None:
    bus = bus_of()
    answers(bus, frame(0), applied(0, 9), *(frame(tick, replicas=9) for tick in range(1, 6)))
    published = answers(bus, applied(5, 12), frame(6, replicas=12), frame(7, replicas=9))
    assert [event.readings["mismatch"] for event in published] == [0.0, 0.0]
    published = answers(bus, frame(8, replicas=9))
    assert published[0].readings["mismatch"] == 1.0


def test_a_change_is_watched_for_a_limited_time() -> None:
    bus = bus_of()
    end = SETTLE_TICKS + WATCH_TICKS
    answers(bus, frame(0), applied(0, 9), *(frame(t, replicas=9) for t in range(1, end)))
    # Not open; decreases are held, because more than half of the domain was taken away.
    after = answers(bus, *(frame(t) for t in range(end, end + 5)))
    assert set(states(after)) == {"closed", "half-open"}
    assert after[-1].cause == "decreases"
    assert answers(bus, applied(0, 9)) == []
    assert answers(bus, frame(end + 5))[0].readings["mismatch"] == 0.0


def test_changes_that_cannot_be_made_open_it_and_intended_holds_do_not() -> None:
    for reason, expected in (
        ("no-frame", "open"), ("refused", "open"), ("paused", "closed"),
        ("breaker-open", "closed"), ("hold-cool-down", "closed"),
    ):  # fmt: skip
        bus = bus_of()
        answers(bus, frame(0))
        for tick in range(1, 4):
            held = applied(tick - 1, 9, outcome="held", reason=reason)
            # Delivered twice, counted once.
            published = answers(bus, held, held, frame(tick))
        assert states(published) == [expected], reason
