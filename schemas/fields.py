"""Field types that several events share, each with its unit and range, and the event base classes.

The field of an event adds what the value means there.
"""

from datetime import datetime
from functools import cache
from typing import Annotated, Any, Final, Literal, get_args, get_type_hints

import msgspec
from msgspec import Meta

# Readers keep integers in 32-bit arrays.
_LARGEST: Final = 2**31 - 1
LONGEST_TEXT: Final = 2000
"""Characters of a text that no pattern bounds."""
_LONGEST_TABLE: Final = 20 * LONGEST_TEXT
"""Characters of all names and texts of a table, such as `versions`."""
_LONGEST_TIME: Final = 40
_QUOTES: Final = frozenset({"batch", "value_base64"})
"""Fields that hold another record. No event repeats them."""


def _integer(least: int, unit: str = "") -> Meta:
    return Meta(ge=least, le=_LARGEST, extra_json_schema={"x-unit": unit} if unit else None)


# In Python, `$` also matches before a final newline and `\d` matches the digits of any script; in
# other languages they don't. These patterns mean the same to every reader of the schemas.
Name = Annotated[
    str, Meta(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$(?!\n)")
]
"""Name of a domain, app or pool, in the characters Kubernetes accepts, plus `/` for namespaces."""
Tick = Annotated[int, _integer(0, "ticks")]
Epoch = Annotated[int, _integer(-1)]
Count = Annotated[int, _integer(0)]
Small = Annotated[int, Meta(ge=0, le=2**15 - 1)]
"""An index into a short list, stored in 16 bits."""
Millicores = Annotated[int, _integer(0, "millicores")]
MiB = Annotated[int, _integer(0, "MiB")]
Cores = Annotated[float, Meta(ge=0, extra_json_schema={"x-unit": "cores"})]
GiB = Annotated[float, Meta(ge=0, extra_json_schema={"x-unit": "GiB"})]
Money = Annotated[float, Meta(extra_json_schema={"x-unit": "money"})]
Share = Annotated[float, Meta(ge=0, le=1, extra_json_schema={"x-unit": "share"})]
Ratio = Annotated[float, Meta(ge=0, extra_json_schema={"x-unit": "ratio"})]
Seconds = Annotated[float, Meta(ge=0, extra_json_schema={"x-unit": "s"})]
PerSecond = Annotated[float, Meta(ge=0, extra_json_schema={"x-unit": "1/s"})]
Sample = Annotated[float | None, Meta(extra_json_schema={"x-missing": "null"})]
"""A measured value, not yet checked for plausibility; null if no sample arrived."""
_TIME: Final = Meta(
    pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?Z$(?!\n)"
)
Time = Annotated[str, _TIME]
"""RFC 3339 in UTC. The pattern accepts dates such as 02-31, so `time_problem` checks them."""
Mode = Literal["off", "preview", "canary", "auto"]
"""The strictest first. off and preview: decide and publish, but change nothing. canary: change a
share of the apps, chosen by name. auto: change all apps."""


def about(description: str, unit: str = "") -> Meta:
    """Describe a field, for readers of the code and of the generated schemas."""
    return Meta(description=description, extra_json_schema={"x-unit": unit} if unit else None)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Base of every event. Decoding ignores unknown fields: readers can be older than writers."""

    trace_id: Annotated[
        str, about("Correlates the events of one tick across services; empty if unknown.")
    ] = ""


class TickEvent(Event, frozen=True, kw_only=True):
    """Base of an event that belongs to one tick."""

    tick: Annotated[
        Tick, about("Event time in ticks since the cluster's origin; usually 10 s each.")
    ]
    time: Annotated[Time, about("Event time at which the tick ends, UTC.")]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Position of a part. An event above 512 KiB is split into numbered parts."""

    number: Annotated[int, _integer(1), about("Number of this part, from 1.")] = 1
    of: Annotated[int, _integer(1), about("Total number of parts.")] = 1


def text_problem(event: Event) -> str:
    """Describe the first text that is too long; else empty.

    Services repeat the texts of an event in their own, for example the id of a decision. They could
    not publish what is larger than a record, and would lose their state to that.
    """
    for name in _text_fields(type(event)):
        value = getattr(event, name)
        if isinstance(value, dict):
            length, most = sum(map(len, (*value, *value.values()))), _LONGEST_TABLE
        else:
            texts = [value] if isinstance(value, str) else value
            length, most = max(map(len, texts), default=0), LONGEST_TEXT
        if length > most:
            return f"expected at most {most:,} characters in `{name}`, got {length:,}"
    return ""


def time_problem(event: Event) -> str:
    """Describe the first time field that names no real date, such as 2026-02-31; else empty."""
    for name in _time_fields(type(event)):
        time = getattr(event, name)
        if time is not None and not _is_real(time):
            return f"expected a time that exists in `{name}`, got {time!r:.80}"
    return ""


# Cached: resolving the type hints for every event would be slow.
@cache
def _time_fields(event: type[Event]) -> tuple[str, ...]:
    hints = get_type_hints(event, include_extras=True)
    return tuple(name for name, hint in hints.items() if _is_time(hint))


@cache
def _text_fields(event: type[Event]) -> tuple[str, ...]:
    hints = get_type_hints(event, include_extras=True)
    return tuple(
        name for name, hint in hints.items() if name not in _QUOTES and _has_free_text(hint)
    )


def _has_free_text(hint: Any) -> bool:
    """Whether a type is a text without a pattern, or a list or a table of them."""
    if hint is str:
        return True
    bounded = any(getattr(meta, "pattern", None) for meta in getattr(hint, "__metadata__", ()))
    inner = get_args(hint)[:1] if hasattr(hint, "__metadata__") else get_args(hint)
    return not bounded and bool(inner) and all(map(_has_free_text, inner))


def _is_time(hint: Any) -> bool:
    return hint is _TIME or any(map(_is_time, get_args(hint)))


def _is_real(time: str) -> bool:
    # The pattern allows any number of decimals.
    if len(time) > _LONGEST_TIME:
        return False
    try:
        datetime.fromisoformat(time)
    except ValueError:
        return False
    return True
