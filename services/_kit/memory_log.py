"""A topic in memory: records in order, kept the way Kafka would keep them."""

from collections.abc import Iterator

from services._kit.consume import Delivery


class Log:
    """One topic with one partition. Offsets stay what they were when older records are gone."""

    def __init__(self, name: str, *, compacted: bool) -> None:
        self.name = name
        self.end = 0
        """Offset of the next record."""
        self._compacted = compacted
        self._records: dict[int, tuple[int, Delivery]] = {}
        self._newest: dict[bytes, int] = {}

    def append(
        self,
        order: int,
        key: bytes,
        value: bytes | None,
        headers: tuple[tuple[str, bytes], ...],
        timestamp: float,
    ) -> None:
        """Add a record; `order` is its place among the records of all topics."""
        delivery = Delivery(self.name, 0, self.end, key, value, headers, timestamp)
        self._records[self.end] = (order, delivery)
        self._newest[key] = self.end
        self.end += 1

    def after(self, offset: int) -> tuple[int, Delivery] | None:
        """The first record from an offset on, with its order."""
        while offset < self.end:
            if offset in self._records:
                return self._records[offset]
            offset += 1
        return None

    def __iter__(self) -> Iterator[Delivery]:
        return (delivery for _, delivery in list(self._records.values()))

    def compact(self) -> None:
        """Keep the newest record of each key, as Kafka does some time or other."""
        if self._compacted:
            kept = set(self._newest.values())
            self._records = {at: record for at, record in self._records.items() if at in kept}

    def trim(self, read_by_all: int, keep: int) -> None:
        """Forget what everybody has read, but for the newest `keep` records."""
        if self._compacted:
            self.compact()
            return
        for offset in list(self._records):
            if offset >= min(read_by_all, self.end - keep):
                return
            del self._records[offset]
