"""Errors of the codec: one for the reader of a record, one for its producer."""

from typing import Literal

Kind = Literal[
    "topic", "tombstone", "headers", "envelope", "json", "schema", "columns", "part",
    "wrong-key", "wrong-partition", "batch",
]  # fmt: skip
"""topic: unknown topic. tombstone: empty value on a topic that isn't compacted. headers: a name
that isn't UTF-8. envelope: wrong CloudEvents attributes or content type. json: not JSON. schema:
wrong type or range, or a missing field. columns: lists of unequal length. part: parts that don't
belong together. wrong-key, wrong-partition: the record is not where its event belongs. batch: a
compression that isn't supported, or too large when inflated."""


class Malformed(ValueError):  # noqa: N818  (it names the record, like `Rejected`)
    """A record that can never be used: send it to the dead-letter topic, don't retry."""

    def __init__(self, kind: Kind, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind: Kind = kind
        self.detail = detail
        """What was expected, and what was received."""


class Oversized(ValueError):  # noqa: N818  (as above)
    """An event that is too large and cannot be split: its producer has to send less."""

    def __init__(self, topic: str, key: str, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"{topic}: the event of `{key}` has {size_bytes:,} bytes and cannot be split, "
            f"expected at most {limit_bytes:,}"
        )
        self.topic = topic
        self.key = key
        self.size_bytes = size_bytes
