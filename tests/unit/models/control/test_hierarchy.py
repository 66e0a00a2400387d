"""The hierarchical heuristic on a cluster whose whole state the test sets."""

import copy
from typing import Literal

import numpy as np
import pytest

from models.cluster import rows
from models.cluster.plan import Plan, Reason
from models.forecaster.port import Forecast
from tests.unit.models.control.control_helpers import (
    INVENTORY,
    PER_MINUTE,
    POOLS,
    Plant,
    forecast_of,
    heuristic,
    next_steps,
    one_step,
    same_plan,
    settled,
)

# --- Doing nothing


def test_a_constant_load_ends_in_no_changes() -> None:
    plant, controller, state = settled()
    # More than the spare nodes that are kept.
    plant.pool["free_cpu"] = 0.2 * plant.pool["ready"] * INVENTORY.pool_cpu
    plant.pool["free_memory"] = 0.2 * plant.pool["ready"] * INVENTORY.pool_memory
    # Where cores are spare, the highest priorities take their headroom first.
    _, state = plant.run(controller, state, 10 * PER_MINUTE)
    for _ in range(30 * PER_MINUTE):
        before = plant.status.copy()
        plan, state = controller.step(plant.observe(), None, state)
        plant.apply(plan)
        assert (plant.status == before).all()
        assert (plan.nodes == 0).all()
    assert state.soldiers.overruns.sum() == 0


def test_higher_priorities_are_sized_for_less_utilisation() -> None:
    plant, _, _ = settled()
    pods = plant.status[0, rows.REPLICAS]
    by_priority = [pods[INVENTORY.priority[INVENTORY.domain] == own].mean() for own in range(4)]
    assert by_priority == sorted(by_priority, reverse=True)
    assert by_priority[0] > by_priority[3]


# --- The forecast


def same_steps(one: tuple[Plan, Plan], other: tuple[Plan, Plan]) -> bool:
    return all(same_plan(mine, theirs) for mine, theirs in zip(one, other, strict=True))


@pytest.mark.parametrize("factor", [0.0, 0.3, 1.0, 1.3, 2.0, 1000.0])
@pytest.mark.parametrize("width", [0.0, 0.5])
def test_a_forecast_may_raise_and_never_lowers(factor: float, width: float) -> None:
    plant, controller, state = settled(budget=False)
    # A little less work, so that a forecast that lowered anything would show.
    plant.work *= 0.9
    _, without = next_steps(plant, controller, state)
    _, with_it = next_steps(plant, controller, state, forecast_of(plant, factor, width=width))
    assert (with_it.replicas >= without.replicas).all()
    more = with_it.replicas[0] > without.replicas[0]
    highest = INVENTORY.priority[INVENTORY.domain] == 0
    if factor >= 2.0:
        assert more[highest].all()
    if width == 0.0:
        assert not more[~highest].any()


def test_a_forecast_of_less_is_as_good_as_none() -> None:
    plant, controller, state = settled()
    without = next_steps(plant, controller, state)
    assert same_steps(next_steps(plant, controller, state, forecast_of(plant, 0.2)), without)


@pytest.mark.parametrize("factor", [np.nan, np.inf])
def test_a_forecast_with_nan_is_ignored(factor: float) -> None:
    plant, controller, state = settled()
    without = next_steps(plant, controller, state)
    assert same_steps(next_steps(plant, controller, state, forecast_of(plant, factor)), without)


def test_an_expired_forecast_is_ignored() -> None:
    plant, controller, state = settled()
    without = next_steps(plant, controller, state)

    def until(tick: int) -> tuple[Plan, Plan]:
        forecast: Forecast = forecast_of(plant, 2.0, until=tick)
        return next_steps(plant, controller, state, forecast)

    assert same_steps(until(plant.tick - 1), without)
    assert not same_steps(until(plant.tick), without)


def test_pods_for_a_phantom_leave_when_it_is_no_longer_forecast() -> None:
    plant, controller, state = settled()
    highest = INVENTORY.priority[INVENTORY.domain] == 0
    before = plant.status[0, rows.REPLICAS, highest].sum()
    raised, state = plant.run(controller, state, 5 * PER_MINUTE, forecast_of(plant, 2.5))
    assert raised[-1, highest].sum() > 1.3 * before
    back, _ = plant.run(controller, state, 60 * PER_MINUTE)
    assert back[-1, highest].sum() < 1.15 * before


