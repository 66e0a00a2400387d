"""Kinds of numbers and names that several events use: each with its unit and range.

The field of an event adds what the number means there.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

_LARGEST = 2**31 - 1
"""Of integers: readers keep them in arrays of 32 bits."""


def _whole(least: int, unit: str = "") -> Meta:
    return Meta(ge=least, le=_LARGEST, extra_json_schema={"x-unit": unit} if unit else None)


# In Python `$` also matches before a final newline and `\d` any script's digits, elsewhere not:
# these patterns mean the same to every reader of the schemas.
Name = Annotated[
    str, Meta(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$(?!\n)")
]
"""Of a domain, an app, a pool: what Kubernetes would accept, namespace and all."""
Tick = Annotated[int, _whole(0, "10 s ticks of event time")]
Epoch = Annotated[int, _whole(-1, "budgets granted")]
Count = Annotated[int, _whole(0)]
Small = Annotated[int, Meta(ge=0, le=2**15 - 1)]
"""A number of a short list, kept in 16 bits."""
Millicores = Annotated[int, _whole(0, "millicores")]
MiB = Annotated[int, _whole(0, "MiB")]
Cores = Annotated[float, Meta(ge=0, extra_json_schema={"x-unit": "cores"})]
Bytes = Annotated[float, Meta(ge=0, extra_json_schema={"x-unit": "bytes"})]
GiB = Annotated[float, Meta(ge=0, extra_json_schema={"x-unit": "GiB"})]
Money = Annotated[float, Meta(extra_json_schema={"x-unit": "money"})]
Share = Annotated[float, Meta(ge=0, le=1, extra_json_schema={"x-unit": "share"})]
Ratio = Annotated[float, Meta(ge=0, extra_json_schema={"x-unit": "ratio"})]
Seconds = Annotated[float, Meta(ge=0, extra_json_schema={"x-unit": "s"})]
PerSecond = Annotated[float, Meta(ge=0, extra_json_schema={"x-unit": "1/s"})]
Sample = Annotated[float | None, Meta(extra_json_schema={"x-missing": "null"})]
"""A measured number, not yet believed: null where no sample arrived."""
IS_TIME = Meta(
    pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?Z$(?!\n)"
)
Time = Annotated[str, IS_TIME]
"""UTC, as RFC 3339 writes it; `moments.py` refuses days that no calendar has."""
Priority = Literal["P0", "P1", "P2", "P3"]
Mode = Literal["off", "preview", "canary", "auto"]
"""off: nothing is decided. preview: decided and published, nothing is changed. canary: changed for
a named share. auto: changed."""


def about(meaning: str, unit: str = "") -> Meta:
    """What a field means, for readers of the code and of the generated schemas alike."""
    return Meta(description=meaning, extra_json_schema={"x-unit": unit} if unit else None)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """What every event carries. Unknown fields are ignored, so that readers outlive writers."""

    trace_id: Annotated[str, about("follows one tick through all services; empty when unknown")] = (
        ""
    )


class TickEvent(Event, frozen=True, kw_only=True):
    """An event of one tick."""

    tick: Annotated[Tick, about("event time in ticks since the cluster's origin")]
    time: Annotated[Time, about("event time at which the tick ends")]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Records stay below 512 KiB: what is larger comes in numbered parts."""

    number: Annotated[int, _whole(1), about("of this part")] = 1
    of: Annotated[int, _whole(1), about("parts in all")] = 1
