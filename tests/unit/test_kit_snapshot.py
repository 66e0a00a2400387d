from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from services._kit.handler import Refused
from services._kit.snapshot import flatten, pack, rebuild, refit, unpack


class Inner(NamedTuple):
    by_app: NDArray[np.float32]
    whole: NDArray[np.int32]


class Outer(NamedTuple):
    inner: Inner
    more: NDArray[np.float64]


def state(apps: int, value: float) -> Outer:
    by_app = np.arange(apps, dtype=np.float32)[None] + np.float32(value)
    return Outer(Inner(by_app, np.array([7], np.int32)), np.full((2, apps), value))


def test_what_was_packed_comes_back_to_the_last_bit() -> None:
    odd = np.array([0.1, np.nan, np.inf, -0.0, 1e-300])
    found = unpack(pack({"odd": odd, "name": "x", "list": [1, 2.5, None]}))
    assert found["odd"].tobytes() == odd.tobytes()
    assert found["name"] == "x"
    assert found["list"] == [1, 2.5, None]
    found["odd"][0] = 1.0  # a state goes on being written to


def test_a_nested_state_is_flattened_and_rebuilt() -> None:
    before = state(3, 0.5)
    after = rebuild(state(0, 0.0), unpack(pack(flatten(before))))
    assert isinstance(after.inner, Inner)
    for name, array in flatten(before).items():
        assert flatten(after)[name].tobytes() == array.tobytes()


def test_apps_that_stay_keep_what_is_remembered_of_them() -> None:
    fitted = refit(
        state(3, 0.0), state(2, 100.0), ("a", "b", "c"), ("c", "d"), frozenset({"inner.whole"})
    )
    assert fitted.inner.by_app.tolist() == [[2.0, 101.0]]
    assert fitted.more.tolist() == [[0.0, 100.0], [0.0, 100.0]]
    assert fitted.inner.whole.tolist() == [7]


WHOLE = frozenset({"inner.whole"})


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("more", np.zeros((2, 3), np.float32)),
        ("more", np.zeros((3, 3))),
        ("more", np.zeros((1, 2, 3))),
        ("inner.whole", np.zeros(2, np.int32)),
        ("inner.whole", [7]),
        ("inner.by_app", None),
    ],
)
def test_an_array_of_another_form_is_refused(name: str, array: NDArray[np.float64]) -> None:
    saved = flatten(state(3, 0.5))
    assert rebuild(state(0, 0.0), saved, WHOLE) is not None
    with pytest.raises(Refused, match=f"`{name}`: expected"):
        rebuild(state(0, 0.0), {**saved, name: array}, WHOLE)
    del saved[name]
    with pytest.raises(Refused, match=f"`{name}`: expected .* got NoneType"):
        rebuild(state(0, 0.0), saved, WHOLE)
