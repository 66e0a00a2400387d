from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from services._kit.errors import Refused
from services._kit.state_codec import (
    Transient,
    check_form,
    copied,
    decode,
    encode,
    flatten,
    refit,
    saved_alike,
)


class Inner(NamedTuple):
    by_app: NDArray[np.float32]
    whole: NDArray[np.int32]


class Arrays(NamedTuple):
    inner: Inner
    more: NDArray[np.float64]


class Event(msgspec.Struct, frozen=True):
    tick: int
    note: str = ""


@dataclass(frozen=True)
class Nested:
    closed: int = -1
    waiting: Transient[Mapping[int, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    arrays: Arrays
    nested: Nested = Nested()
    last: Event | None = None
    by_name: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    since: Transient[float | None] = None


def arrays(apps: int, value: float) -> Arrays:
    by_app = np.arange(apps, dtype=np.float32)[None] + np.float32(value)
    return Arrays(Inner(by_app, np.array([7], np.int32)), np.full((2, apps), value))


def state(apps: int = 3, **changes: Any) -> State:
    return replace(State(arrays(apps, 0.5)), **changes)


def test_a_state_comes_back_bit_for_bit_without_its_transient_fields() -> None:
    odd = np.array([0.1, np.nan, np.inf, -0.0, 1e-300])
    before = state(
        arrays=arrays(3, 0.5)._replace(more=odd),
        nested=Nested(7, {8: "x"}),
        last=Event(3, "note"),
        by_name={"b": ((1, 2),), "a": ()},
        since=5.0,
    )
    after = decode(State, encode(before))
    for name, array in flatten(before.arrays).items():
        assert flatten(after.arrays)[name].tobytes() == array.tobytes()
        assert flatten(after.arrays)[name].dtype == array.dtype
    assert after.nested == Nested(7)
    assert (after.last, after.by_name) == (before.last, before.by_name)
    assert after.since is None
    after.arrays.more[0] = 1.0  # kernels go on updating it


@dataclass(frozen=True)
class Kinds:
    flags: NDArray[np.bool_]
    small: NDArray[np.int8]
    single: NDArray[np.float32]
    double: NDArray[np.float64]


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (4, 1, 2)])
def test_arrays_of_any_shape_come_back(shape: tuple[int, ...]) -> None:
    before = Kinds(
        np.ones(shape, np.bool_),
        np.ones(shape, np.int8),
        np.ones(shape, np.float32),
        np.ones(shape, np.float64),
    )
    after = decode(Kinds, encode(before))
    for name in ("flags", "small", "single", "double"):
        array, found = getattr(before, name), getattr(after, name)
        assert (found.dtype, found.shape) == (array.dtype, shape)
        assert found.tobytes() == array.tobytes()


def test_equal_states_give_equal_bytes_however_mappings_were_filled() -> None:
    one = state(by_name={"a": (), "b": ((1, 2),)})
    other = state(by_name={"b": ((1, 2),), "a": ()}, since=3.0)
    assert encode(one) == encode(other)
    assert encode(one) != encode(state(by_name={"a": ()}))


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("more", {"more": np.zeros((2, 3), np.float32)}),
        ("more", {"more": np.zeros((3, 3))}),
        ("more", {"more": np.zeros((1, 2, 3))}),
        ("more", {"more": [[1.0]]}),
        ("whole", {"inner": Inner(arrays(3, 0.5).inner.by_app, np.zeros(2, np.int32))}),
        ("inner", {"inner": None}),
    ],
)
def test_arrays_of_another_form_are_refused(name: str, changed: dict[str, Any]) -> None:
    expected = state(apps=0)
    check_form(decode(State, encode(state())), expected)
    data = encode(state(arrays=arrays(3, 0.5)._replace(**changed)))
    with pytest.raises(Refused, match=f"`{name}`: expected"):
        check_form(decode(State, data), expected)


def test_a_field_that_is_newer_than_the_saved_state_gets_its_default() -> None:
    @dataclass(frozen=True)
    class Older:
        arrays: Arrays

    loaded = decode(State, encode(Older(arrays(3, 0.5))))
    assert loaded.nested == Nested()
    np.testing.assert_array_equal(loaded.arrays.more, arrays(3, 0.5).more)


def test_missing_fields_and_wrong_types_are_refused() -> None:
    @dataclass(frozen=True)
    class Other:
        nested: Nested = Nested()

    with pytest.raises(Refused, match="`arrays`: expected in State, got nothing"):
        decode(State, encode(Other()))
    with pytest.raises(Refused, match="Expected `int`"):
        decode(State, encode(state(nested=Nested("one"))))  # type: ignore[arg-type]
    with pytest.raises(Refused, match="form"):
        decode(State, b"not msgpack")


def test_states_that_differ_in_transient_fields_only_are_saved_alike() -> None:
    before = state()
    assert saved_alike(before, replace(before, since=4.0))
    assert saved_alike(before, replace(before, nested=Nested(-1, {1: "x"})))
    assert not saved_alike(before, replace(before, nested=Nested(0)))
    assert not saved_alike(before, replace(before, arrays=copied(before.arrays)))
    assert not saved_alike(before, replace(before, last=Event(1)))


def test_apps_that_stay_keep_their_columns() -> None:
    fitted = refit(arrays(3, 0.0), arrays(2, 100.0), arrays(0, 0.0), ("a", "b", "c"), ("c", "d"))
    assert fitted.inner.by_app.tolist() == [[2.0, 101.0]]
    assert fitted.more.tolist() == [[0.0, 100.0], [0.0, 100.0]]
    assert fitted.inner.whole.tolist() == [7]


def test_a_copy_shares_no_array() -> None:
    before = arrays(3, 0.5)
    after = copied(before)
    assert isinstance(after.inner, Inner)
    for name, array in flatten(before).items():
        assert not np.shares_memory(array, flatten(after)[name])
