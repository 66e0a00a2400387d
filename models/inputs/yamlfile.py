"""Read a YAML file into a typed struct, with one precise line for whatever is wrong.

msgspec's validation errors name the location and the type, but neither the choices of an
enumeration nor the value it found. Both follow from the location: one by walking the type, one by
walking the value.
"""

import copy
import math
import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import yaml
from msgspec import inspect

from models.inputs.errors import closest, input_error

T = TypeVar("T")


def load(file: Path, kind: type[T]) -> T:
    """Decode `file` as `kind`; raise InputError naming file, path and expectation."""
    return decode(read(file), kind, file)


def read(file: Path) -> Any:
    """The plain YAML value of `file`."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise input_error(file, "", f"cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise input_error(file, "", "expected UTF-8 text") from None
    try:
        return yaml.load(text, _StrictLoader)  # noqa: S506  (a SafeLoader, only stricter)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        location = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise input_error(file, location, f"not valid YAML: {error.problem}") from None
    # A date that does not exist is a ValueError, endless nesting a RecursionError.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise input_error(file, "", f"not valid YAML: {str(error).splitlines()[0]}") from None


def decode(value: Any, kind: type[T], file: Path) -> T:
    """Convert a plain value; an error message uses the words of the file."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        path, expected = explain(error, value, kind)
        raise input_error(file, path, expected) from None


