"""The newest event of each key, robust against events with a wrong tick.

When an event arrives, it is not known yet whether its tick is right. So events that are far apart
in time are kept side by side, and the caller says up to which tick to believe: an event from the
future neither takes effect nor hides the real one.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

_MOST_TIMES: Final = 4
"""Items of one key that are kept, far apart in time: the real one, and a few wrong ones."""


class Newest(Generic[T]):
    """The newest items of each key, at most one within `near` ticks."""

    def __init__(self, tick_of: Callable[[T], int], rank: Callable[[T], Any], near: int) -> None:
        """Keep the item of the highest `rank` among those within `near` ticks."""
        self._tick_of, self._rank, self._near = tick_of, rank, near
        self._items: dict[str, tuple[T, ...]] = {}
        """By key, least recently received first."""

    def learn(self, key: str, item: T) -> None:
        """Take in an item; a late one changes nothing."""
        known, tick = self._items.get(key, ()), self._tick_of(item)
        close = [one for one in known if abs(self._tick_of(one) - tick) <= self._near]
        others = tuple(one for one in known if abs(self._tick_of(one) - tick) > self._near)
        # The new item first: `max` returns the first of equal ones.
        newest = max((item, *close), key=self._rank)
        # Too many: drop the least recently received one, since the real one is sent repeatedly.
        self._items[key] = (*others, newest)[-_MOST_TIMES:]

    def forget(self, key: str) -> None:
        """Remove a key after its tombstone."""
        self._items.pop(key, None)

    def upto(self, key: str, tick: int) -> T | None:
        """The newest item of a key that is not beyond a tick."""
        believed = (one for one in self._items.get(key, ()) if self._tick_of(one) <= tick)
        return max(believed, key=self._rank, default=None)

    def all_upto(self, tick: int) -> Iterator[tuple[str, T]]:
        """The same of all keys that have one."""
        for key in self._items:
            item = self.upto(key, tick)
            if item is not None:
                yield key, item

    def last_received(self, key: str) -> T | None:
        """The item that was received last, for callers that know no tick yet."""
        return self._items.get(key, (None,))[-1]

    def __contains__(self, key: str) -> bool:
        return key in self._items
