"""Properties of the codec that hold for any event and any bytes."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import Assembler, Malformed, decode, encode
from schemas.fields import Event
from schemas.parts import most_parts, split
from schemas.topics import BY_NAME, key_of, topic_of
from tests.contract.contract_data import IN_PARTS, events, structured

SOME = settings(max_examples=40, deadline=None)


@SOME
@given(events())
def test_decoding_an_encoded_event_yields_it_in_both_modes(event: Event) -> None:
    (record,) = encode(event, "test")
    assert record.topic == topic_of(event).name
    assert record.key.decode() == key_of(event)
    assert decode(record.topic, record.value, record.headers) == event
    assert decode(record.topic, record.value) == event
    assert decode(record.topic, *structured(record)) == event


@SOME
@given(events(IN_PARTS), st.data())
def test_parts_in_any_order_with_duplicates_make_the_event(
    event: Event, data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, most_parts(event)))
    records = [record for part in split(event, count) for record in encode(part, "test")]
    assert len({dict(record.headers)["ce_id"] for record in records}) == len(records) == count
    arrived = data.draw(st.permutations(records))
    # Some records again before the last one arrives: delivery is at least once.
    twice = data.draw(st.lists(st.sampled_from(arrived), max_size=3))
    assembler = Assembler()
    joined = [
        assembler.add(part)
        for record in [*arrived[:-1], *twice, *arrived]
        if (part := decode(record.topic, record.value, record.headers)) is not None
    ]
    assert event in joined
    assert all(one is None or one == event for one in joined)


@SOME
@given(
    st.sampled_from(sorted(BY_NAME)),
    st.one_of(st.none(), st.binary(max_size=200)),
    st.lists(
        st.tuples(
            st.sampled_from(["content-type", "ce_type", "ce_specversion", "ce_id", "trace"]),
            st.one_of(
                st.binary(max_size=10),
                st.sampled_from(
                    [b"1.0", b"application/json", b"application/cloudevents+json; charset=UTF-8"]
                ),
            ),
        ),
        max_size=4,
    ),
)
def test_arbitrary_bytes_are_malformed_or_a_tombstone(
    topic: str, value: bytes | None, headers: list[tuple[str, bytes]]
) -> None:
    with suppress(Malformed):
        assert decode(topic, value, headers) is None


@SOME
@given(events(), st.data())
def test_a_record_with_changed_bytes_is_malformed_or_another_event(
    event: Event, data: st.DataObject
) -> None:
    (record,) = encode(event, "test")
    index = data.draw(st.integers(0, len(record.value) - 1))
    put = data.draw(st.binary(max_size=3))
    value = record.value[:index] + put + record.value[index + 1 :]
    try:
        decoded = decode(record.topic, value, record.headers)
    except Malformed:
        return
    # An event that was accepted can be sent again.
    assert decoded is not None
    assert encode(decoded, "test")


@pytest.mark.parametrize("depth", [10, 100_000])
def test_nesting_that_is_too_deep_is_malformed(depth: int) -> None:
    for head in (b"", b'{"unknown":', b'{"readings":'):
        with pytest.raises(Malformed):
            decode("hirl.breaker-changed.v1", head + b"[" * depth)
