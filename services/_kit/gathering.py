"""Wait for what belongs to one tick: a frame of each domain, a plan and its forecast.

A tick is whole when everything it needs is there, or when the grace period is over since its
first piece came; then it closes, and what comes for it later is ignored.
"""

from typing import Generic, TypeVar

T = TypeVar("T")


class Gathering(Generic[T]):
    """Pieces by tick and name; ticks close in order."""

    def __init__(self, closed: int = -1) -> None:
        self.closed = closed
        """The last tick that closed; -1 before the first."""
        self._pieces: dict[int, dict[str, T]] = {}
        self._since: dict[int, float] = {}

    def add(self, tick: int, name: str, piece: T, now: float) -> bool:
        """Take in a piece; False for one of a tick that has closed, or that is there already."""
        if tick <= self.closed or name in self._pieces.get(tick, {}):
            return False
        self._pieces.setdefault(tick, {})[name] = piece
        self._since.setdefault(tick, now)
        return True

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        return not self._pieces

    def ready(self, names: frozenset[str], now: float, grace_s: float | None) -> int | None:
        """The earliest tick that is whole or has waited long enough; None when there is none.

        Without a grace period a tick waits for ever, and later ones wait for it.
        """
        for tick in sorted(self._pieces):
            if names <= self._pieces[tick].keys():
                return tick
            if grace_s is None or now < self._since[tick] + grace_s:
                return None
            return tick
        return None

    def due(self, grace_s: float | None) -> float | None:
        """When the earliest tick has waited long enough."""
        if not self._pieces or grace_s is None:
            return None
        return self._since[min(self._pieces)] + grace_s

    def close(self, tick: int) -> dict[str, T]:
        """Hand out what is there of a tick, and forget it and everything before."""
        pieces = self._pieces.get(tick, {})
        for old in [t for t in self._pieces if t <= tick]:
            del self._pieces[old], self._since[old]
        self.closed = tick
        return pieces