class _StrictLoader(yaml.SafeLoader):
    """Plain data only. YAML drops one of two equal keys silently; here that is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        problem=f"duplicate key {key.value}", problem_mark=key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _finite_float(loader: _StrictLoader, node: yaml.ScalarNode) -> float:
    number = loader.construct_yaml_float(node)
    if not math.isfinite(number):
        # Infinity would pass every "greater than" and only fail deep inside the arithmetic.
        raise yaml.constructor.ConstructorError(
            problem=f"expected a finite number, got {node.value}", problem_mark=node.start_mark
        )
    return number


_StrictLoader.add_constructor("tag:yaml.org,2002:float", _finite_float)


_WORDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "null": "nothing",
    "object": "a mapping",
    "str": "text",
}
_LONGEST_SHOWN = 40
_Step = Hashable
_SOME_KEY = "..."
"""msgspec's step into a mapping's values; it does not name the key."""
_UNSEEN = object()
"""Marks a value that the path does not reach."""


def explain(error: msgspec.ValidationError, value: Any, kind: type) -> tuple[str, str]:
    """The path in the file and what was expected there, for an error of converting `value`."""
    # msgspec offers its errors as text only: "Expected `int`, got `str` - at `$.pools[0].name`".
    message, _, location = str(error).rpartition(" - at ")
    if not message:
        message, location = location, ""
    steps = _steps(location)
    # From the outside in: a key that was found is part of the path to the next one.
    for index in [index for index, step in enumerate(steps) if step == _SOME_KEY]:
        steps[index] = _failing_key(str(error), value, kind, steps[:index])
    # msgspec marks an error in a mapping key with `key`; then the value at the path is fine.
    in_key = location.startswith("`key`")
    expected = _expected_type(inspect.type_info(kind), steps, in_key=in_key)
    found = _UNSEEN if in_key else _at(value, steps)
    return _path(steps), _sentence(message, expected, found, in_key=in_key)


def _steps(location: str) -> list[_Step]:
    """`$.domains[2].slo` as the steps domains, 2, slo."""
    pairs = re.findall(r"\.([^.\[`]+)|\[([^\]]+)\]", location)
    return [int(index) if index.isdigit() else name or index for name, index in pairs]


def _path(steps: list[_Step]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.removeprefix(".")


def _at(value: Any, steps: list[_Step]) -> Any:
    try:
        for step in steps:
            value = value[step]
    except (IndexError, KeyError, TypeError):
        return _UNSEEN
    return value


def _failing_key(message: str, value: Any, kind: type, steps: list[_Step]) -> Hashable:
    """The key whose value is invalid: alone in the mapping it causes the same error."""
    for key in _at(value, steps):
        # msgspec does not name the key, so try each alone and look for the same message.
        trial = copy.deepcopy(value)
        mapping = _at(trial, steps)
        for other in [other for other in mapping if other != key]:
            del mapping[other]
        try:
            msgspec.convert(trial, kind)
        except msgspec.ValidationError as error:
            if str(error) == message:
                return cast(Hashable, key)
    return _SOME_KEY


def _expected_type(
    expected: inspect.Type, steps: list[_Step], *, in_key: bool
) -> inspect.Type | None:
    """The type declared at the location; None if unknown."""
    for step in steps:
        found = next(filter(None, (_inside(each, step) for each in _alternatives(expected))), None)
        if found is None:
            return None
        expected = found
    if in_key:
        return expected.key_type if isinstance(expected, inspect.DictType) else None
    return expected


def _alternatives(expected: inspect.Type) -> tuple[inspect.Type, ...]:
    return expected.types if isinstance(expected, inspect.UnionType) else (expected,)


def _inside(expected: inspect.Type, step: _Step) -> inspect.Type | None:
    match expected:
        case inspect.StructType():
            return next((f.type for f in expected.fields if f.encode_name == step), None)
        case inspect.DictType():
            return expected.value_type
        case inspect.ListType() | inspect.VarTupleType():
            return expected.item_type
        case inspect.TupleType():
            return expected.item_types[step] if isinstance(step, int) else None
        case _:
            return None


def _sentence(message: str, expected: inspect.Type | None, found: Any, *, in_key: bool) -> str:
    if lost := re.fullmatch(r"Object missing required field `(.+)`", message):
        return f"expected the field {lost[1]}, which is missing"
    if unknown := re.fullmatch(r"Object contains unknown field `(.+)`", message):
        return _unknown_field(unknown[1], expected)
    subject = "keys: expected" if in_key else "expected"
    got = "" if found is _UNSEEN else f", got {_shown(found)}"
    if wrong := re.fullmatch(r"Invalid enum value (.+)", message):
        got = f", got {wrong[1]}"
    # msgspec does not list the choices; the type at the path does.
    choices = _choices(expected)
    if choices:
        return f"{subject} one of {', '.join(choices)}{got}"
    if not message.startswith("Expected "):
        # A check across fields; its message names the fields.
        return message
    rule = message.removeprefix("Expected ").split(", got ")[0]
    return f"{subject} {_in_words(rule)}{got}"


def _unknown_field(name: str, expected: inspect.Type | None) -> str:
    known = [
        field.encode_name
        for each in (_alternatives(expected) if expected else ())
        if isinstance(each, inspect.StructType)
        for field in each.fields
    ]
    close = closest(name, known)
    hint = f"did you mean {close}?" if close else f"expected one of {', '.join(known)}"
    return f"unknown field {name}, {hint}"


def _choices(expected: inspect.Type | None) -> list[str]:
    if isinstance(expected, inspect.LiteralType):
        return [str(value) for value in expected.values]
    if isinstance(expected, inspect.EnumType):
        return [str(member.value) for member in expected.cls]
    return []


def _in_words(rule: str) -> str:
    """The rule `float` >= 0.0 as: a number >= 0."""
    text = re.sub(r"`([^`]+)`", lambda kind: _kinds_in_words(kind[1]), rule)
    return re.sub(r"\b(\d+)\.0\b", r"\1", text)


def _kinds_in_words(kinds: str) -> str:
    return " or ".join(_WORDS.get(kind, kind) for kind in kinds.split(" | "))


def _shown(found: Any) -> str:
    if isinstance(found, str):
        return repr(found if len(found) <= _LONGEST_SHOWN else found[:_LONGEST_SHOWN] + "...")
    if isinstance(found, list | dict):
        kind = "list" if isinstance(found, list) else "mapping"
        return f"a {kind}" if found else f"an empty {kind}"
    if found is None:
        return "nothing"
    # As YAML spells it: true, not True.
    return str(found).lower() if isinstance(found, bool) else str(found)
