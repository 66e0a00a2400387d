"""What a policy may change: nothing at zero, within bounds otherwise."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.cluster.arrays import F32, F64
from models.cluster.plan import Plan
from models.control.residual import Residual, believe, neutral
from models.forecaster.port import HORIZONS_MIN
from tests.unit.models.control.control_helpers import (
    APPS,
    DOMAINS,
    PER_MINUTE,
    forecast_of,
    same_plan,
    settled,
)

HORIZONS = len(HORIZONS_MIN)


def residual(factor: float, weight: float) -> Residual:
    factors: F64 = np.full((1, DOMAINS), factor)
    weights: F64 = np.full((1, DOMAINS, HORIZONS), weight)
    need: F32 = np.full((1, APPS), factor, np.float32)
    return Residual(
        headroom=factors,
        urgency=factors,
        need=need,
        cpu=need,
        comfort=factors,
        spare=factors[:, :1],
        pods=weights,
        nodes=weights,
    )


def plans(of: Residual | None) -> list[Plan]:
    """Two minutes under a forecast of growth."""
    plant, controller, state = settled(work=11.0, nodes=60)
    found = []
    for _ in range(2 * PER_MINUTE + 1):
        plan, state = controller.step(plant.observe(), forecast_of(plant, 1.4), state, of)
        plant.apply(plan)
        found.append(copy.deepcopy(plan))
    return found


def test_factors_of_one_and_weights_of_zero_are_the_heuristic_bit_for_bit() -> None:
    for one, other in zip(plans(None), plans(residual(1.0, 0.0)), strict=True):
        assert same_plan(one, other)


@pytest.mark.parametrize("field", ["headroom", "need", "cpu", "pods", "nodes", "spare"])
def test_each_lever_changes_a_decision(field: str) -> None:
    moved = neutral(1)._replace(**{field: getattr(residual(1.4, 1.0), field)})
    pairs = zip(plans(None), plans(moved), strict=True)
    assert not all(same_plan(one, other) for one, other in pairs)


@given(st.floats(1.0, 4.0), st.floats(1.0, 4.0), st.floats(-1.0, 1.0))
def test_belief_stays_between_now_and_the_largest_growth(
    growth: float, ahead: float, weight: float
) -> None:
    horizons = np.full((1, 1, HORIZONS), ahead)
    found = believe(np.array([[growth]]), horizons, np.full((1, 1, HORIZONS), weight), 4.0)
    assert 1.0 <= found[0, 0] <= 4.0
