"""Split an event that is too large for one record into numbered parts, and join them again."""

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
    if problem := columns.length_problem(whole):
        raise Malformed("columns", f"{of} parts together: {problem}")
    return whole


class Assembler:
    """Collects parts until their event is complete. One per process; not thread-safe.

    Records of a key arrive in the order of their ticks. So each key has at most one incomplete
    event: when parts of a newer tick arrive, the missing parts of the older one won't.
    """

    def __init__(self) -> None:
        self._incomplete: dict[tuple[str, str], dict[int, Event]] = {}

    def add(self, event: E) -> E | None:
        """Return the event if this was its last missing part, else None."""
        thread = (topic_of(event).name, key_of(event))
        number, of = part_of(event).number, part_of(event).of
        if number > of:
            raise Malformed("part", f"expected a number up to {of}, got {number}")
        parts = self._incomplete.get(thread, {})
        first = next(iter(parts.values()), None)
        # An old event that is read again must not drop the newer parts that are waiting.
        if first is not None and _tick(event) < _tick(first):
            return event if of == 1 else None
        # Parts of two decisions of a tick must not be mixed: the newer one wins.
        if first is None or _identity(event) != _identity(first):
            parts = self._incomplete[thread] = {}
        parts[number] = event
        if len(parts) < of:
            return None
        del self._incomplete[thread]
        return join_parts(cast(list[E], list(parts.values())))

    def clear(self) -> None:
        """Drop incomplete events: after a rebalance, records are read again from the commit."""
        self._incomplete.clear()


def _splits(event: Event) -> bool:
    return hasattr(event, "part") or isinstance(event, MetricsSampled)


def _numbered(piece: E, number: int, count: int) -> E:
    if isinstance(piece, MetricsSampled):
        # Each batch is complete on its own; only the last one may close the tick.
        return msgspec.structs.replace(piece, final=piece.final and number == count)
    return msgspec.structs.replace(piece, part=Part(number=number, of=count))


def _tick(event: Event) -> int:
    return getattr(event, "tick", 0)


def _identity(event: Event) -> tuple[int, int, int]:
    """What all parts of an event share; a tick decided again may have other parts."""
    return _tick(event), part_of(event).of, getattr(event, "epoch", 0)
