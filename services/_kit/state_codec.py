"""Saving and loading of handler states, derived from the type of the state.

A state is a frozen dataclass. Its fields are plain values, events, arrays, named tuples of arrays,
or further frozen dataclasses. Arrays come back bit for bit, and equal states give equal bytes.
Fields annotated `Transient[...]` live in memory only and come back with their defaults.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from services._kit.errors import Refused

T = TypeVar("T")
Arrays = TypeVar("Arrays", bound=tuple[Any, ...])
"""A named tuple of arrays, or of such tuples."""

_TRANSIENT: Final = "transient"
Transient = Annotated[T, _TRANSIENT]
"""A field that is not saved: `waiting: Transient[Frame | None] = None`. It needs a default."""

_ARRAY_CODE: Final = 1
"""Code of the msgpack extension that holds an array."""


def encode(state: Any) -> bytes:
    """Bytes of all fields but the transient ones."""
    return _ENCODER.encode(_plain(state))


def decode(kind: type[T], data: bytes) -> T:
    """The reverse of `encode`; raises Refused where a field does not have its declared type."""
    try:
        state: T = _typed(kind, _DECODER.decode(data), "state")
    except msgspec.DecodeError as error:
        raise Refused("form", str(error)) from error
    return state


def parts_of(data: bytes) -> Any:
    """The saved fields of any state, for people: mappings, plain values and arrays."""
    return _DECODER.decode(data)


def check_form(found: Any, expected: Any, name: str = "state", apps: int | None = None) -> None:
    """Raise Refused unless arrays are shaped as in `expected`.

    An axis of length 0 in `expected` has the length `apps`, or any if that is None: in the start
    state of a key the axes of apps are empty. Parts that `expected` does not have (None) are not
    checked.
    """
    # Without this check, kernels would read the state of another cluster or release as their own.
    if isinstance(expected, np.ndarray):
        fits = found.ndim == expected.ndim and all(
            length == actual or (length == 0 and apps in (None, actual))
            for length, actual in zip(expected.shape, found.shape, strict=True)
        )
        if not fits:
            raise Refused("form", f"`{name}`: expected {_shape(expected)}, got {_shape(found)}")
    elif _has_parts(expected) and found is not None:
        for part in _saved_names(type(expected)):
            check_form(getattr(found, part), getattr(expected, part), part, apps)


def saved_alike(one: Any, other: Any) -> bool:
    """Whether two states share everything that is saved, so that saving again is pointless."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    # Handlers replace what they change and share the rest, so identity is enough.
    if is_dataclass(one):
        names = _saved_names(type(one))
        return all(saved_alike(getattr(one, name), getattr(other, name)) for name in names)
    # No deep comparison of containers: comparing frames costs more than saving them.
    return isinstance(one, int | float | str | NoneType) and one == other


# Named tuples of arrays.


