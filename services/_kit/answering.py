"""Whether a model answers in time: asked again where it seems not to, before anybody is blamed.

One slow answer shows a stall of the machine as often as a slow model, and decisions are a minute
apart: too rare to wait for more of them. So a slow model is asked the same again at once.
"""

from collections.abc import Callable, Iterable
from functools import partial
from statistics import median
from typing import Final, Protocol, TypeVar

A = TypeVar("A")

MOST_TIMES: Final = 5
"""Answers of which the middle one counts."""
LONGEST_S: Final = 4.5
"""Of all of them: a slow model is out within five seconds, and a decision waits no longer."""


def timed(ask: Callable[[], A], now: Callable[[], float], most_s: float) -> tuple[A, str]:
    """An answer, and why it came too late; empty if it did not.

    `ask` always answers the same: models keep no state. What it raises passes through.
    """
    seconds, slow = list[float](), 0
    while True:
        began = now()
        answer = ask()
        seconds.append(now() - began)
        slow += seconds[-1] > most_s
        if slow == 0 or len(seconds) - slow > MOST_TIMES // 2:
            return answer, ""
        if slow > MOST_TIMES // 2 or sum(seconds) + seconds[-1] > LONGEST_S:
            return answer, f"took {median(seconds):.3f} s, over {most_s:g} s"


class Named(Protocol):
    """A model that can be named."""

    @property
    def name(self) -> str:
        """What decisions carry."""
        ...


P = TypeVar("P", bound=Named)


def answer_of(
    model: P, ask: Callable[[P], A], now: Callable[[], float], most_s: float
) -> tuple[A | None, str]:
    """An answer in time, or why there is none."""
    try:
        found, slow = timed(partial(ask, model), now, most_s)
    except Exception as error:  # noqa: BLE001  whatever went wrong, somebody else decides
        return None, f"{model.name}: {' '.join(str(error).split())[:200] or type(error).__name__}"
    return (None, f"{model.name}: {slow}") if slow else (found, "")


def first_answer(
    models: Iterable[P | None], ask: Callable[[P], A], now: Callable[[], float], most_s: float
) -> tuple[A | None, str, str]:
    """The answer of the first model that can, its name, and why an earlier one could not."""
    problem = ""
    for model in models:
        if model is None:
            continue
        found, fault = answer_of(model, ask, now, most_s)
        if found is not None:
            return found, model.name, problem
        problem = problem or fault
    return None, "", problem
