"""Kinds of numbers and names that several events use: each with its unit and range.

The field of an event adds what the number means there.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Name = Annotated[
    str, Meta(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._/-]*)$")
]
"""Of a domain, an app, a pool: what Kubernetes would accept, namespace and all."""
Tick = Annotated[int, Meta(ge=0, extra_json_schema={"x-unit": "10 s ticks of event time"})]
Epoch = Annotated[int, Meta(ge=-1, extra_json_schema={"x-unit": "budgets granted"})]
Count = Annotated[int, Meta(ge=0)]
Millicores = Annotated[int, Meta(ge=0, extra_json_schema={"x-unit": "millicores"})]
MiB = Annotated[int, Meta(ge=0, extra_json_schema={"x-unit": "MiB"})]
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
Time = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$")]
"""UTC, as RFC 3339 writes it."""
Priority = Literal["P0", "P1", "P2", "P3"]
Mode = Literal["off", "preview", "canary", "auto"]
"""off: nothing is decided. preview: decided and published, nothing is changed. canary: changed for
a named share. auto: changed."""


def about(meaning: str) -> Meta:
    """What a field means, for readers of the code and of the generated schemas alike."""
    return Meta(description=meaning)


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

    number: Annotated[int, Meta(ge=1, description="of this part")] = 1
    of: Annotated[int, Meta(ge=1, description="parts in all")] = 1
