"""HPAs on external metrics: the controller's arithmetic, and several triggers."""

import numpy as np
import pytest

from models.baselines.hpa.external import external_replicas, highest
from models.baselines.hpa.window import NO_METRIC


def _one(usage: float, target: float, current: int) -> int:
    found = external_replicas(np.array([usage]), np.array([target]), np.array([current], np.int32))
    return int(found[0])


@pytest.mark.parametrize(
    ("usage", "target", "current", "replicas"),
    [
        (1000.0, 100.0, 10, 10),
        # Inside the tolerance, both ends included.
        (1100.0, 100.0, 10, 10),
        (900.0, 100.0, 10, 10),
        # Beyond it replicas are the quotient rounded up, however many there are.
        (1101.0, 100.0, 10, 12),
        (899.0, 100.0, 10, 9),
        (1.0, 100.0, 10, 1),
        (0.0, 100.0, 10, 0),
        # In thousandths: a target below one request a second counts.
        (3.0, 0.5, 2, 6),
    ],
)
def test_replicas_are_the_metric_over_the_target_of_a_pod(
    usage: float, target: float, current: int, replicas: int
) -> None:
    assert _one(usage, target, current) == replicas


@pytest.mark.parametrize(
    ("usage", "target"), [(np.nan, 10.0), (-1.0, 10.0), (np.inf, 10.0), (5.0, 0.0)]
)
def test_a_metric_that_failed_recommends_nothing(usage: float, target: float) -> None:
    assert _one(usage, target, 3) == NO_METRIC


def test_the_highest_of_several_metrics_counts() -> None:
    current = np.array([5, 5], np.int32)
    proposals = np.array([3, 9], np.int32), np.array([7, NO_METRIC], np.int32)
    found = highest(proposals, np.zeros(2, np.bool_), current)
    assert found.tolist() == [7, 9]


def test_a_failed_metric_stops_scaling_in_and_not_scaling_out() -> None:
    current = np.array([5, 5], np.int32)
    proposals = np.array([3, 9], np.int32), np.full(2, NO_METRIC, np.int32)
    found = highest(proposals, np.ones(2, np.bool_), current)
    assert found.tolist() == [NO_METRIC, 9]
