"""What is requested never costs more than what the cap leaves."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from models.control.spending import within_cap

PRICES = np.array([1.0, 2.0])


def cut(urgent: list[int], comfort: list[int], left: float) -> list[list[int]]:
    requested = np.array([[urgent, comfort]], np.int32).transpose(0, 2, 1)
    found: list[list[int]] = within_cap(requested, PRICES, np.array([left]))[0].T.tolist()
    return found


def test_what_is_paid_for_passes_uncut() -> None:
    assert cut([3, 1], [2, 2], 11.0) == [[3, 1], [2, 2]]


def test_urgent_nodes_of_all_pools_come_before_comfort_of_any() -> None:
    assert cut([3, 1], [9, 9], 5.0) == [[3, 1], [0, 0]]


def test_pools_share_what_is_left_for_an_urgency() -> None:
    assert cut([4, 4], [0, 0], 6.0) == [[2, 2], [0, 0]]


def test_money_for_one_node_pays_for_the_most_urgent_one() -> None:
    """Rounded down, the pools' shares were nothing, and comfort got the money."""
    assert cut([1, 1], [1, 0], 2.5) == [[1, 0], [0, 0]]
    assert cut([0, 2], [3, 0], 3.5) == [[0, 1], [0, 0]]


def test_a_cap_that_is_exceeded_pays_for_nothing() -> None:
    assert cut([4, 4], [1, 1], -3.0) == [[0, 0], [0, 0]]


@given(
    arrays(np.int32, (2, 3, 4), elements=st.integers(0, 10_000)),
    arrays(np.float64, 3, elements=st.just(0.0) | st.floats(1e-6, 1e3)),
    arrays(np.float64, 2, elements=st.floats(-1e6, 1e6)),
)
def test_the_cap_is_never_exceeded(
    requested: np.ndarray, price: np.ndarray, left: np.ndarray
) -> None:
    granted = within_cap(requested, price, left)
    assert ((granted >= 0) & (granted <= requested)).all()
    paid = granted.sum(axis=2) @ price
    assert (paid <= np.maximum(left, 0.0) * (1 + 1e-9) + 1e-9).all()
    is_cut = granted < requested
    cut_of_urgency = is_cut.any(axis=1)
    later = np.greater(np.cumsum(cut_of_urgency, axis=1), cut_of_urgency)[:, None]
    # No node that is cut first could have been paid for, and nothing less urgent was.
    cheapest = np.where(is_cut & ~later, price[None, :, None], np.inf).min(axis=(1, 2))
    assert (paid + cheapest > np.maximum(left, 0.0) * (1 - 1e-9) - 1e-9).all()
    assert not (granted * later * (price > 0.0)[None, :, None]).any()
    # Nothing is cut where all of it can be paid for.
    enough = requested.sum(axis=2) @ price <= left * (1 - 1e-9)
    assert (granted[enough] == requested[enough]).all()
