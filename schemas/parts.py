"""Split an event that is too large for one record into numbered parts, and join them again."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

import msgspec

from schemas import columns
from schemas.errors import Malformed
from schemas.fields import Event, Part
from schemas.metrics_sampled import MetricsSampled
from schemas.topics import key_of, topic_of

E = TypeVar("E", bound=Event)

_WHOLE: Final = Part()
_MOST_INCOMPLETE: Final = 4
"""Events of one key whose parts are collected at the same time."""
_PART_BYTES: Final = 4096
"""Counted for each part besides its value: many small parts need memory, too."""
MOST_KEY_BYTES: Final = 16 * 1024 * 1024
"""Parts of one key that are kept: 32 full ones. A frame of 16,000 apps has 19."""
MOST_BYTES: Final = 48 * 1024 * 1024
"""Parts that are kept in all, as encoded. Decoded they need up to six times as much."""
_Identity = tuple[int, int, int]
"""Tick, number of parts and epoch."""


def part_of(event: Event) -> Part:
    """Position of an event among its parts; an event type without parts is always whole."""
    return getattr(event, "part", _WHOLE)


def most_parts(event: Event) -> int:
    """Highest number of parts an event can be split into; 1 if it cannot be split."""
    # Don't split a part again: readers learn the number of parts from any one of them.
    if part_of(event) != _WHOLE or not _splits(event):
        return 1
    return max(1, len(cast(Any, event).apps))


def split(event: E, count: int) -> list[E]:
    """Split an event into parts with nearly equal numbers of apps."""
    apps = len(cast(Any, event).apps)
    bounds = [number * apps // count for number in range(count + 1)]
    pieces = [columns.cut(event, *bounds[number : number + 2]) for number in range(count)]
    return [_numbered(piece, number, count) for number, piece in enumerate(pieces, 1)]


def join_parts(parts: Sequence[E]) -> E:
    """Join all parts of an event, given in any order."""
    ordered = sorted(parts, key=lambda event: part_of(event).number)
    of = part_of(ordered[0]).of
    numbers = [part_of(event).number for event in ordered]
    if len(numbers) != of or numbers != list(range(1, of + 1)):
        raise Malformed("part", f"expected the parts 1 to {of}, got {numbers}")
    if of == 1:
        return ordered[0]
    whole = msgspec.structs.replace(columns.concatenate(ordered), part=_WHOLE)
    # Each part was checked, but an optional column may be missing in some of them.
    if problem := columns.problem_of(whole):
        raise Malformed("columns", f"{of} parts together: {problem}")
    return whole


@dataclass
class _Incomplete:
    """The parts of an event so far."""

    parts: dict[int, tuple[Event, int]] = field(default_factory=dict)
    """By number, with the bytes each counts for."""
    size: int = 0

    def put(self, number: int, event: Event, size: int) -> None:
        _, before = self.parts.get(number, (event, 0))
        self.parts[number] = event, size
        self.size += size - before

    def join(self) -> Event:
        return join_parts([event for event, _ in self.parts.values()])


class Assembler:
    """Collects parts until their event is complete. One per process; not thread-safe.

    Records of a key arrive in the order of their ticks, so one incomplete event of each key would
    do. But a tick may be wrong, and its part must not keep other events from being completed. So a
    few are collected side by side. In a flood of parts that are never completed the oldest are
    dropped: those of the flooding key first, then those of the least recently received key.
    """

    def __init__(self, most_bytes: int = MOST_BYTES, most_key_bytes: int = MOST_KEY_BYTES) -> None:
        self._most, self._most_of_key = most_bytes, most_key_bytes
        self._incomplete: dict[tuple[str, str], dict[_Identity, _Incomplete]] = {}
        """By topic and key, then by event; the most recently received one last."""
        self._size = 0
        self.dropped = 0
        """Parts that were dropped because there were too many."""

    def add(self, event: E, size: int = 0) -> E | None:
        """Return the event if this was its last missing part, else None; `size` is in bytes."""
        stream = (topic_of(event).name, key_of(event))
        number, of = part_of(event).number, part_of(event).of
        if number > of:
            raise Malformed("part", f"expected a number up to {of}, got {number}")
        waiting, identity = self._incomplete.pop(stream, {}), _identity(event)
        found = waiting.pop(identity, _Incomplete())
        self._size -= found.size
        found.put(number, event, size + _PART_BYTES)
        if len(found.parts) < of:
            waiting[identity] = found
            self._size += found.size
            self._keep(stream, waiting)
            return None
        # The missing parts of older events won't come any more.
        newer = {other: rest for other, rest in waiting.items() if other[0] > identity[0]}
        self._size -= sum(rest.size for other, rest in waiting.items() if other not in newer)
        if newer:
            self._incomplete[stream] = newer
        return cast(E, found.join())

    def clear(self) -> None:
        """Drop incomplete events: after a rebalance, records are read again from the commit."""
        self._incomplete.clear()
        self._size = 0

    def _keep(self, stream: tuple[str, str], waiting: dict[_Identity, _Incomplete]) -> None:
        """Keep the incomplete events of a key, within the limits."""
        size = sum(one.size for one in waiting.values())
        while len(waiting) > _MOST_INCOMPLETE or size > self._most_of_key:
            size -= self._drop(waiting, next(iter(waiting)))
        if waiting:
            self._incomplete[stream] = waiting
        while self._size > self._most:
            oldest = self._incomplete.pop(next(iter(self._incomplete)))
            for identity in list(oldest):
                self._drop(oldest, identity)

    def _drop(self, waiting: dict[_Identity, _Incomplete], identity: _Identity) -> int:
        dropped = waiting.pop(identity)
        self.dropped += len(dropped.parts)
        self._size -= dropped.size
        return dropped.size


def _splits(event: Event) -> bool:
    return hasattr(event, "part") or isinstance(event, MetricsSampled)


def _numbered(piece: E, number: int, count: int) -> E:
    if isinstance(piece, MetricsSampled):
        # Each batch is complete on its own; only the last one may close the tick.
        return msgspec.structs.replace(piece, final=piece.final and number == count)
    return msgspec.structs.replace(piece, part=Part(number=number, of=count))


def _tick(event: Event) -> int:
    return getattr(event, "tick", 0)


def _identity(event: Event) -> _Identity:
    """What all parts of an event share; a tick decided again may have other parts."""
    return _tick(event), part_of(event).of, getattr(event, "epoch", 0)