def test_nodes_are_requested_ahead_of_forecast_load() -> None:
    plant, controller, state = settled()
    held = plant.status[0, rows.REPLICAS].sum() / INVENTORY.pool_cpu.mean()
    plant.pool["ready"] = round(held / POOLS)
    assert one_step(plant, controller, state, forecast_of(plant, 2.0)).nodes.sum() > 0


# --- Data that is missing or broken


def remove_data(plant: Plant, how: Literal["missing", "nan"]) -> None:
    if how == "missing":
        plant.missing[:, ::2] = 1
    else:
        plant.broken[::2] = True


@pytest.mark.parametrize("how", ["missing", "nan"])
def test_apps_without_data_are_not_decreased(how: Literal["missing", "nan"]) -> None:
    plant, controller, state = settled()
    before = plant.status[0, rows.REPLICAS].copy()
    remove_data(plant, how)
    plant.work *= 0.2
    plans, state = plant.run(controller, state, 40 * PER_MINUTE)
    assert (plans[:, ::2] >= before[::2]).all()
    assert (plans[-1, 1::2] < before[1::2]).any()
    plan = one_step(plant, controller, state)
    assert (plan.reason[0, ::2] == Reason.HOLD_NO_METRICS).all()


def test_traffic_that_breaks_off_does_not_scale_in_at_once() -> None:
    plant, controller, state = settled()
    before = plant.status[0, rows.REPLICAS].copy()
    plant.work *= 0.1
    plans, state = plant.run(controller, state, 8 * PER_MINUTE)
    assert (plans >= before).all()
    plans, _ = plant.run(controller, state, 40 * PER_MINUTE)
    assert plans[-1].sum() < 0.7 * before.sum()


def test_a_surge_is_answered_in_the_same_tick() -> None:
    plant, controller, state = settled()
    before = plant.status[0, rows.REPLICAS].copy()
    plant.work *= 2
    plans, state = plant.run(controller, state, 1)
    assert (plans[0] > before).all()
    assert state.soldiers.overruns.sum() == 0


# --- Apps that come and go


def test_an_app_that_is_not_declared_is_left_alone() -> None:
    plant, controller, state = settled()
    before = plant.status[0, rows.REPLICAS].copy()
    plant.status[:, rows.ACTIVE, ::2] = 0
    plant.status[:, rows.READY, ::2] = 0
    for _ in range(20 * PER_MINUTE):
        plan, state = controller.step(plant.observe(), None, state)
        plant.apply(plan)
        plant.status[:, rows.READY, ::2] = 0
        assert (plan.replicas[0, ::2] == before[::2]).all()
        assert (plan.cpu[0, ::2] == 1000).all()


def test_an_app_that_is_not_declared_holds_nothing_of_the_budget() -> None:
    """The remaining apps may grow into the room of those that are gone."""
    plant, controller, state = settled(nodes=2)
    plant.work[1::2] *= 2
    grown = []
    for active in (1, 0):
        other, memory = copy.deepcopy(plant), copy.deepcopy(state)
        other.status[:, rows.ACTIVE, ::2] = active
        plans, memory = other.run(controller, memory, 5 * PER_MINUTE)
        assert memory.soldiers.overruns.sum() == 0
        grown.append(int(plans[-1, 1::2].sum()))
    assert grown[0] < grown[1]


def test_an_app_that_moves_counts_in_its_new_domain() -> None:
    plant, controller, state = settled(nodes=2)
    plant.status[:, rows.DOMAIN] = 0
    _, state = plant.run(controller, state, 5 * PER_MINUTE)
    shared = state.decision.directive.budget.pool_cores[0, :, -1]
    assert shared[0] > 50
    assert (shared[1:] < 1).all()
    assert state.soldiers.overruns.sum() == 0


# --- The shape of a controller


def test_a_plan_depends_only_on_its_inputs() -> None:
    """One controller that serves two clusters by turns decides as if it served each alone."""
    alone = [settled(), settled(work=14.0, nodes=8)]
    shared = heuristic()
    for plant, controller, state in alone:
        plant.tick += 1
        expected = one_step(plant, controller, state)
        for _, _, other in alone:
            one_step(plant, shared, other)
            assert same_plan(one_step(plant, shared, state), expected)


def test_after_a_lost_tick_the_next_one_decides_the_budget() -> None:
    plant, controller, state = settled()
    _, state = plant.run(controller, state, 1)
    before = int(state.decision.directive.budget.epoch[0])
    # Skips the first tick of a minute: the Commander must not wait for the next minute.
    plant.tick += PER_MINUTE + 2
    _, state = controller.step(plant.observe(), None, state)
    assert state.decision.directive.budget.epoch[0] > before
