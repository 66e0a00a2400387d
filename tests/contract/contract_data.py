"""Events of every kind for the contract tests: golden ones, and any that the schemas allow."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect as types

from schemas.cloudevents import STRUCTURED_TYPE
from schemas.codec import Record
from schemas.columns import RULES
from schemas.fields import Event
from schemas.generate import FOLDER
from schemas.topics import TOPICS, Topic

EXAMPLES = sorted((FOLDER / "examples").glob("*.json"))
MOST_PLACES = 4
IN_PARTS = [topic for topic in TOPICS if "part" in topic.event.__struct_fields__]


def topic_of_example(file: Path) -> str:
    """The first part of a file's name; what follows says what the example shows."""
    stem, version, _ = file.name.partition(".v1")
    return stem + version


def structured(record: Record) -> tuple[bytes, tuple[tuple[str, bytes], ...]]:
    """A record as a producer in structured mode would send it: value and headers."""
    attributes = {
        name.removeprefix("ce_"): text.decode()
        for name, text in record.headers
        if name.startswith("ce_")
    }
    body = {**attributes, "datacontenttype": "application/json", "data": msgspec.Raw(record.value)}
    return msgspec.json.encode(body), (("content-type", STRUCTURED_TYPE.encode()),)


def events(topics: Sequence[Topic] = TOPICS) -> st.SearchStrategy[Event]:
    """Any event of these topics, with columns of equal length."""
    return st.sampled_from(topics).flatmap(events_of)


@st.composite
def events_of(draw: st.DrawFn, topic: Topic) -> Event:
    """Any event of a topic."""
    sizes = _sizes(draw, topic.event)
    info = types.type_info(topic.event)
    assert isinstance(info, types.StructType)
    values = {
        field.encode_name: draw(_values(field.type, sizes.get(field.name, [])))
        for field in info.fields
        # Whole events: parts are cut from them.
        if field.name != "part"
    }
    return msgspec.convert(values, topic.event)


def _sizes(draw: st.DrawFn, event: type[Event]) -> dict[str, list[int]]:
    """How long the lists of a column are, from the outer to the inner ones."""
    sizes: dict[str, dict[int, int]] = {}
    for rule in RULES.get(event, ()):
        places = draw(st.integers(0, MOST_PLACES))
        for name, depth in _depths(rule.leader, rule.required, rule.nested):
            sizes.setdefault(name, {})[depth] = places
        for name in rule.optional:
            given = draw(st.booleans())
            sizes.setdefault(name, {})[0] = places if given else 0
    return {name: [size for _, size in sorted(depths.items())] for name, depths in sizes.items()}


def _depths(
    leader: str, whole: tuple[str, ...], nested: tuple[tuple[str, int], ...]
) -> Iterator[tuple[str, int]]:
    yield from ((name, 0) for name in (leader, *whole))
    yield from nested


def _values(kind: types.Type, sizes: list[int]) -> st.SearchStrategy[Any]:
    if isinstance(kind, types.Metadata):
        return _values(kind.type, sizes)
    if isinstance(kind, types.UnionType):
        return st.one_of([_values(inner, sizes) for inner in kind.types])
    simple = _simple(kind)
    return _containers(kind, sizes) if simple is None else simple


def _simple(kind: types.Type) -> st.SearchStrategy[Any] | None:
    found: st.SearchStrategy[Any] | None = None
    match kind:
        case types.BoolType():
            found = st.booleans()
        case types.NoneType():
            found = st.none()
        case types.IntType():
            found = st.integers(kind.ge, kind.le)
        case types.FloatType():
            found = st.floats(kind.ge, kind.le, allow_nan=False, allow_infinity=False)
        case types.StrType():
            found = _texts(kind)
        case types.LiteralType():
            found = st.sampled_from(list(kind.values))
    return found


def _texts(kind: types.StrType) -> st.SearchStrategy[str]:
    if kind.pattern is None:
        return st.text(max_size=8)
    if "T" in kind.pattern:
        return st.datetimes().map(lambda time: f"{time.isoformat()}Z")
    return st.text("abcXYZ019", min_size=1, max_size=6)


def _containers(kind: types.Type, sizes: list[int]) -> st.SearchStrategy[Any]:
    if isinstance(kind, types.ListType):
        least, most = (sizes[0], sizes[0]) if sizes else (kind.min_length or 0, 3)
        return st.lists(_values(kind.item_type, sizes[1:]), min_size=least, max_size=most)
    if isinstance(kind, types.DictType):
        names, inner = _values(kind.key_type, []), _values(kind.value_type, sizes)
        return st.dictionaries(names, inner, max_size=2)
    assert isinstance(kind, types.StructType), kind
    return st.fixed_dictionaries(
        {field.encode_name: _values(field.type, sizes) for field in kind.fields}
    )
