"""FULL_TRANSITIVE: readers of any release can read current data, current readers all old data.

Compatibility in both directions allows only new fields with a default, and changed descriptions. A
narrower range rejects old data and a wider one is rejected by old readers, so any change to the
accepted values is a breaking change.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from schemas.generate import FOLDER, Document, json_schema
from schemas.topics import TOPICS

_WORDS: Final = {"title", "description", "$comment", "examples", "$schema", "$id", "$defs"}
"""Keywords that are documentation only, or are resolved by reference."""
_WALKED: Final = {"properties", "required", "items", "additionalProperties", "anyOf", "$ref"}


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A change that breaks readers or data of a release."""

    release: str
    topic: str
    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.topic}: {self.path}: {self.problem} (since {self.release})"


def breaking_changes(folder: Path = FOLDER) -> list[Change]:
    """Breaking changes between any release and the current schemas."""
    current = {topic.name: json_schema(topic) for topic in TOPICS}
    return [
        change
        for version, schemas in released(folder).items()
        for change in compare_all(version, schemas, current)
    ]


def released(folder: Path = FOLDER) -> dict[str, dict[str, Document]]:
    """The schemas of every release, by version and topic."""
    return {
        version.name: {
            file.stem: json.loads(file.read_text()) for file in sorted(version.glob("*.json"))
        }
        for version in sorted((folder / "released").glob("*"))
        if version.is_dir()
    }


def compare_all(
    release: str, old: Mapping[str, Document], new: Mapping[str, Document]
) -> Iterator[Change]:
    """Compare the topics of a release with the current ones; a new topic is compatible."""
    for topic, schema in old.items():
        if topic not in new:
            yield Change(release=release, topic=topic, path="$", problem="the topic was removed")
            continue
        for path, problem in compare(schema, new[topic]):
            yield Change(release=release, topic=topic, path=path, problem=problem)


def compare(old: Document, new: Document) -> Iterator[tuple[str, str]]:
    """Path and problem of each breaking change from one schema of an event to another."""
    # Inline all references first: renaming a definition changes no data.
    yield from _compare(_resolved(old, old), _resolved(new, new), "$")


def _compare(old: Document, new: Document, path: str) -> Iterator[tuple[str, str]]:
    # Any other keyword counts, unknown ones included: doubt resolves to "breaking".
    for keyword in sorted((old.keys() | new.keys()) - _WALKED - _WORDS):
        if old.get(keyword) != new.get(keyword):
            was, now = _shown(old, keyword), _shown(new, keyword)
            yield path, f"`{keyword}` was {was}, is {now}"
    yield from _compare_fields(old, new, path)
    for keyword, mark in (("items", "[]"), ("additionalProperties", ".*")):
        yield from _compare_inner(old.get(keyword), new.get(keyword), path + mark)
    yield from _compare_alternatives(old.get("anyOf", []), new.get("anyOf", []), path)


def _compare_fields(old: Document, new: Document, path: str) -> Iterator[tuple[str, str]]:
    before, after = old.get("properties", {}), new.get("properties", {})
    needed_before, needed_after = set(old.get("required", ())), set(new.get("required", ()))
    for name in before:
        if name not in after:
            # Even if it has a default: its readers would silently get the default for ever.
            yield f"{path}.{name}", "the field was removed; keep it and mark it as deprecated"
            continue
        if name in needed_before - needed_after:
            yield f"{path}.{name}", "was required, is optional: old readers need it"
        if name in needed_after - needed_before:
            yield f"{path}.{name}", "was optional, is required: old data may lack it"
        yield from _compare(before[name], after[name], f"{path}.{name}")
    # A new field with a default is fine in both directions: readers ignore or fill it in.
    for name in after:
        if name not in before and name in needed_after:
            yield f"{path}.{name}", "the new field is required: old data lacks it"


def _compare_inner(old: Any, new: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _compare(old, new, path)
    elif old != new:
        yield path, f"was {_brief(old)}, is {_brief(new)}"


def _compare_alternatives(
    old: list[Document], new: list[Document], path: str
) -> Iterator[tuple[str, str]]:
    # By type, because their order has no meaning.
    before, after = _by_type(old), _by_type(new)
    if before.keys() != after.keys():
        yield path, f"was one of {sorted(before)}, is one of {sorted(after)}"
        return
    for name, alternative in before.items():
        yield from _compare(alternative, after[name], path)


def _by_type(alternatives: list[Document]) -> dict[str, Document]:
    return {str(schema.get("type", "enum")): schema for schema in alternatives}


def _resolved(schema: Any, root: Document) -> Any:
    """Replace references by their definitions; keywords beside a reference take precedence."""
    if isinstance(schema, list):
        return [_resolved(entry, root) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref", "")
    definition = root["$defs"][reference.rpartition("/")[2]] if reference else {}
    together = {**definition, **schema}
    return {name: _resolved(value, root) for name, value in together.items() if name != "$defs"}


def _shown(schema: Document, keyword: str) -> str:
    return _brief(schema[keyword]) if keyword in schema else "absent"


def _brief(value: Any) -> str:
    return f"{json.dumps(value):.120}"
