"""A stall of the machine blames no model, and a slow model is out within five seconds."""

from collections.abc import Callable

import pytest

from services._kit.answering import LONGEST_S, timed
from services._kit.clock import ManualClock


def asked(*seconds: float) -> tuple[str, float, int]:
    """The fault, how long it took, and how often was asked; the last duration repeats."""
    clock, times = ManualClock(0.0), list(seconds)
    count = 0

    def ask() -> int:
        nonlocal count
        count += 1
        clock.advance(times.pop(0) if len(times) > 1 else times[0])
        return count

    _, fault = timed(ask, clock.now, 0.05)
    return fault, clock.now(), count


def test_a_model_that_answers_in_time_is_asked_once() -> None:
    assert asked(0.05) == ("", 0.05, 1)


@pytest.mark.parametrize("stalls", [(1.0,), (0.06, 0.06), (2.0, 0.001, 0.06)])
def test_a_stall_or_two_are_no_evidence(stalls: tuple[float, ...]) -> None:
    fault, _, count = asked(*stalls, 0.001)
    assert fault == ""
    assert count <= 5


@pytest.mark.parametrize("seconds", [0.051, 0.6, 1.4, 3.0, 60.0])
def test_a_model_that_is_always_slow_is_found_within_five_seconds_or_one_answer(
    seconds: float,
) -> None:
    fault, took, _ = asked(seconds)
    assert fault == f"took {seconds:.3f} s, over 0.05 s"
    assert took <= max(LONGEST_S, seconds) < 5.0 or took == seconds


def test_what_a_model_raises_passes_through() -> None:
    ask: Callable[[], int] = lambda: 1 // 0  # noqa: E731
    with pytest.raises(ZeroDivisionError):
        timed(ask, lambda: 0.0, 1.0)
