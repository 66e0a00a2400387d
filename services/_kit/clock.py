"""Time as an argument, so that grace periods can be tested without waiting.

Decisions go by event time. Durations are measured on a monotonic clock: a correction of the
machine's time must not open a breaker. Timestamps for people and other machines are dates.
"""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Time outside of events."""

    def now(self) -> float:
        """Monotonic seconds, for grace periods and dead-man checks.

        Meaningless to another process, so it must not be saved in a state.
        """

    def date(self) -> float:
        """Wall time in seconds since 1970."""


class SystemClock:
    """The machine's clocks."""

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def date(self) -> float:
        """Wall time in seconds since 1970."""
        return time.time()


class ManualClock:
    """A clock for tests and simulations: it stands still until it is moved."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def now(self) -> float:
        """The same as `date`."""
        return self._now

    def date(self) -> float:
        """Seconds since 1970."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move forward."""
        self.move_to(self._now + seconds)

    def move_to(self, moment: float) -> None:
        """Move forward to a moment."""
        if moment < self._now:
            raise ValueError(f"a clock cannot move backwards: {moment} < {self._now}")
        self._now = moment


def rfc3339(moment: float) -> str:
    """A moment in seconds since 1970, as events spell it."""
    stamp = datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
    return stamp.replace("+00:00", "Z")
