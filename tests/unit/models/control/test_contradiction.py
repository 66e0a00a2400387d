"""An observation contradicts the cluster when neither churn nor our last change explains it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.cluster.arrays import I32
from models.control.contradiction import UNREAD, contradicted


def numbers(replicas: int, cpu: int = 1000, memory: int = 2048) -> I32:
    return np.array([[replicas], [cpu], [memory]], np.int32)


NEVER = numbers(UNREAD, UNREAD, UNREAD)


@pytest.mark.parametrize(
    ("observed", "now", "earlier", "contradicts"),
    [
        (10, 10, UNREAD, False),
        (8, 10, UNREAD, False),
        (7, 10, UNREAD, True),
        (1, 3, UNREAD, False),
        (1, 2891, 2891, True),
        (100_000, 2891, 2891, True),
        (2891, 99, 2891, False),
        (80, 100, 100, False),
        (79, 100, 100, True),
    ],
)
def test_a_fifth_or_two_pods_are_churn(
    observed: int, now: int, earlier: int, *, contradicts: bool
) -> None:
    before = NEVER if earlier == UNREAD else numbers(earlier)
    assert contradicted(numbers(observed), numbers(now), before).tolist() == [contradicts]


@pytest.mark.parametrize("row", [1, 2])
def test_the_size_of_pods_counts_too(row: int) -> None:
    observed = numbers(10)
    observed[row] *= 2
    assert contradicted(observed, numbers(10), numbers(10)).tolist() == [True]
    assert contradicted(observed, numbers(10), observed).tolist() == [False]


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_an_app_that_the_cluster_does_not_have_contradicts_nothing(one: int, other: int) -> None:
    assert contradicted(numbers(one), NEVER, numbers(other)).tolist() == [False]


@given(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
def test_what_was_read_is_never_a_contradiction(now: int, earlier: int) -> None:
    assert contradicted(numbers(now), numbers(now), numbers(earlier)).tolist() == [False]
    assert contradicted(numbers(earlier), numbers(now), numbers(earlier)).tolist() == [False]
