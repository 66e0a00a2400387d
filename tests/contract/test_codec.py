"""What a record looks like, and which records the codec refuses."""

import math

import msgspec
import pytest

from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.codec import LIMIT_BYTES, Malformed, Oversized, decode, encode
from schemas.event_scheduled import EventScheduled
from schemas.fields import Event
from schemas.metrics_sampled import MetricsSampled
from schemas.override_issued import OverrideIssued
from schemas.rejected import Rejected
from schemas.scale_planned import ScalePlanned
from tests.contract.contract_data import structured

TIME = "2026-11-27T08:00:00Z"
BUDGET = BudgetGranted(
    tick=8640,
    time=TIME,
    domain="payments",
    epoch=1441,
    valid_until_tick=8658,
    share=0.34,
    reserve_share=0.05,
    cores=4412.5,
    memory_gib=16810.0,
)
TOPIC = "hirl.budget-granted.v1"
VALUE = msgspec.json.encode(BUDGET)


def sampled(**columns: list[float | None]) -> MetricsSampled:
    return msgspec.convert(
        {"tick": 1, "time": TIME, "domain": "fraud", "apps": ["a", "b"], **columns}, MetricsSampled
    )


def headers_of(event: Event) -> dict[str, str]:
    (record,) = encode(event, "test")
    return {name: text.decode() for name, text in record.headers}


def test_a_record_is_a_cloud_event_in_binary_mode() -> None:
    (record,) = encode(BUDGET, "commander")
    assert (record.topic, record.key, record.value) == (TOPIC, b"payments", VALUE)
    assert dict(record.headers) == {
        "ce_specversion": b"1.0",
        "ce_type": TOPIC.encode(),
        "ce_source": b"/hirl/commander",
        "ce_id": b"payments:8640:1441",
        "ce_time": TIME.encode(),
        "ce_partitionkey": b"payments",
        "content-type": b"application/json",
    }


def test_batches_of_one_tick_have_different_ids_and_a_repeated_batch_the_same() -> None:
    first, second = sampled(rps=[1.0, 2.0]), sampled(rps=[1.0, 3.0])
    assert headers_of(first)["ce_id"] == headers_of(first)["ce_id"]
    assert headers_of(first)["ce_id"] != headers_of(second)["ce_id"]


def test_a_dead_letter_has_no_key_and_the_time_of_its_rejection() -> None:
    letter = Rejected(service="soldier", topic="t", error="json", detail="x", rejected_at=TIME)
    headers = headers_of(letter)
    assert headers["ce_time"] == TIME
    assert "ce_partitionkey" not in headers


def test_unknown_fields_are_ignored() -> None:
    value = VALUE[:-1] + b',"of_a_later_version":[1,{"a":null}]}'
    assert decode(TOPIC, value) == BUDGET


@pytest.mark.parametrize("value", [None, b""])
def test_a_tombstone_is_none_on_a_compacted_topic_and_refused_elsewhere(
    value: bytes | None,
) -> None:
    assert decode(TOPIC, value) is None
    with pytest.raises(Malformed, match=r"^tombstone: expected a value, got none"):
        decode("hirl.scale-planned.v1", value)


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("schema", {"epoch": "7"}, r"Expected `int`, got `str` - at `\$\.epoch`"),
        ("schema", {"share": 1.5}, r"<= 1.* - at `\$\.share`, got 1\.5"),
        ("schema", {"domain": "no name"}, r"matching regex .* got 'no name'"),
        # In Python, `$` would accept a final newline, and `\d` digits of any script.
        ("schema", {"domain": "newline\n"}, r"matching regex .* got 'newline\\n'"),
        ("schema", {"time": "2026-13-01T00:00:00Z"}, r"`\$\.time`, got '2026-13"),
        ("schema", {"time": "٢٠٢٦-11-27T08:00:00Z"}, r"matching regex"),
        ("schema", {"tick": 2**31}, r"<= 2147483647 .* got 2147483648"),
        # The pattern accepts this date; it doesn't exist.
        ("schema", {"time": "2026-02-31T00:00:00Z"}, r"exists in `time`, got '2026-02-31"),
        ("schema", {"pool_cores": {"general": -1}}, r">= 0"),
        # JSON has no NaN: it is sent as null, which this field doesn't allow.
        ("schema", {"cores": math.nan}, r"Expected `float`, got `null`"),
    ],
)
def test_values_of_the_wrong_type_or_range_are_refused_with_their_path(
    kind: str, changes: dict[str, object], words: str
) -> None:
    value = msgspec.json.encode({**msgspec.to_builtins(BUDGET), **changes})
    with pytest.raises(Malformed, match=words) as refused:
        decode(TOPIC, value)
    assert refused.value.kind == kind