def flatten(state: tuple[Any, ...], prefix: str = "") -> dict[str, NDArray[Any]]:
    """Arrays of a named tuple, and of the named tuples inside, by dotted name."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, value in zip(_field_names(state), state, strict=True):
        if isinstance(value, tuple):
            arrays |= flatten(value, f"{prefix}{name}.")
        else:
            arrays[prefix + name] = value
    return arrays


def copied(state: Arrays) -> Arrays:
    """A copy for kernels that update in place; arrays hold numbers, so it is deep."""
    parts = (copied(part) if isinstance(part, tuple) else part.copy() for part in state)
    return type(state)(*parts)


def refit(
    state: Arrays, fresh: Arrays, form: Arrays, old: Sequence[str], new: Sequence[str]
) -> Arrays:
    """Follow a changed inventory: apps that stay keep their columns, new ones come from `fresh`.

    `form` is the state of no apps: it shows which arrays have an axis of apps, always the last.
    """
    # Arrays without an axis of apps describe the whole domain: they stay.
    parts = []
    for part, start, empty in zip(state, fresh, form, strict=True):
        if isinstance(part, tuple):
            parts.append(refit(part, start, empty, old, new))
        else:
            has_apps = bool(empty.shape) and empty.shape[-1] == 0
            parts.append(fit_apps(part, start, old, new) if has_apps else part)
    return type(state)(*parts)


def fit_apps(
    array: NDArray[Any], fresh: NDArray[Any], old: Sequence[str], new: Sequence[str]
) -> NDArray[Any]:
    """Reorder the last axis from apps `old` to apps `new`; new apps get the columns of `fresh`."""
    if tuple(old) == tuple(new):
        return array
    fitted = fresh.copy()
    old_index = {name: index for index, name in enumerate(old)}
    for index, name in enumerate(new):
        if name in old_index:
            fitted[..., index] = array[..., old_index[name]]
    return fitted


# Types.


def _plain(value: Any) -> Any:
    if not _has_parts(value):
        return value
    return {name: _plain(getattr(value, name)) for name in _saved_names(type(value))}


def _typed(kind: Any, value: Any, name: str) -> Any:
    """Rebuild what `_plain` took apart; `name` is for the error message."""
    origin = get_origin(kind) or kind
    if origin in (Union, UnionType):
        return _typed_optional(kind, value, name)
    if origin is np.ndarray:
        return _checked_array(kind, value, name)
    if not _is_composite(origin):
        return msgspec.convert(value, kind)
    if not isinstance(value, Mapping):
        raise Refused("form", f"`{name}`: expected {origin.__name__}, got {type(value).__name__}")
    hints, parts = _hints(origin), {}
    for part in _saved_names(origin):
        if part in value:
            parts[part] = _typed(hints[part], value[part], part)
        elif part not in _defaults(origin):
            raise Refused("form", f"`{part}`: expected in {origin.__name__}, got nothing")
        # A field with a default may be newer than the saved state. Refusing that would restart
        # every key after an upgrade: an open breaker would close.
    return origin(**parts)


def _typed_optional(kind: Any, value: Any, name: str) -> Any:
    options = [option for option in get_args(kind) if option is not NoneType]
    if len(options) > 1:
        # msgspec tells these types apart; only `X | None` may hold arrays.
        return msgspec.convert(value, kind)
    return None if value is None else _typed(options[0], value, name)


def _checked_array(kind: Any, value: Any, name: str) -> NDArray[Any]:
    _, dtype = get_args(kind)
    expected = np.dtype(get_args(dtype)[0])
    if not isinstance(value, np.ndarray) or value.dtype != expected:
        got = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
        raise Refused("form", f"`{name}`: expected {expected}, got {got}")
    return value


def _has_parts(value: Any) -> bool:
    return _is_composite(type(value))


def _is_composite(kind: Any) -> bool:
    named_tuple = isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")
    return is_dataclass(kind) or named_tuple


@cache
def _defaults(kind: Any) -> frozenset[str]:
    """Names of the fields that have a default."""
    if not is_dataclass(kind):
        return frozenset(kind._field_defaults)
    return frozenset(
        field.name
        for field in fields(kind)
        if field.default is not MISSING or field.default_factory is not MISSING
    )


def _saved_names(kind: Any) -> tuple[str, ...]:
    # Not `@cache` itself: mypy does not accept the type of a value as hashable.
    return _cached_names(kind)


@cache
def _cached_names(kind: Any) -> tuple[str, ...]:
    if not is_dataclass(kind):
        names: tuple[str, ...] = kind._fields
        return names
    hints = get_type_hints(kind, include_extras=True)
    transient = {name for name, hint in hints.items() if _TRANSIENT in get_args(hint)[1:]}
    return tuple(field.name for field in fields(kind) if field.name not in transient)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _field_names(state: tuple[Any, ...]) -> tuple[str, ...]:
    names: tuple[str, ...] = getattr(state, "_fields")  # noqa: B009  of a named tuple
    return names


def _shape(array: NDArray[Any]) -> str:
    return str(tuple("any" if length == 0 else length for length in array.shape))


# Bytes.


def _encode_array(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        body = (value.dtype.str, value.shape, _shuffled(value))
        return msgspec.msgpack.Ext(_ARRAY_CODE, msgspec.msgpack.encode(body))
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(f"expected plain values or arrays, got {type(value).__name__}")


def _decode_array(code: int, data: memoryview) -> Any:
    if code != _ARRAY_CODE:
        raise Refused("form", f"expected extension {_ARRAY_CODE}, got {code}")
    name, shape, body = msgspec.msgpack.decode(data, type=tuple[str, tuple[int, ...], bytes])
    dtype = np.dtype(name)
    planes = np.frombuffer(body, np.uint8).reshape(dtype.itemsize, -1)
    # A copy: arrays of one byte would be views of the read-only record.
    return planes.T.copy().view(dtype).reshape(shape)


def _shuffled(array: NDArray[Any]) -> bytes:
    """Bytes grouped by significance: a sixth smaller than in memory order, once deflated."""
    by_number = np.ascontiguousarray(array).view(np.uint8).reshape(-1, array.dtype.itemsize)
    return by_number.T.tobytes()


# Sorted keys: equal mappings give equal bytes, however they were filled.
_ENCODER: Final = msgspec.msgpack.Encoder(enc_hook=_encode_array, order="deterministic")
_DECODER: Final = msgspec.msgpack.Decoder(ext_hook=_decode_array)
