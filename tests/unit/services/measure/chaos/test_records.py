"""Hostile records are as hostile as they claim, and the same for the same seed."""

import json
import random

import pytest

from schemas.codec import Malformed, decode
from schemas.metrics_sampled import MetricsSampled
from schemas.topics import BY_NAME, TOPICS
from services.measure.chaos import records


def test_the_same_seed_gives_the_same_records() -> None:
    first, second = (records.fuzzed(random.Random(3), "mutated", 50) for _ in range(2))
    assert first == second


def test_fuzzed_records_reach_every_topic_and_most_cannot_be_decoded() -> None:
    rng = random.Random(0)
    found = [one for kind in records.FUZZES for one in records.fuzzed(rng, kind, 500)]
    assert {one.topic for one in found} == {topic.name for topic in TOPICS}
    refused = 0
    for one in found:
        try:
            decode(one.topic, one.value)
        except Malformed:
            refused += 1
    # Some stay valid: a mutation may hit a field that accepts anything.
    assert 0.5 < refused / len(found) < 1.0


def test_records_from_the_future_are_valid_and_far_ahead() -> None:
    for one in records.from_the_future(random.Random(1), "payments", 100):
        event = decode(one.topic, one.value)
        assert getattr(event, "tick", 0) >= 120


def test_forged_samples_are_valid_and_call_every_app_idle() -> None:
    (one,) = records.forged_samples("payments", 7, "2026-01-05T00:01:10Z", ["a", "b"])
    event = decode(one.topic, one.value)
    assert isinstance(event, MetricsSampled)
    assert (event.final, event.replicas, event.rps) == (True, [1, 1], [0.0, 0.0])


def test_forged_budgets_leave_nothing_under_the_highest_epoch() -> None:
    for one in records.forged_budgets(["payments", "data"], 9):
        event = json.loads(one.value or b"")
        assert (event["epoch"], event["cores"]) == (2**31 - 1, 0.0)
        decode(one.topic, one.value)


def test_oversized_records_are_large_in_the_value_or_in_the_headers() -> None:
    value, headers = records.oversized(random.Random(0))
    assert len(value.value or b"") > 800_000
    assert sum(len(text or b"") for _, text in headers.headers) >= 700_000


@pytest.mark.parametrize("seed", range(5))
def test_misplaced_records_have_another_key_or_a_partition_of_their_own(seed: int) -> None:
    rng = random.Random(seed)
    valid = records.forged_samples("payments", 7, "2026-01-05T00:01:10Z", ["a"])
    for one in records.misplaced(rng, "fraud", valid):
        assert one.key != b"payments"
        assert one.partition is None or one.partition < BY_NAME[one.topic].partitions
