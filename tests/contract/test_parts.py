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
    # Texts are bounded, names of columns are not.
    mix: dict[str, list[float | None]] = {"x" * LIMIT_BYTES: [1.0, 0.0]}
    batch = MetricsSampled(tick=7, time=TIME, domain="data", apps=["a", "b"], request_mix=mix)
    with pytest.raises(Oversized):
        encode(batch, "collector")


def test_a_part_is_not_split_again() -> None:
    part = msgspec.structs.replace(plan(reason="x" * 300, apps=3100), part=Part(number=1, of=2))
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


def test_a_complete_event_drops_incomplete_older_ones() -> None:
    old, new = split(plan(tick=1), 2), split(plan(tick=2), 2)
    assembler = Assembler()
    added = [assembler.add(part) for part in (old[0], *new, old[1])]
    assert added == [None, None, plan(tick=2), None]


def test_single_parts_of_any_tick_keep_no_other_event_from_being_completed() -> None:
    wrong = [split(plan(tick=tick), 3)[0] for tick in (2**31 - 1, 10**6, 8)]
    assembler = Assembler()
    for tick in range(7, 12):
        first, second = split(plan(tick=tick), 2)
        added = [assembler.add(part) for part in (first, *wrong, second)]
        assert added == [None] * 4 + [plan(tick=tick)]


def test_parts_that_are_never_completed_do_not_add_up() -> None:
    assembler = Assembler()
    for tick in range(1000):
        assert assembler.add(split(plan(tick=tick), 2)[0]) is None
    (waiting,) = assembler._incomplete.values()
    assert len(waiting) <= 4


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


def part(number: int, of: int, tick: int = 7, domain: str = "data") -> ScalePlanned:
    apps = [f"app-{number}-{index}" for index in range(4)]
    position = Part(number=number, of=of)
    return msgspec.structs.replace(plan(tick), domain=domain, apps=apps, part=position)


@pytest.mark.parametrize("same_key", [True, False])
def test_a_flood_of_parts_is_kept_within_the_limit(*, same_key: bool) -> None:
    assembler = Assembler(most_bytes=40_000_000, most_key_bytes=10_000_000)
    for number in range(1, 1001):
        domain = "data" if same_key else f"forged-{number}"
        assert assembler.add(part(number, 2000, domain=domain), 1_000_000) is None
    most = 9 if same_key else 39
    assert 1000 - assembler.dropped <= most


def test_a_flood_of_other_keys_does_not_drop_what_is_being_completed() -> None:
    assembler = Assembler(most_bytes=40_000_000)
    done = None
    for number in range(1, 11):
        for forged in range(20):
            assembler.add(part(1, 2, domain=f"forged-{number}-{forged}"), 1_000_000)
        done = assembler.add(part(number, 10), 1_000_000)
    assert assembler.dropped > 0
    assert done is not None


def test_a_flood_of_one_key_leaves_the_parts_of_others() -> None:
    assembler = Assembler(most_bytes=40_000_000, most_key_bytes=10_000_000)
    assembler.add(part(1, 2, domain="payments"), 1_000_000)
    for number in range(1, 1001):
        assembler.add(part(number, 2000), 1_000_000)
    assert assembler.add(part(2, 2, domain="payments"), 1_000_000) is not None


def test_small_parts_count_as_well() -> None:
    assembler = Assembler(most_bytes=1_000_000)
    for number in range(1, 1001):
        assembler.add(part(1, 2, domain=f"forged-{number}"))
    assert assembler.dropped > 700


def test_completed_events_leave_nothing_behind() -> None:
    assembler = Assembler(most_bytes=3_000_000)
    for tick in range(100):
        assembler.add(part(1, 2, tick), 1_000_000)
        assert assembler.add(part(2, 2, tick), 1_000_000) is not None
    assert assembler.dropped == 0
