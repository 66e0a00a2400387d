"""A dead letter: a record that a service could not use, and what was wrong with it."""

from typing import Annotated

from schemas.fields import Event, Time, about


class Rejected(Event, frozen=True, kw_only=True):
    """A rejected record with its origin, which locates it for as long as its topic retains it."""

    service: Annotated[str, about("Service that rejected the record.")]
    topic: Annotated[str, about("Topic of the record.")]
    partition: Annotated[int, about("Partition of the record; -1 if the bus has none.")] = -1
    offset: Annotated[int, about("Offset of the record; -1 if the bus has none.")] = -1
    key: Annotated[str, about("Key of the record; bytes that are not UTF-8 are replaced.")] = ""
    error: Annotated[str, about("Kind of the error.")]
    detail: Annotated[str, about("What was expected, and what was received.")]
    rejected_at: Annotated[Time, about("Time of the rejection by the service's clock, UTC.")]
    value_base64: Annotated[str, about("Value of the record, truncated to 64 KiB.")] = ""
    headers: Annotated[dict[str, str], about("Headers of the record.")] = {}
