"""What each level uses."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster.arrays import I8
from models.cluster.plan import Plan
from models.control.fallback import (
    Level,
    no_fallback,
    usable_directive,
    usable_forecast,
    usable_residual,
)
from models.control.residual import Residual, neutral
from models.forecaster.port import HORIZONS_MIN
from tests.unit.models.control.control_helpers import (
    APPS,
    DOMAINS,
    INVENTORY,
    PER_MINUTE,
    forecast_of,
    settled,
)

FIRST = np.arange(DOMAINS) == 0
HORIZONS = len(HORIZONS_MIN)
DOMAIN = np.broadcast_to(INVENTORY.domain, (1, APPS)).astype(np.int32)


def at(level: Level) -> I8:
    """The first domain at a level, the others at full trust."""
    return np.where(FIRST, level, Level.POLICY)[None].astype(np.int8)


NO_CUSHION = np.zeros(DOMAINS)


def residual() -> Residual:
    return Residual(
        headroom=np.full((1, DOMAINS), 1.5),
        urgency=np.full((1, DOMAINS), 2.0),
        need=np.full((1, APPS), 1.25, np.float32),
        cpu=np.full((1, APPS), 1.75, np.float32),
        comfort=np.full((1, DOMAINS), 1.5),
        spare=np.full((1, 1), 0.5),
        pods=np.full((1, DOMAINS, HORIZONS), 0.5),
        nodes=np.full((1, DOMAINS, HORIZONS), 0.5),
    )


def test_full_trust_returns_what_it_was_given() -> None:
    plant, _, state = settled()
    forecast, directive = forecast_of(plant, 2.0), state.decision.directive
    for levels in (no_fallback(1, DOMAINS), at(Level.HEURISTIC)):
        assert usable_forecast(forecast, levels) is forecast
        assert usable_directive(directive, levels, NO_CUSHION) is directive
    given_residual = residual()
    assert usable_residual(given_residual, no_fallback(1, DOMAINS), DOMAIN) is given_residual


@pytest.mark.parametrize("level", [Level.HEURISTIC, Level.REACTIVE, Level.HOLD])
def test_below_policy_a_domain_ignores_a_policy_and_the_others_do_not(level: Level) -> None:
    found = usable_residual(residual(), at(level), DOMAIN)
    assert found.headroom[0].tolist() == np.where(FIRST, 1.0, 1.5).tolist()
    assert found.urgency[0].tolist() == np.where(FIRST, 1.0, 2.0).tolist()
    assert found.need[0].tolist() == np.where(FIRST[INVENTORY.domain], 1.0, 1.25).tolist()
    assert found.cpu[0].tolist() == np.where(FIRST[INVENTORY.domain], 1.0, 1.75).tolist()
    assert found.need.dtype == found.cpu.dtype == np.float32
    assert found.comfort[0].tolist() == np.where(FIRST, 1.0, 1.5).tolist()
    for weights in (found.pods, found.nodes):
        assert weights[0].max(axis=1).tolist() == np.where(FIRST, 0.0, 0.5).tolist()
    # Spare nodes are the whole cluster's.
    assert found.spare.tolist() == [[1.0]]
    # Fields without columns stay without.
    assert usable_residual(neutral(1), at(level), DOMAIN).need.shape == (1, 0)


@pytest.mark.parametrize("level", [Level.REACTIVE, Level.HOLD])
def test_below_heuristic_a_domain_has_no_forecast_and_the_others_have(level: Level) -> None:
    plant, _, state = settled()
    forecast = usable_forecast(forecast_of(plant, 2.0), at(level))
    assert forecast is not None
    assert np.isnan(forecast.domain[0]).all(axis=(1, 2)).tolist() == FIRST.tolist()
    decided = state.decision.directive
    growing = decided._replace(
        growth=np.full((1, DOMAINS), 2.0),
        budget=decided.budget._replace(
            headroom=np.full((1, DOMAINS), 0.1), insured=np.full((1, DOMAINS), 0.04)
        ),
    )
    found = usable_directive(growing, at(level), NO_CUSHION)
    assert found.growth[0].tolist() == np.where(FIRST, 1.0, 2.0).tolist()
    # Insurance against the loss of a zone is no forecast, and neither is a cushion.
    assert found.budget.headroom[0].tolist() == np.where(FIRST, 0.04, 0.1).tolist()
    cushioned = usable_directive(growing, at(level), NO_CUSHION + 0.03).budget.headroom
    assert cushioned[0] == pytest.approx(np.where(FIRST, 0.07, 0.1))
    larger = usable_directive(growing, at(level), NO_CUSHION + 0.3).budget.headroom
    assert larger[0].tolist() == [0.1] * DOMAINS


def plans(level: Level, factor: float | None, residual: Residual | None) -> list[Plan]:
    """Three minutes at a level, under a forecast and a policy."""
    plant, controller, state = settled()
    state = controller.at_level(np.full((1, DOMAINS), level, np.int8), state)
    found = []
    for _ in range(3 * PER_MINUTE):
        forecast = None if factor is None else forecast_of(plant, factor)
        plan, state = controller.step(plant.observe(), forecast, state, residual)
        plant.apply(plan)
        found.append(copy.deepcopy(plan))
    return found


def same(one: list[Plan], other: list[Plan]) -> bool:
    return all(
        np.array_equal(getattr(plan, name), getattr(counterpart, name))
        for plan, counterpart in zip(one, other, strict=True)
        for name in Plan._fields
    )


def test_the_heuristic_level_decides_as_without_a_policy() -> None:
    plain = plans(Level.POLICY, 2.0, None)
    assert same(plans(Level.HEURISTIC, 2.0, residual()), plain)
    assert not same(plans(Level.POLICY, 2.0, residual()), plain)


def test_the_reactive_level_decides_as_without_forecasts() -> None:
    without = plans(Level.POLICY, None, None)
    assert same(plans(Level.REACTIVE, 2.0, residual()), without)
    assert not same(plans(Level.POLICY, 2.0, None), without)


@settings(max_examples=10, deadline=None)
@given(st.floats(0.1, 4.0), st.floats(2.0, 15.0))
def test_falling_back_never_lowers_below_what_is_needed_now(factor: float, work: float) -> None:
    plant, controller, state = settled()
    plant.work[:] = work
    for level in (Level.POLICY, Level.REACTIVE):
        state = controller.at_level(np.full((1, DOMAINS), level, np.int8), state)
        _, state = plant.run(controller, state, 3 * PER_MINUTE, forecast_of(plant, factor))
    reactive = state.soldiers.memory.need
    alone, other, fresh = settled()
    alone.work[:] = work
    _, fresh = alone.run(other, fresh, 6 * PER_MINUTE)
    # What the load of now needs, as a cluster that never had a forecast sees it.
    assert (reactive >= fresh.soldiers.memory.need * 0.999).all()


def test_a_soldier_does_not_wait_for_the_next_directive_to_drop_a_forecast() -> None:
    plant, controller, state = settled()
    _, state = plant.run(controller, state, 1, forecast_of(plant, 3.0))
    assert plant.tick % PER_MINUTE
    assert (state.decision.directive.growth > 1).any()
    grown, _ = copy.deepcopy(plant).run(controller, copy.deepcopy(state), 1)
    reactive = controller.at_level(
        np.full((1, DOMAINS), Level.REACTIVE, np.int8), copy.deepcopy(state)
    )
    stayed, _ = copy.deepcopy(plant).run(controller, reactive, 1)
    assert grown.sum() > stayed.sum()
