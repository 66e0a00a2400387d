"""A record that could not be used, as it came, with what was wrong."""

from typing import Annotated

from schemas.fields import Event, Time, about


class Rejected(Event, frozen=True, kw_only=True):
    """A dead letter. Its origin finds the record again as long as the topic keeps it."""

    service: Annotated[str, about("that refused it")]
    topic: Annotated[str, about("it came from")]
    partition: Annotated[int, about("-1 where the bus has none")] = -1
    offset: Annotated[int, about("-1 where the bus has none")] = -1
    key: Annotated[str, about("of the record; what is no UTF-8 is replaced")] = ""
    error: Annotated[str, about("kind of error")]
    detail: Annotated[str, about("what was expected and what came")]
    rejected_at: Annotated[Time, about("by the clock of the service")]
    value_base64: Annotated[str, about("the record's value, cut at 64 KiB")] = ""
    headers: Annotated[dict[str, str], about("of the record")] = {}