@pytest.mark.parametrize("field", ["starts_at", "ends_at"])
def test_a_date_that_does_not_exist_is_refused_in_every_time_field(field: str) -> None:
    plain = EventScheduled(
        name="sale", domains=["payments"], starts_at=TIME, ends_at=TIME, expected_factor=2.0
    )
    event = msgspec.structs.replace(plain, **{field: "2026-02-30T00:00:00Z"})
    with pytest.raises(Malformed, match=f"`{field}`, got '2026-02-30"):
        encode(event, "collector")
    with pytest.raises(Malformed, match=f"`{field}`, got '2026-02-30"):
        decode("hirl.event-scheduled.v1", msgspec.json.encode(event))


@pytest.mark.parametrize(
    "changes",
    [
        {"trace_id": "x" * 2001},
        {"decision_id": "x" * 2001},
        {"reasons": ["short", "x" * 2001]},
        {"versions": {"x" * 20_001: "y" * 20_000}},
        {"time": f"2026-11-27T08:00:00.{'0' * 2000}Z"},
    ],
    ids=",".join,
)
def test_a_text_that_no_event_could_repeat_is_refused(changes: dict[str, object]) -> None:
    (name,) = changes
    event = msgspec.structs.replace(BUDGET, **changes)
    with pytest.raises(Malformed, match=f"`{name}`") as refused:
        decode(TOPIC, msgspec.json.encode(event))
    assert refused.value.kind == "schema"
    assert "x" * 100 not in refused.value.detail
    with pytest.raises(Malformed, match=f"`{name}`"):
        encode(event, "commander")


def test_texts_up_to_their_limit_fit_into_a_record_whatever_they_hold() -> None:
    # The worst case: each character takes six bytes in JSON.
    text = "\x01" * 2000
    versions = {str(index): "\x01" * 1999 for index in range(10, 30)}
    versions = {name: text[: 2000 - len(name)] for name, text in versions.items()}
    event = msgspec.structs.replace(BUDGET, trace_id=text, decision_id=text, versions=versions)
    (record,) = encode(event, "commander")
    assert len(record.value) < LIMIT_BYTES
    assert decode(TOPIC, record.value) == event


def test_an_override_may_lack_an_end_but_not_have_an_impossible_one() -> None:
    order = OverrideIssued(scope="cluster", kind="cluster", pause="all")
    assert encode(order, "operator")
    with pytest.raises(Malformed, match="`until`"):
        encode(msgspec.structs.replace(order, until="2026-02-31T00:00:00Z"), "operator")


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"ce_specversion": b"0.3", "ce_type": TOPIC.encode()}, "specversion `1.0`, got `0.3`"),
        ({"ce_specversion": b"1.0", "ce_type": b"x.v1"}, f"type `{TOPIC}`, got `x.v1`"),
        ({"ce_specversion": b"1.0"}, f"type `{TOPIC}`, got none"),
        ({"ce_type": TOPIC.encode()}, "specversion `1.0`, got none"),
        ({"content-type": b"avro/binary"}, "expected content type .* got `avro/binary`"),
        ({"content-type": b"application/cloudevents-batch+json"}, "expected content type"),
        ({"content-type": b"application/cloudevents+json"}, "structured mode: .* `specversion`"),
        ({"ce_type": b"\xff"}, "header ce_type: expected UTF-8"),
    ],
)
def test_attributes_that_contradict_the_topic_are_refused(
    headers: dict[str, bytes], words: str
) -> None:
    with pytest.raises(Malformed, match=words) as refused:
        decode(TOPIC, VALUE, list(headers.items()))
    assert refused.value.kind == "envelope"


