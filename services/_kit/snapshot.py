"""What a service remembers, as bytes and back: plain values and arrays, bit for bit."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from services._kit.handler import Refused

_ARRAY = 1
"""Code of the msgpack extension that holds an array."""
T = TypeVar("T", bound=tuple[Any, ...])


def pack(values: Mapping[str, Any]) -> bytes:
    """Plain values, structs and arrays under names."""
    return _ENCODER.encode(values)


def unpack(data: bytes) -> dict[str, Any]:
    """The reverse; arrays are writeable copies."""
    found: dict[str, Any] = _DECODER.decode(data)
    return found


def flatten(state: tuple[Any, ...], prefix: str = "") -> dict[str, NDArray[Any]]:
    """A named tuple of arrays, and of such tuples, by dotted names."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, value in zip(_names(state), state, strict=True):
        if isinstance(value, tuple):
            arrays |= flatten(value, f"{prefix}{name}.")
        else:
            arrays[prefix + name] = value
    return arrays


def rebuild(like: T, arrays: Mapping[str, NDArray[Any]], whole: frozenset[str] = frozenset()) -> T:
    """The reverse, in the form of `like`, for any number of apps; Refused if the form is another.

    Arrays whose dotted name is in `whole` have no axis of apps; that of all others is the last.
    """
    for name, expected in flatten(like).items():
        _check(name, arrays.get(name), expected, has_apps=name not in whole)
    return _unflatten(like, arrays)


def _check(name: str, found: Any, expected: NDArray[Any], *, has_apps: bool) -> None:
    """A state of other models or of another cluster would be used without complaint."""
    form, got = _form(expected, has_apps=has_apps), _form(found, has_apps=has_apps)
    if got != form:
        raise Refused("form", f"`{name}`: expected {form}, got {got}")


def _form(value: Any, *, has_apps: bool) -> str:
    """Type and shape, whatever the number of apps."""
    if not isinstance(value, np.ndarray):
        return type(value).__name__
    shape: tuple[int | str, ...] = value.shape
    return f"{value.dtype} {(*shape[:-1], 'apps') if has_apps and shape else shape}"


def _unflatten(like: T, arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> T:
    values = [
        _unflatten(value, arrays, f"{prefix}{name}.")
        if isinstance(value, tuple)
        else arrays[prefix + name]
        for name, value in zip(_names(like), like, strict=True)
    ]
    return type(like)(*values)


def refit(state: T, start: T, old: Sequence[str], new: Sequence[str], whole: frozenset[str]) -> T:
    """A state for other apps: those that stay keep what is remembered, others begin as `start`.

    Arrays whose dotted name is in `whole` have no axis of apps.
    """
    before, fresh = flatten(state), flatten(start)
    moved = {
        name: array if name in whole else fit_apps(array, old, new, fresh[name])
        for name, array in before.items()
    }
    return _unflatten(start, moved)


def _names(state: tuple[Any, ...]) -> tuple[str, ...]:
    names: tuple[str, ...] = getattr(state, "_fields")  # noqa: B009  of a named tuple
    return names


def fit_apps(
    array: NDArray[Any], old: Sequence[str], new: Sequence[str], start: NDArray[Any]
) -> NDArray[Any]:
    """Move columns of the last axis to where their apps are now; `start` is for those that came."""
    if tuple(old) == tuple(new):
        return array
    fitted = start.copy()
    was = {name: place for place, name in enumerate(old)}
    for place, name in enumerate(new):
        if name in was:
            fitted[..., place] = array[..., was[name]]
    return fitted


def _encode_array(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        body = (value.dtype.str, value.shape, np.ascontiguousarray(value).tobytes())
        return msgspec.msgpack.Ext(_ARRAY, msgspec.msgpack.encode(body))
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(f"expected plain values or arrays, got {type(value).__name__}")


def _decode_array(code: int, data: memoryview) -> Any:
    if code != _ARRAY:
        raise ValueError(f"expected extension {_ARRAY}, got {code}")
    dtype, shape, body = msgspec.msgpack.decode(data, type=tuple[str, tuple[int, ...], bytes])
    return np.frombuffer(body, np.dtype(dtype)).reshape(shape).copy()


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_encode_array)
_DECODER = msgspec.msgpack.Decoder(ext_hook=_decode_array)
