"""As much of a JSON Schema validator as the generated schemas need; other keywords are errors."""

import re
from collections.abc import Callable, Iterator
from typing import Any

Schema = dict[str, Any]

NUMBERS = (int, float)
TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": NUMBERS,
}
CHECKS: dict[str, tuple[Any, Callable[[Any, Any], bool]]] = {
    "enum": (object, lambda value, allowed: value in allowed),
    "minimum": (NUMBERS, lambda value, least: value >= least),
    "maximum": (NUMBERS, lambda value, most: value <= most),
    "minLength": (str, lambda value, least: len(value) >= least),
    "maxLength": (str, lambda value, most: len(value) <= most),
    "minItems": (list, lambda value, least: len(value) >= least),
    "pattern": (str, lambda value, regex: re.search(regex, value) is not None),
    "required": (dict, lambda value, names: all(name in value for name in names)),
}
"""To what a keyword applies, and what it asks of that."""
ELSEWHERE = {"properties", "items", "additionalProperties", "$defs"}
WORDS = {"$schema", "$id", "title", "description", "default"}


def problems(value: Any, schema: Schema, root: Schema, path: str = "$") -> Iterator[str]:
    """Path and keyword of whatever a value does not fulfil."""
    for keyword, wanted in schema.items():
        if keyword in ELSEWHERE | WORDS or keyword.startswith("x-"):
            continue
        if not _holds(keyword, wanted, value, root):
            yield f"{path}: {keyword} {wanted}"
    yield from _inner(value, schema, root, path)


def _holds(keyword: str, wanted: Any, value: Any, root: Schema) -> bool:
    if keyword == "type":
        return _is(value, wanted)
    if keyword == "anyOf":
        return any(not list(problems(value, one, root)) for one in wanted)
    if keyword == "$ref":
        return not list(problems(value, _referred(wanted, root), root))
    if keyword == "propertyNames":
        return all(not list(problems(name, wanted, root)) for name in value)
    applies_to, check = CHECKS[keyword]
    return not isinstance(value, applies_to) or check(value, wanted)


def _inner(value: Any, schema: Schema, root: Schema, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for place, entry in enumerate(value):
            yield from problems(entry, schema.get("items", {}), root, f"{path}[{place}]")
    if isinstance(value, dict):
        others = schema.get("additionalProperties", {})
        for name, entry in value.items():
            inner = schema.get("properties", {}).get(name, others)
            yield from problems(entry, inner, root, f"{path}.{name}")


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, TYPES[kind])


def _referred(reference: str, root: Schema) -> Schema:
    definition: Schema = root["$defs"][reference.removeprefix("#/$defs/")]
    return definition