def test_structured_mode_is_checked_like_binary_mode() -> None:
    value, headers = structured(encode(BUDGET, "commander")[0])
    with_parameter = [("content-type", b"application/cloudevents+json; charset=UTF-8")]
    assert decode(TOPIC, value, headers) == decode(TOPIC, value, with_parameter) == BUDGET
    with pytest.raises(Malformed, match=r"type `hirl.breaker-changed.v1`, got `hirl.budget"):
        decode("hirl.breaker-changed.v1", value, headers)
    with pytest.raises(Malformed, match="expected content type application/json"):
        decode(TOPIC, value.replace(b"application/json", b"application/avro"), headers)


@pytest.mark.parametrize("value", [b"{", b"\xff\xfe", b'{"tick": 1', b"nul", b'{"time": "\xff"}'])
def test_a_value_that_is_not_json_is_refused_with_its_first_bytes(value: bytes) -> None:
    with pytest.raises(Malformed, match=r"^json: expected JSON, got b") as refused:
        decode(TOPIC, value)
    assert len(str(refused.value)) < 300


def test_an_unknown_topic_is_refused() -> None:
    with pytest.raises(Malformed, match=r"^topic: expected a topic of schemas/topics.py"):
        decode("hirl.budget-granted.v2", VALUE)


def test_columns_of_unequal_length_are_refused_when_encoding_and_decoding() -> None:
    words = r"^columns: expected 2 entries in `rps`, one per entry of `apps`, got 1$"
    with pytest.raises(Malformed, match=words):
        encode(sampled(rps=[1.0]), "collector")
    with pytest.raises(Malformed, match=words):
        decode("hirl.metrics-sampled.v1", msgspec.json.encode(sampled(rps=[1.0])))


def test_an_app_that_is_there_twice_is_refused_unless_each_entry_is_a_pod() -> None:
    plan = ScalePlanned(
        tick=1, time=TIME, domain="fraud", decision_id="fraud/1", epoch=-1, policy="any/1",
        apps=["a", "b", "a"], replicas=[1] * 3, cpu_request=[1] * 3, memory_request=[1] * 3,
        reasons=["hold"] * 3,
    )  # fmt: skip
    words = r"^columns: expected each entry of `apps` once, got 'a' again$"
    with pytest.raises(Malformed, match=words):
        encode(plan, "soldier")
    with pytest.raises(Malformed, match=words):
        decode("hirl.scale-planned.v1", msgspec.json.encode(plan))
    pods = msgspec.structs.replace(sampled(rps=[1.0, 2.0]), apps=["a", "a"], pods=["0", "1"])
    (record,) = encode(pods, "agent")
    assert decode(record.topic, record.value, record.headers) == pods


def test_a_missing_sample_may_be_written_as_nan() -> None:
    (record,) = encode(sampled(rps=[math.nan, 1.0]), "collector")
    assert decode(*record[:1], record.value, record.headers) == sampled(rps=[None, 1.0])


def test_a_large_event_without_columns_is_refused() -> None:
    event = BreakerChanged(
        tick=1,
        time=TIME,
        scope="fraud",
        state="open",
        since_tick=1,
        readings={"x" * LIMIT_BYTES: 1.0},
    )
    with pytest.raises(Oversized, match=r"breaker-changed.v1: the event of `fraud` has 524,\d+ b"):
        encode(event, "breaker")
