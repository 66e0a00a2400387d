"""Times that are written rightly and yet are none, as 2026-02-31: a pattern knows no calendar."""

from datetime import datetime
from functools import cache
from typing import Any, get_args, get_type_hints

from schemas.fields import IS_TIME, Event


def misfit(event: Event) -> str:
    """What is wrong with the times of an event; empty when nothing is."""
    for name in _times(type(event)):
        time = getattr(event, name)
        if time is not None and not _exists(time):
            return f"expected a time that exists in `{name}`, got {time!r:.80}"
    return ""


@cache
def _times(event: type[Event]) -> tuple[str, ...]:
    """Fields of an event that are times."""
    hints = get_type_hints(event, include_extras=True)
    return tuple(name for name, hint in hints.items() if _is_time(hint))


def _is_time(hint: Any) -> bool:
    return hint is IS_TIME or any(map(_is_time, get_args(hint)))


def _exists(time: str) -> bool:
    try:
        datetime.fromisoformat(time)
    except ValueError:
        return False
    return True
