"""Read a YAML file into a typed struct, with one precise line for whatever is wrong."""

import math
from collections.abc import Hashable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from models.inputs.errors import input_error
from models.inputs.explain import explain

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
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise input_error(file, place, f"not valid YAML: {error.problem}") from None
    # A date that does not exist is a ValueError, endless nesting a RecursionError.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise input_error(file, "", f"not valid YAML: {str(error).splitlines()[0]}") from None


def decode(value: Any, kind: type[T], file: Path) -> T:
    """Convert a plain value; what does not fit is said in words of the file."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        path, expected = explain(error, value, kind)
        raise input_error(file, path, expected) from None


class _StrictLoader(yaml.SafeLoader):
    """Plain data only. Of two equal keys YAML would silently drop one; here that is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        problem=f"the key {key.value} stands twice", problem_mark=key.start_mark
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
