"""What can be wrong with a record, sorted by who has to act."""

from typing import Literal

Kind = Literal["topic", "tombstone", "envelope", "json", "schema", "columns", "part"]
"""topic: nobody defined it. tombstone: empty where that says nothing. envelope: CloudEvents
attributes or the content type. json: no JSON. schema: a type, a range, a missing field. columns:
lists of unequal length. part: parts that cannot belong together."""


class Malformed(ValueError):  # noqa: N818  (it names the record, as `Rejected` does)
    """A record that cannot be used, now or later: dead-letter it, do not try again."""

    def __init__(self, kind: Kind, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind: Kind = kind
        self.detail = detail
        """What was expected and what came."""


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
