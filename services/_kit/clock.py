"""Time as an argument: what waits for a grace period can be tested without waiting.

Decisions go by event time. Durations are measured on a clock that nobody sets: a correction of the
machine's time must not open a breaker. What people or other machines are told is a date.
"""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Time as it passes outside of events."""

    def now(self) -> float:
        """Seconds since some moment, never backwards: for grace periods and dead-man checks.

        It means nothing to another process, so no state that is saved has it.
        """

    def date(self) -> float:
        """Seconds since 1970, as far as the machine knows."""


class SystemClock:
    """The time of the machine."""

    def now(self) -> float:
        """Seconds since some moment."""
        return time.monotonic()

    def date(self) -> float:
        """Seconds since 1970."""
        return time.time()


class ManualClock:
    """Stands still until a test moves it."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def now(self) -> float:
        """Seconds since 1970 too: both are the same here."""
        return self._now

    def date(self) -> float:
        """Seconds since 1970."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move on."""
        self.move_to(self._now + seconds)

    def move_to(self, moment: float) -> None:
        """Move on to a moment; back there is no way."""
        if moment < self._now:
            raise ValueError(f"a clock does not run backwards: {moment} < {self._now}")
        self._now = moment


def rfc3339(moment: float) -> str:
    """A moment as events write it."""
    stamp = datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
    return stamp.replace("+00:00", "Z")
