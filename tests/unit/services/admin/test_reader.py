"""Events in several records are read completely."""

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition

from schemas.codec import Record, encode
from schemas.domain_observed import DomainObserved, Pods
from services.admin import decisions
from services.admin import reader as reading
from services.admin.decisions import record_decisions
from services.measure.stamps import read_stamps
from tests.service_helpers import DOMAIN, time_of

OPTIONS: dict[str, Any] = {"bootstrap_servers": ["nowhere:1"]}
# So many apps that a frame doesn't fit into one record.
MANY = 12_000


class OneByOne:
    """A consumer that fetches one record of the first topic at a time, then nothing."""

    records: tuple[Record, ...] = ()

    def __init__(self, **_: object) -> None:
        self._at = 0

    def partitions_for_topic(self, _: str) -> set[int]:
        return {0}

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._partition = partitions[0]

    def seek(self, _: TopicPartition, offset: int) -> None:
        self._at = offset

    def seek_to_beginning(self, *_: TopicPartition) -> None:
        self._at = 0

    def position(self, _: TopicPartition) -> int:
        return self._at

    def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 0) | {partitions[0]: len(self.records)}

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[SimpleNamespace]]:
        del timeout_ms
        if self._at >= len(self.records):
            return {}
        record, offset = self.records[self._at], self._at
        self._at += 1
        found = SimpleNamespace(
            topic=record.topic, partition=0, offset=offset, key=record.key, value=record.value,
            headers=record.headers, timestamp=1000 * offset,
        )  # fmt: skip
        return {self._partition: [found]}

    def close(self) -> None: ...


def frame(tick: int) -> DomainObserved:
    zeros = [0] * MANY
    return DomainObserved(
        tick=tick,
        time=time_of(tick),
        domain=DOMAIN,
        apps=[f"payments-{number:06d}" for number in range(MANY)],
        pods=Pods(**dict.fromkeys(Pods.__struct_fields__, zeros)),
        measured={},
        features={},
        load_pods=[0.123456789] * MANY,
        usual_load_pods=[0.123456789] * MANY,
    )


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> int:
    """Publish two large frames, and return in how many records."""
    frames = [frame(1), frame(2)]
    records = tuple(record for one in frames for record in encode(one, "test"))
    monkeypatch.setattr(OneByOne, "records", records)
    monkeypatch.setattr(reading, "KafkaConsumer", OneByOne)
    return len(records)


def test_an_event_in_parts_has_the_time_of_its_last_record(parts: int) -> None:
    assert parts > 2
    found = read_stamps(OPTIONS, [DomainObserved])
    assert [one.event.tick for one in found] == [1, 2]
    assert found[-1].at == parts - 1


def test_a_part_of_an_event_does_not_end_a_recording(
    parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "_KINDS", (DomainObserved,))
    seen: list[Any] = []
    monkeypatch.setattr(decisions, "_by_kind", seen.extend)
    record_decisions(OPTIONS, has_ended=lambda: True)
    assert parts > 2
    assert [event.tick for event in seen] == [1, 2]
