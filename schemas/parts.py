"""Events too large for one record: cut into numbered parts, and put together again."""

from collections.abc import Sequence
from typing import Any, Final, TypeVar, cast

import msgspec

from schemas import columns
from schemas.errors import Malformed
from schemas.fields import Event, Part
from schemas.metrics_sampled import MetricsSampled
from schemas.topics import key_of, topic_of

E = TypeVar("E", bound=Event)

_WHOLE: Final = Part()


def part_of(event: Event) -> Part:
    """Which part an event is; every event without parts is whole."""
    return getattr(event, "part", _WHOLE)


def places_to_split(event: Event) -> int:
    """Into how many parts an event could be cut at most; 1 where it cannot be."""
    # A part is not cut again: readers know the number of parts from any one of them.
    if part_of(event) != _WHOLE or not _splits(event):
        return 1
    return max(1, len(cast(Any, event).apps))


def split(event: E, count: int) -> list[E]:
    """Cut an event into parts of nearly equal numbers of places."""
    places = len(cast(Any, event).apps)
    bounds = [number * places // count for number in range(count + 1)]
    pieces = [columns.cut(event, *bounds[number : number + 2]) for number in range(count)]
    return [_numbered(piece, number, count) for number, piece in enumerate(pieces, 1)]


def join_parts(parts: Sequence[E]) -> E:
    """The event whose parts these are, all of them, in any order."""
    ordered = sorted(parts, key=lambda event: part_of(event).number)
    of = part_of(ordered[0]).of
    numbers = [part_of(event).number for event in ordered]
    if len(numbers) != of or numbers != list(range(1, of + 1)):
        raise Malformed("part", f"expected the parts 1 to {of}, got {numbers}")
    if of == 1:
        return ordered[0]
    whole = msgspec.structs.replace(columns.concatenate(ordered), part=_WHOLE)
    if problem := columns.misfit(whole):
        raise Malformed("columns", f"{of} parts together: {problem}")
    return whole


class Assembler:
    """Collects parts until their event is whole. One per process; not for several threads.

    Records of a key arrive in order of their ticks, so of each key only one event is under way:
    when a newer tick begins, parts of an older one that are still missing will not come.
    """

    def __init__(self) -> None:
        self._under_way: dict[tuple[str, str], dict[int, Event]] = {}

    def add(self, event: E) -> E | None:
        """The whole event when this was its last missing part, else None."""
        place = (topic_of(event).name, key_of(event))
        number, of = part_of(event).number, part_of(event).of
        if number > of:
            raise Malformed("part", f"expected a number up to {of}, got {number}")
        parts = self._under_way.get(place, {})
        known = next(iter(parts.values()), None)
        if known is not None and _tick(event) < _tick(known):
            return event if of == 1 else None
        if known is None or _identity(event) != _identity(known):
            parts = self._under_way[place] = {}
        parts[number] = event
        if len(parts) < of:
            return None
        del self._under_way[place]
        return join_parts(cast(list[E], list(parts.values())))

    def clear(self) -> None:
        """Forget what is under way: after a rebalance, records are read again from the commit."""
        self._under_way.clear()


def _splits(event: Event) -> bool:
    return hasattr(event, "part") or isinstance(event, MetricsSampled)


def _numbered(piece: E, number: int, count: int) -> E:
    if isinstance(piece, MetricsSampled):
        # Batches need no numbers: each stands for itself, and only the last one closes the tick.
        return msgspec.structs.replace(piece, final=piece.final and number == count)
    return msgspec.structs.replace(piece, part=Part(number=number, of=count))


def _tick(event: Event) -> int:
    return getattr(event, "tick", 0)


def _identity(event: Event) -> tuple[int, int, int]:
    """What all parts of an event share; a tick that was decided again may be cut otherwise."""
    return _tick(event), part_of(event).of, getattr(event, "epoch", 0)
