"""Large events are split into parts, and joining them yields the event or nothing."""

import msgspec
import pytest

from schemas.codec import LIMIT_BYTES, Assembler, Malformed, Oversized, decode, encode, join_parts
from schemas.columns import RULES
from schemas.fields import Event, Part
from schemas.metrics_sampled import MetricsSampled
from schemas.parts import split
from schemas.scale_planned import ScalePlanned, Sums
from schemas.topics import TOPICS

TIME = "2026-11-27T08:00:00Z"
SUMS = Sums(
    apps=4,
    work=1,
    essential=1,
    kept=1,
    wanted=1,
    held=1,
    held_memory_gib=1,
    pending=0,
    distress=0,
    rps=5,
    at_risk=0,
)


def plan(tick: int = 7, epoch: int = 3, reason: str = "held", apps: int = 4) -> ScalePlanned:
    return ScalePlanned(
        tick=tick,
        time=TIME,
        domain="data",
        decision_id="d",
        epoch=epoch,
        policy="heuristic/1",
        apps=[f"app-{number}" for number in range(apps)],
        replicas=list(range(apps)),
        cpu_request=[100] * apps,
        memory_request=[64] * apps,
        reasons=[reason] * apps,
        sums=SUMS,
    )


def test_a_large_event_is_split_into_as_few_parts_as_fit_and_joined_again() -> None:
    # About 1 MB, so two parts.
    event = plan(reason="x" * 300, apps=3100)
    records = encode(event, "soldier")
    parts = [decode(record.topic, record.value, record.headers) for record in records]
    assert [dict(record.headers)["ce_id"] for record in records] == [
        b"data:7:3:1/2",
        b"data:7:3:2/2",
    ]
    assert all(len(record.value) <= LIMIT_BYTES for record in records)
    assembler = Assembler()
    assert [assembler.add(part) for part in parts if part] == [None, event]


def test_fields_about_the_whole_domain_are_in_the_first_part_only() -> None:
    first, second = split(plan(), 2)
    assert (first.sums, second.sums) == (SUMS, None)
    assert (first.apps, second.apps) == (["app-0", "app-1"], ["app-2", "app-3"])


def test_a_single_entry_that_is_too_large_is_refused() -> None:
    with pytest.raises(Oversized):
        encode(plan(reason="x" * LIMIT_BYTES, apps=3), "soldier")


def test_a_part_is_not_split_again() -> None:
    part = msgspec.structs.replace(plan(reason="x" * LIMIT_BYTES), part=Part(number=1, of=2))
    with pytest.raises(Oversized):
        encode(part, "soldier")


def test_a_large_batch_becomes_several_batches_and_only_the_last_is_final() -> None:
    apps = [f"app-{number}" for number in range(4000)]
    event = MetricsSampled(
        tick=1, time=TIME, domain="data", final=True, apps=apps, pods=["x" * 150] * len(apps)
    )
    batches = [decode(record.topic, record.value) for record in encode(event, "collector")]
    sampled = [batch for batch in batches if isinstance(batch, MetricsSampled)]
    assert [batch.final for batch in sampled] == [False, True]
    assert [app for batch in sampled for app in batch.apps] == apps


def test_parts_may_arrive_out_of_order_and_twice() -> None:
    first, second, third = split(plan(), 3)
    assembler = Assembler()
    added = [assembler.add(part) for part in (third, first, first, third, second)]
    assert added == [None, None, None, None, plan()]


def test_a_newer_tick_drops_an_incomplete_older_one() -> None:
    old, new = split(plan(tick=1), 2), split(plan(tick=2), 2)
    assembler = Assembler()
    added = [assembler.add(part) for part in (old[0], new[0], old[1], new[1])]
    assert added == [None, None, None, plan(tick=2)]


def test_a_whole_event_passes_and_drops_an_incomplete_older_one() -> None:
    old = split(plan(tick=1), 2)
    assembler = Assembler()
    assert assembler.add(old[0]) is None
    assert assembler.add(plan(tick=2)) == plan(tick=2)
    assert assembler.add(old[1]) is None


def test_parts_of_two_decisions_on_one_tick_are_not_mixed() -> None:
    once, again = split(plan(epoch=3), 2), split(plan(epoch=4), 2)
    assembler = Assembler()
    added = [assembler.add(part) for part in (once[0], again[1], again[0])]
    assert added == [None, None, plan(epoch=4)]


def test_domains_are_collected_separately_until_cleared() -> None:
    first, second = split(plan(), 2)
    other = msgspec.structs.replace(first, domain="fraud")
    assembler = Assembler()
    assert [assembler.add(part) for part in (first, other, second)] == [None, None, plan()]
    assert assembler.add(first) is None
    assembler.clear()
    assert assembler.add(second) is None


def test_parts_that_do_not_belong_together_are_malformed() -> None:
    first, second = split(plan(), 2)
    with pytest.raises(Malformed, match=r"^part: expected the parts 1 to 2, got \[1\]"):
        join_parts([first])
    longer = msgspec.structs.replace(second, need=[1.0, 2.0])
    with pytest.raises(Malformed, match=r"2 parts together: expected 4 entries in `need`"):
        join_parts([first, longer])
    beyond = msgspec.json.encode(msgspec.structs.replace(first, part=Part(number=3, of=2)))
    with pytest.raises(Malformed, match=r"^part: expected a number up to 2, got 3"):
        decode("hirl.scale-planned.v1", beyond)


@pytest.mark.parametrize(
    "event", [topic.event for topic in TOPICS if "apps" in topic.event.__struct_fields__]
)
def test_every_list_of_an_event_with_apps_is_a_column_or_appears_once(event: type[Event]) -> None:
    named = {
        name
        for rule in RULES[event]
        for name in (rule.leader, *rule.required, *rule.optional, *rule.once)
    }
    lists = {
        field.name
        for field in msgspec.structs.fields(event)
        if "list[" in str(field.type) or field.name == "pods"
    }
    assert lists <= named
    assert named <= set(event.__struct_fields__)
