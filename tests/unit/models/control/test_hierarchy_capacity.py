"""The heuristic under scarcity: budgets, node requests, and which domains give way."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster import rows
from models.cluster.arrays import F64
from models.cluster.plan import Reason
from models.control.budget import CommanderDecision
from models.control.hierarchy import Heuristic
from models.control.parameters import Parameters, Parts
from tests.unit.models.control.control_helpers import (
    APPS,
    INVENTORY,
    PER_MINUTE,
    POOLS,
    START_REPLICAS,
    Plant,
    forecast_of,
    heuristic,
    next_steps,
    one_step,
    settled,
)


def test_without_capacity_nothing_grows_and_nodes_are_requested() -> None:
    plant, controller = Plant(work=30.0), heuristic()
    plant.pool["ready"] = 0
    state = controller.start(plant.observe())
    plans, state = plant.run(controller, state, 3 * PER_MINUTE)
    assert (plans <= START_REPLICAS).all()
    assert one_step(plant, controller, state).nodes.sum() > 0
    assert state.soldiers.overruns.sum() == 0


def test_nodes_are_requested_within_the_quota_the_highest_priority_first() -> None:
    plant, controller, state = settled(nodes=20)
    plant.work *= 40
    plant.pool["quota"] = 27
    plant.pool["coming"] = 3
    plan = one_step(plant, controller, state)
    assert (plan.nodes.sum(axis=2) <= 27 - 20 - 3).all()
    # 27 - 20 - 3 = 4 nodes are left of the quota, and the highest priority gets them all.
    first = np.unique(INVENTORY.domain_pools[INVENTORY.priority == 0])
    for pool in first[first >= 0]:
        assert plan.nodes[0, pool].tolist() == [4, 0, 0, 0]
    assert (plan.keep <= 27).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_request_for_nodes_goes_beyond_the_quota(seed: int) -> None:
    rng = np.random.default_rng(seed)
    plant, controller = Plant(), heuristic()
    plant.work[:] = rng.uniform(0, 60, APPS)
    state = controller.start(plant.observe())
    _, state = plant.run(controller, state, PER_MINUTE)
    pool = plant.pool
    pool["quota"] = rng.integers(0, 30, pool.shape)
    pool["ready"] = rng.integers(0, 1 + pool["quota"])
    pool["coming"] = rng.integers(0, 1 + pool["quota"] - pool["ready"])
    nodes = one_step(plant, controller, state).nodes
    there = pool["ready"] + pool["coming"]
    assert (nodes >= 0).all()
    assert (there + nodes.sum(axis=2) <= pool["quota"]).all()


def test_the_lowest_priority_gives_way_when_the_highest_is_in_distress() -> None:
    # With room to give: a domain that is sized for the edge has none.
    roomy = Parameters(target_p3=0.75, risk=0.85, kept_back=0.06)
    plant, controller = Plant(nodes=2), Heuristic(INVENTORY, POOLS, roomy, Parts())
    plant.pool["ready"][0, 2:] = 0, 0, 0, 8  # only P0 has pools of its own
    _, state = plant.run(controller, controller.start(plant.observe()), 15 * PER_MINUTE)
    priority = INVENTORY.priority[INVENTORY.domain]
    before = plant.status[0, rows.REPLICAS].copy()
    plant.work[priority == 0] *= 6
    plans, state = plant.run(controller, state, 10 * PER_MINUTE)
    assert plans[-1, priority == 3].sum() < before[priority == 3].sum()
    assert plans[-1, priority == 0].sum() > before[priority == 0].sum()
    assert state.soldiers.overruns.sum() == 0


def decisions_with(free: float) -> tuple[CommanderDecision, CommanderDecision]:
    """Decisions without free cores, and with `free` ones in each pool."""
    plant, controller, state = settled(nodes=20)
    decisions = []
    for cores in (0.0, free):
        plant.pool["free_cpu"] = cores
        _, after = controller.step(plant.observe(), None, copy.deepcopy(state))
        decisions.append(after.decision)
    return decisions[0], decisions[1]


def test_an_overdraft_is_drawn_on_free_cores_only() -> None:
    full, some = decisions_with(free=10.0)
    assert full.directive.budget.overdraft.sum() < 1e-6
    assert (some.directive.budget.overdraft > 0.0).all()
    shared = INVENTORY.domain_pools[0, -1]
    # All domains share one pool here, so its free cores are all that can be drawn.
    assert (INVENTORY.domain_pools[:, -1] == shared).all()
    assert some.directive.budget.overdraft.sum() <= 10.0 + 1e-6


def test_the_highest_priority_yields_its_room_for_surges_to_work_of_others_not_more() -> None:
    plant, controller, state = settled(nodes=2)
    first, other = np.flatnonzero(INVENTORY.priority == 0)[:2]
    mine = INVENTORY.domain == first

    def release_of(domain: int) -> F64:
        surged, memory = copy.deepcopy((plant, state))
        surged.work[INVENTORY.domain == domain] *= 8
        _, memory = surged.run(controller, memory, PER_MINUTE + 1)
        release: F64 = memory.decision.directive.release[0]
        return release

    for_another = release_of(int(np.flatnonzero(INVENTORY.priority == 1)[0]))[first]
    assert release_of(other)[first] > 0.0
    assert for_another > 0.0
    held = plant.status[0, rows.REPLICAS, mine].sum()
    assert held - for_another >= plant.work[mine].sum() / Parameters().surge_target


def test_apps_with_pods_to_spare_release_them_however_much_others_of_their_domain_lack() -> None:
    plant, controller, state = settled(nodes=2)
    domain = int(np.flatnonzero(INVENTORY.priority == 1)[0])
    plant.work[np.flatnonzero(INVENTORY.domain == domain)[0]] *= 60
    _, state = plant.run(controller, state, PER_MINUTE + 1)
    held = plant.status[0, rows.REPLICAS, INVENTORY.domain == domain].sum()
    assert held < plant.work[INVENTORY.domain == domain].sum()
    assert state.decision.directive.release[0, domain] > 0.0


# --- The directive


def test_before_the_first_directive_nothing_grows() -> None:
    plant, controller = Plant(work=30.0, nodes=50), heuristic()
    state = controller.start(plant.observe())
    first, second = next_steps(plant, controller, state)
    assert (first.replicas == START_REPLICAS).all()
    assert (first.reason == Reason.HOLD_BUDGET).all()
    assert (second.replicas > START_REPLICAS).all()


def test_nodes_are_requested_in_the_tick_in_which_the_need_is_reported() -> None:
    plant, controller = Plant(work=30.0, nodes=2), heuristic()
    assert one_step(plant, controller, controller.start(plant.observe())).nodes.sum() > 0


def test_without_new_directives_nothing_grows_and_nothing_is_released() -> None:
    plant, controller, state = settled(nodes=20)
    last, before = state.decision, plant.status[0, rows.REPLICAS].copy()
    release = np.full_like(last.directive.release, 1e3)
    budget = last.directive.budget._replace(
        epoch=last.directive.budget.epoch + 10**6,
        valid_until_tick=np.full(1, plant.tick - 1),
        floor=np.zeros_like(last.directive.budget.floor),
    )
    stale = last._replace(directive=last.directive._replace(budget=budget, release=release))
    plant.work *= 2
    plans, state = plant.run(controller, state._replace(decision=stale), 2 * PER_MINUTE)
    assert (plans == before).all()


# --- Memory


def test_a_domain_grows_no_further_than_its_memory_reaches() -> None:
    """Pods of four times the memory per core that the nodes have."""
    light, controller, state = settled(nodes=6)
    heavy = copy.deepcopy(light)
    heavy.status[:, rows.MEMORY_REQUEST] = 12 * 1024
    held = []
    for plant in (light, heavy):
        plant.work *= 1.6
        plans, memory = plant.run(controller, copy.deepcopy(state), 5 * PER_MINUTE)
        assert memory.soldiers.overruns.sum() == 0
        held.append(int(plans[-1].sum()))
    assert held[1] < held[0]


def test_a_domain_of_heavy_pods_is_granted_the_cores_that_go_with_its_memory() -> None:
    plant, controller, state = settled(nodes=60)
    plant.status[:, rows.MEMORY_REQUEST] = 12 * 1024
    plant.work *= 2
    before = plant.status[0, rows.REPLICAS].copy()
    plans, _ = plant.run(controller, state, 3 * PER_MINUTE)
    assert (plans[-1] > before).all()


@pytest.mark.parametrize(("width", "share"), [(0.0, 0.04), (0.06, 0.06), (0.5, 0.1)])
def test_high_priorities_get_headroom_where_cores_are_free(width: float, share: float) -> None:
    plant, controller, state = settled()
    forecast = forecast_of(plant, 1.0, width=width)

    def headroom(free_cores: float) -> F64:
        plant.pool["free_cpu"] = free_cores
        _, after = controller.step(plant.observe(), forecast, copy.deepcopy(state))
        found: F64 = after.decision.directive.budget.headroom[0]
        return found

    # However sure the forecast is, there is some: it foresees the usual, not a surge.
    expected = np.where(INVENTORY.priority <= 1, share, 0.0)
    np.testing.assert_allclose(headroom(1000.0), expected, rtol=1e-4)
    assert (headroom(0.0) == 0.0).all()


def test_no_domain_gets_headroom_while_an_app_lacks_what_it_needs() -> None:
    plant, controller, state = settled()
    plant.pool["free_cpu"] = 1.0
    # One app in distress is enough: headroom for others would take its nodes.
    plant.work[0] *= 40
    unsure = forecast_of(plant, 1.0, width=0.06)
    _, after = plant.run(controller, state, PER_MINUTE, unsure)
    assert (after.decision.directive.budget.headroom == 0.0).all()
