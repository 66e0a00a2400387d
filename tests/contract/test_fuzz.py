"""Fuzzed records: broken in structure or raw bytes, they are malformed or usable events.

A malformed one says of which kind it is, the same each time, and its dead letter is complete. After
either, the next good record of the topic is read whole.

Structured inputs are valid events, built from the types of the schemas, of which parts are removed,
replaced, doubled or nested. `make fuzz` (FUZZ_EXAMPLES) runs longer than the default.
"""

import json
import os
from contextlib import suppress
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.codec import Malformed, decode, encode
from schemas.errors import Kind
from schemas.fields import Event
from schemas.topics import BY_NAME, TOPICS
from services._kit.clock import ManualClock
from services._kit.records import Delivery, EventReader, dead_letter, kind_of
from tests.contract.contract_data import EXAMPLES, events, topic_of_example

FUZZ = settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "60")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from(["", "2026-02-31T00:00:00Z", "cluster", "../..", "\x00", "ü\n", "1e999"]),
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
HEADERS = st.lists(
    st.tuples(
        st.sampled_from(["content-type", "ce_type", "ce_specversion", "ce_id", "ce_time", ""]),
        st.binary(max_size=12)
        | st.sampled_from([b"1.0", b"application/json", b"application/cloudevents+json"]),
    ),
    max_size=5,
)


GOOD = {topic_of_example(file): file for file in EXAMPLES}


def check(topic: str, value: bytes | None, headers: Any = ()) -> Event | None:
    """Read a record as a service does, and a good one after it."""
    reader, delivery = EventReader(), Delivery(topic, 0, 7, b"key", value, headers, 0.0)
    try:
        found = decode(topic, value, headers)
    except Malformed as error:
        _check_rejected(delivery, error)
        found = None
    if found is not None:
        # An event that is accepted has to survive being sent again.
        (record, *_) = encode(found, "fuzz")
        assert decode(record.topic, record.value, record.headers) == found
        delivery = delivery._replace(key=record.key)
    with suppress(Malformed):
        reader.read(delivery)
    if topic in GOOD:
        good = decode(topic, GOOD[topic].read_bytes())
        assert good is not None
        (record,) = encode(good, "fuzz")
        received = reader.read(Delivery(topic, 0, 8, record.key, record.value, record.headers, 0.0))
        assert received is not None
        assert received.event == good
        assert received.last.offset == 8
    return found


def _check_rejected(delivery: Delivery, error: Malformed) -> None:
    """It is malformed for one reason, each time, and its dead letter arrives as it was sent."""
    assert error.kind in get_args(Kind)
    assert error.detail
    # An error is a line in a log, whatever the record holds.
    assert len(str(error)) < 2000
    with pytest.raises(Malformed) as again:
        decode(delivery.topic, delivery.value, delivery.headers)
    assert str(again.value) == str(error)
    letter = dead_letter("fuzz", delivery, error, kind_of(error), ManualClock())
    assert (letter.error, letter.offset) == (error.kind, 7)
    (record,) = encode(letter, "fuzz")
    assert decode(record.topic, record.value, record.headers) == letter


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, bytes]:
    """A valid event of any topic with up to three changes anywhere in it."""
    event = draw(events())
    (record,) = encode(event, "fuzz")
    document = json.loads(record.value)
    for _ in range(draw(st.integers(1, 3))):
        document = _changed(draw, document)
    return record.topic, json.dumps(document).encode()


def _changed(draw: st.DrawFn, node: Any) -> Any:
    """One change at a random place below a node."""
    if isinstance(node, dict) and node and draw(st.integers(0, 3)):
        key = draw(st.sampled_from(sorted(node)))
        action = draw(st.sampled_from(["descend", "replace", "remove", "rename"]))
        rest = {name: value for name, value in node.items() if name != key}
        if action == "descend":
            return {**rest, key: _changed(draw, node[key])}
        if action == "replace":
            return {**rest, key: draw(ANYTHING)}
        return rest if action == "remove" else {**rest, draw(st.text(max_size=5)): node[key]}
    if isinstance(node, list) and node and draw(st.integers(0, 3)):
        at = draw(st.integers(0, len(node) - 1))
        middle = draw(
            st.sampled_from([[], [node[at]] * 2, [_changed(draw, node[at])], [draw(ANYTHING)]])
        )
        return [*node[:at], *middle, *node[at + 1 :]]
    return draw(ANYTHING)


@FUZZ
@given(mutated(), HEADERS)
def test_an_event_changed_in_its_structure_is_malformed_or_another_event(
    record: tuple[str, bytes], headers: list[tuple[str, bytes]]
) -> None:
    check(record[0], record[1])
    check(record[0], record[1], headers)


@FUZZ
@given(events(), st.sampled_from(sorted(BY_NAME)))
def test_an_event_on_the_wrong_topic_is_malformed_or_an_event_of_that_topic(
    event: Event, topic: str
) -> None:
    (record, *_) = encode(event, "fuzz")
    found = check(topic, record.value)
    assert found is None or isinstance(found, BY_NAME[topic].event)


@FUZZ
@given(st.sampled_from(TOPICS), ANYTHING)
def test_any_json_is_malformed_or_an_event(topic: Any, document: Any) -> None:
    check(topic.name, json.dumps(document).encode())


@FUZZ
@given(st.text(max_size=40) | st.sampled_from(sorted(BY_NAME)), st.binary(max_size=400), HEADERS)
def test_raw_bytes_are_malformed_or_an_event(
    topic: str, value: bytes, headers: list[tuple[str, bytes]]
) -> None:
    check(topic, value, headers)
