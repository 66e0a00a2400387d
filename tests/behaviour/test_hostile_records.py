"""Random records on every topic stop no service of the whole system, and the loop goes on."""

from functools import cache
from itertools import islice
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.sim.world import World
from schemas.topics import BY_NAME
from services.devcluster.memory import MemorySystem
from services.simcluster.app import world_of
from services.simcluster.settings import Settings

APPS = 10
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


@given(st.lists(hostile(), min_size=1, max_size=12))
@settings(deadline=None, max_examples=50, suppress_health_check=list(HealthCheck))
def test_no_record_stops_a_service(records: list[Any]) -> None:
    built, before, _ = world()
    built.restore(before)
    system = MemorySystem(built)
    ticks = system.ticks()
    next(ticks)
    for topic, key, value, headers in records:
        system.bus.put(topic, key, value, tuple(headers))
    system.bus.run()
