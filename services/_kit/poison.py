"""What makes a handler fail each time, a record or a state: stop for it, but not for ever.

A failure may be one of the moment (memory, a bug that is being fixed), so the service stops and is
started again by its supervisor. How often that happened is kept among the service's states, where
the next process finds it.
"""

from math import inf
from typing import Final, NamedTuple, Protocol

from services._kit.clock import Clock
from services._kit.parcel import Parcel

MOST_FAILURES: Final = 3
STATE_MEMORY_S: Final = 3600.0
"""Seconds after which a failure of a state no longer counts. A record that was handled once is
done with; a state lives on, and bugs that are months apart must not add up to its loss. No success
takes a failure back: after each start, a state may well take steps before it fails again."""
_PREFIX: Final = "!failures/"
"""No key of a state begins like this: names begin with a letter or digit."""


class Saves(Protocol):
    """Where states are kept."""

    async def save(self, key: str, state: Parcel | None, partition: int | None) -> None:
        """Returns when it is acknowledged."""


class Failures(NamedTuple):
    """Of one culprit."""

    times: int = 0
    latest: float = 0.0
    """Date of the last one."""


class Attempts:
    """How often each culprit failed: a record by its place, a state by its topic and key."""

    def __init__(self, store: Saves, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._failures: dict[str, Failures] = {}

    def restore(self, key: str, data: bytes | None) -> bool:
        """Whether a record of the state topic was one of ours."""
        if not key.startswith(_PREFIX):
            return False
        culprit = key.removeprefix(_PREFIX)
        if data is None:
            self._failures.pop(culprit, None)
        else:
            # Older versions wrote no time.
            times, _, latest = data.partition(b" ")
            self._failures[culprit] = Failures(int(times), float(latest or 0.0))
        return True

    async def failed(self, culprit: str, partition: int | None, memory_s: float = inf) -> bool:
        """Count a failure; whether to stop for it. From the last one on: give the culprit up."""
        before = self._failures.get(culprit, Failures())
        now = self._clock.date()
        remembered = before.times if now - before.latest <= memory_s else 0
        times = min(remembered + 1, MOST_FAILURES)
        self._failures[culprit] = Failures(times, now)
        if remembered < MOST_FAILURES:
            count = Parcel(b"%d %.3f" % (times, now))
            await self._store.save(_PREFIX + culprit, count, partition)
        return times < MOST_FAILURES

    async def forget(self, culprit: str, partition: int | None) -> None:
        """It did well in the end, or it is gone."""
        if self._failures.pop(culprit, None):
            await self._store.save(_PREFIX + culprit, None, partition)

    def clear(self) -> None:
        """Forget everything; it is restored with the states."""
        self._failures.clear()
