"""Random records on every topic stop no service of the whole system.

A record that cannot be decoded is one dead letter of its kind for each service that reads its
topic, and nothing else: every state stays as it was, and the next tick is decided as without it.
"""

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any, get_args

import msgspec
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from models.sim.world import World
from schemas.codec import Malformed, decode
from schemas.errors import Kind
from schemas.override_issued import OverrideIssued
from schemas.rejected import Rejected
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from schemas.topics import BY_NAME, topic_of
from services._kit.records import Delivery, EventReader
from services.devcluster.memory import MemorySystem
from services.simcluster.app import world_of
from services.simcluster.settings import Settings

APPS = 10
DOMAIN = "payments"
SCALARS = (
    st.none()
    | st.booleans()
    | st.sampled_from([-1, 0, 1, 5, 2**31 - 1, 2**63, 1e308, "", "payments", "cluster", "a/b"])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
)
DOCUMENTS = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4), max_leaves=6)
HEADERS = st.lists(
    st.tuples(st.sampled_from(["ce_type", "content-type", "x"]), st.none() | st.binary()),
    max_size=3,
)


@cache
def world() -> tuple[World, Any, dict[str, list[tuple[bytes, bytes]]]]:
    """A world with its first state, and real records of every topic to mutate."""
    built = world_of(Settings(scenario="calm", apps=APPS))
    before = built.save()
    system = MemorySystem(built)
    list(islice(system.ticks(), 7))
    records = {
        name: [(one.key, one.value) for one in topic if one.value is not None][-APPS:]
        for name, topic in system.bus._topics.items()  # a test may look inside
    }
    return built, before, records


@st.composite
def hostile(draw: st.DrawFn) -> tuple[str, bytes, bytes | None, list[tuple[str, bytes | None]]]:
    """A record of any topic: garbage, a tombstone, or a real event with some fields replaced."""
    topic = draw(st.sampled_from(sorted(BY_NAME)))
    headers = draw(st.just([]) | HEADERS)
    found = world()[2][topic]
    kind = draw(st.sampled_from(["mutated", "mutated", "mutated", "garbage"]))
    if not found or kind == "garbage":
        value = draw(st.none() | st.binary(max_size=50))
        return topic, draw(st.binary(max_size=20)), value, headers
    key, value = draw(st.sampled_from(found))
    document = msgspec.json.decode(value)
    for _ in range(draw(st.integers(0, 3))):
        _mutate(draw, document)
    if draw(st.booleans()):
        key = draw(st.sampled_from([b"payments", b"cluster", b"\xff"]) | st.binary(max_size=20))
    return topic, key, msgspec.json.encode(document), headers


def _mutate(draw: st.DrawFn, document: dict[str, Any]) -> None:
    """Replace a field, or an entry of a column."""
    name = draw(st.sampled_from(sorted(document)))
    column = document[name]
    if isinstance(column, list) and column and draw(st.booleans()):
        column[draw(st.integers(0, len(column) - 1))] = draw(SCALARS)
    else:
        document[name] = draw(DOCUMENTS)


def problem(topic: str, key: bytes, value: bytes | None, headers: Any) -> str:
    """What is wrong with a record by itself; empty if it is an event."""
    try:
        EventReader().read(Delivery(topic, 0, 0, key, value, headers, 0.0))
    except Malformed as error:
        return error.kind
    return ""


def readers(system: MemorySystem, topic: str) -> list[str]:
    return [
        name
        for name, process in system.bus._processes.items()
        if topic in process.committed or topic in process._reference
    ]


def put(system: MemorySystem, records: list[Any]) -> list[tuple[str, str, int, str]]:
    """Write records; the dead letters to expect: service, topic, offset and error."""
    expected = []
    for topic, key, value, headers in records:
        offset, error = system.bus._topics[topic].end, problem(topic, key, value, headers)
        if error:
            expected += [(name, topic, offset, error) for name in readers(system, topic)]
        system.bus.put(topic, key, value, tuple(headers))
    system.bus.run()
    return expected


def letters(system: MemorySystem) -> list[tuple[str, str, int, str]]:
    """What services rejected; the topic itself may hold hostile records, too."""
    topic = topic_of(Rejected).name
    found = [
        event
        for one in system.bus._topics[topic]
        if (dict(one.headers).get("ce_source") or b"").startswith(b"/hirl/")
        and isinstance(event := decode(topic, one.value, one.headers), Rejected)
    ]
    return [(one.service, one.topic, one.offset, one.error) for one in found]


def started() -> tuple[MemorySystem, Iterator[int]]:
    """A system after its first tick."""
    built, before, _ = world()
    built.restore(before)
    system = MemorySystem(built)
    ticks = system.ticks()
    next(ticks)
    return system, ticks


def saved(system: MemorySystem) -> dict[str, Any]:
    """States by service; not what it notes about rejected records."""
    return {
        name: {key: data for key, data in process.saved.items() if not key.startswith("!")}
        for name, process in system.bus._processes.items()
    }


HOSTILE = settings(
    deadline=None,
    max_examples=20,
    suppress_health_check=list(HealthCheck),
    # Shrinking runs the whole system each time.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)


@given(st.lists(hostile(), min_size=1, max_size=12))
@HOSTILE
def test_what_cannot_be_decoded_is_one_dead_letter_of_its_kind_for_each_reader(
    records: list[Any],
) -> None:
    system, _ = started()
    expected = put(system, records)
    found = [one for one in letters(system) if one in set(expected)]
    assert sorted(found) == sorted(expected)
    # Everything else that was rejected could be decoded and made no sense. Only the readers of
    # orders know what the key of a tombstone has to name.
    kinds, orders = set(get_args(Kind)), (topic_of(OverrideIssued).name, "wrong-key")
    others = [one for one in letters(system) if one not in set(expected)]
    assert [one for one in others if one[3] in kinds and (one[1], one[3]) != orders] == []
    assert all(process.engine is not None for process in system.bus._processes.values())


@cache
def undisturbed() -> tuple[list[ScalePlanned], list[ScaleApplied]]:
    """Plans and outcomes of the second tick without any hostile record."""
    system, ticks = started()
    next(ticks)
    return system.bus.events(ScalePlanned), system.bus.events(ScaleApplied)


@given(st.lists(hostile().filter(lambda record: problem(*record) != ""), min_size=1, max_size=12))
@HOSTILE
def test_after_a_hostile_record_states_and_the_next_decision_are_unchanged(
    records: list[Any],
) -> None:
    system, ticks = started()
    before = saved(system)
    put(system, records)
    assert saved(system) == before
    next(ticks)
    decided = (system.bus.events(ScalePlanned), system.bus.events(ScaleApplied))
    assert decided == undisturbed()


def test_texts_that_no_audit_could_repeat_are_a_dead_letter_and_cost_no_state() -> None:
    # An actuator that loses its state forgets what it took away in this minute.
    system, ticks = started()
    next(ticks)
    (plan,) = [one for one in system.bus.events(ScalePlanned) if one.domain == DOMAIN][-1:]
    long = "x" * 300_000
    forged = msgspec.structs.replace(plan, tick=2, decision_id=long, trace_id=long)
    before = saved(system)
    system.bus.put(topic_of(plan).name, DOMAIN.encode(), msgspec.json.encode(forged))
    system.bus.run()
    assert [one[3] for one in letters(system)] == ["schema"] * 2  # of Commander and actuator
    assert saved(system) == before
    next(ticks)
