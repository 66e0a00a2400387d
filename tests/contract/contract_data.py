"""Example events and strategies for the contract tests."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec import inspect as types

from schemas.cloudevents import STRUCTURED_TYPE
from schemas.codec import Record
from schemas.columns import RULES
from schemas.fields import Event
from schemas.generate import FOLDER
from schemas.topics import TOPICS, Topic

Schema = dict[str, Any]

EXAMPLES = sorted((FOLDER / "examples").glob("*.json"))
MOST_ENTRIES = 4
IN_PARTS = [topic for topic in TOPICS if "part" in topic.event.__struct_fields__]


def topic_of_example(file: Path) -> str:
    """`hirl.budget-granted.v1` of `hirl.budget-granted.v1.what-it-shows.json`."""
    stem, version, _ = file.name.partition(".v1")
    return stem + version


def structured(record: Record) -> tuple[bytes, tuple[tuple[str, bytes], ...]]:
    """Value and headers of a record in structured mode."""
    attributes = {
        name.removeprefix("ce_"): text.decode()
        for name, text in record.headers
        if name.startswith("ce_")
    }
    body = {**attributes, "datacontenttype": "application/json", "data": msgspec.Raw(record.value)}
    return msgspec.json.encode(body), (("content-type", STRUCTURED_TYPE.encode()),)


def schema_errors(value: Any, schema: Schema) -> list[str]:
    """Path and message of each violation of a JSON Schema."""
    found = Draft202012Validator(schema).iter_errors(value)
    return [f"{error.json_path}: {error.message}" for error in found]


def events(topics: Sequence[Topic] = TOPICS) -> st.SearchStrategy[Event]:
    """Any valid event of these topics."""
    return st.sampled_from(topics).flatmap(events_of)


@st.composite
def events_of(draw: st.DrawFn, topic: Topic) -> Event:
    """Any valid event of a topic, with columns of equal length."""
    sizes = _sizes(draw, topic.event)
    info = types.type_info(topic.event)
    assert isinstance(info, types.StructType)
    unique = {rule.leader for rule in RULES.get(topic.event, ()) if not rule.repeats}
    values = {
        field.encode_name: draw(
            _values(field.type, sizes.get(field.name, []), unique=field.name in unique)
        )
        for field in info.fields
        # Tests split whole events into parts themselves.
        if field.name != "part"
    }
    return msgspec.convert(values, topic.event)


def _sizes(draw: st.DrawFn, event: type[Event]) -> dict[str, list[int]]:
    """Lengths of the nested lists of each column, outermost first."""
    sizes: dict[str, dict[int, int]] = {}
    # Columns of one rule have one length; several rules give the lengths of nested lists.
    for rule in RULES.get(event, ()):
        entries = draw(st.integers(0, MOST_ENTRIES))
        for name, depth in _depths(rule.leader, rule.required, rule.nested):
            sizes.setdefault(name, {})[depth] = entries
        for name in rule.optional:
            given = draw(st.booleans())
            sizes.setdefault(name, {})[0] = entries if given else 0
    return {name: [size for _, size in sorted(depths.items())] for name, depths in sizes.items()}


def _depths(
    leader: str, required: tuple[str, ...], nested: tuple[tuple[str, int], ...]
) -> Iterator[tuple[str, int]]:
    yield from ((name, 0) for name in (leader, *required))
    yield from nested


def _values(kind: types.Type, sizes: list[int], *, unique: bool = False) -> st.SearchStrategy[Any]:
    if isinstance(kind, types.Metadata):
        return _values(kind.type, sizes, unique=unique)
    if isinstance(kind, types.UnionType):
        return st.one_of([_values(inner, sizes) for inner in kind.types])
    simple = _simple(kind)
    return _containers(kind, sizes, unique=unique) if simple is None else simple


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
    # Only the pattern of times contains a T.
    if "T" in kind.pattern:
        return st.datetimes().map(lambda time: f"{time.isoformat()}Z")
    return st.text("abcXYZ019", min_size=1, max_size=6)


def _containers(
    kind: types.Type, sizes: list[int], *, unique: bool = False
) -> st.SearchStrategy[Any]:
    if isinstance(kind, types.ListType):
        least, most = (sizes[0], sizes[0]) if sizes else (kind.min_length or 0, 3)
        items = _values(kind.item_type, sizes[1:])
        return st.lists(items, min_size=least, max_size=most, unique=unique)
    if isinstance(kind, types.DictType):
        names, inner = _values(kind.key_type, []), _values(kind.value_type, sizes)
        return st.dictionaries(names, inner, max_size=2)
    assert isinstance(kind, types.StructType), kind
    return st.fixed_dictionaries(
        {field.encode_name: _values(field.type, sizes) for field in kind.fields}
    )
