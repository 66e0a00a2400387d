"""Wall time as an argument: what waits for a grace period can be tested without waiting."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time. Decisions go by event time; this is for grace periods and dead-man checks."""

    def now(self) -> float:
        """Seconds since 1970."""


class SystemClock:
    """The time of the machine."""

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()


class ManualClock:
    """Stands still until a test moves it."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def now(self) -> float:
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
