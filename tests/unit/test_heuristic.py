"""The hierarchical heuristic keeps its promises, on clusters written by hand and small worlds."""

import copy
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.control.heuristic.ablation import heuristic_of
from models.control.heuristic.controller import Heuristic, HeuristicState
from models.control.heuristic.parameters import Parameters, Parts
from models.control.run import run
from models.forecaster.catalogue import calendar_of
from models.forecaster.port import HORIZONS_MIN, QUANTILES, Forecast
from models.sim.describe.config import load_cluster, with_apps
from models.sim.describe.events import Event, MetricsOutage, Target, Traffic
from models.sim.describe.events import Inventory as Change
from models.sim.describe.scenario import Scenario
from models.sim.inventory import declare
from models.sim.observe import SEEN_POOL, Observation
from models.sim.plan import Plan, Reason
from models.sim.population.generate import generate
from models.sim.state import (
    ACTIVE,
    CPU,
    CPU_REQUEST,
    DOMAIN,
    KNOWN,
    MEMORY,
    MEMORY_REQUEST,
    P50,
    P99,
    PODS,
    READY,
    REPLICAS,
    RPS,
    SAMPLES,
    THROUGHPUT,
)
from models.sim.world import World

CLUSTER = with_apps(load_cluster(), 40)
POPULATION = generate(CLUSTER)
INVENTORY = declare(POPULATION, CLUSTER)._replace(
    min_replicas=np.full(40, 2, np.int32), max_replicas=np.full(40, 400, np.int32)
)
APPS, DOMAINS, POOLS = 40, INVENTORY.priority.size, INVENTORY.pool_cpu.size
ALL = tuple(CLUSTER.domain_names)
PER_MINUTE = 6
Counts = NDArray[np.int32]


class Plant:
    """A cluster of 40 apps of pods of one core, of which a test says everything.

    Pods are ready when they are wanted, and all do the work that is asked of them.
    """

    def __init__(self, work: float = 9.0, nodes: int = 5) -> None:
        self.work = np.full(APPS, work, np.float32)
        """Pods that would be fully used."""
        self.known = np.zeros((1, KNOWN, APPS), np.int32)
        self.known[:, ACTIVE], self.known[:, DOMAIN] = 1, INVENTORY.domain
        self.known[:, CPU_REQUEST], self.known[:, MEMORY_REQUEST] = 1000, 1024
        self.known[:, REPLICAS] = self.known[:, READY] = 20
        self.missing = np.zeros((1, APPS), np.int8)
        self.pool = np.zeros((1, POOLS), SEEN_POOL)
        self.pool["ready"], self.pool["quota"] = nodes, 2 * nodes
        self.broken = np.zeros(APPS, np.bool_)
        self.tick = 0

    def seen(self) -> Observation:
        measured = np.zeros((1, SAMPLES, APPS), np.float32)
        pods = self.known[:, READY]
        measured[:, RPS] = measured[:, THROUGHPUT] = 100 * self.work
        measured[:, P50], measured[:, P99] = 0.001, 0.002
        measured[:, CPU] = np.minimum(self.work, pods) * INVENTORY.saturation
        measured[:, MEMORY], measured[:, PODS] = 0.5 * pods, pods
        measured[:, :, self.broken] = np.nan
        tick = np.full(1, self.tick, np.int32)
        return Observation(tick, measured, self.missing, self.known.copy(), self.pool)

    def takes(self, plan: Plan) -> None:
        self.known[:, REPLICAS] = self.known[:, READY] = plan.replicas
        self.known[:, CPU_REQUEST], self.known[:, MEMORY_REQUEST] = plan.cpu, plan.memory
        self.tick += 1

    def runs(
        self,
        controller: Heuristic,
        state: HeuristicState,
        ticks: int,
        forecast: Forecast | None = None,
    ) -> tuple[Counts, HeuristicState]:
        """[ticks, A] replicas after each."""
        rows = []
        for _ in range(ticks):
            plan, state = controller.step(self.seen(), forecast, state)
            self.takes(plan)
            rows.append(plan.replicas[0].copy())
        return np.array(rows), state


def heuristic(**parts: bool) -> Heuristic:
    return Heuristic(INVENTORY, POOLS, Parameters(), Parts(**parts))


def settled(
    work: float = 9.0, nodes: int = 5, **parts: bool
) -> tuple[Plant, Heuristic, HeuristicState]:
    """After a quarter of an hour of the same, at the beginning of a minute."""
    plant, controller = Plant(work, nodes), heuristic(**parts)
    _, state = plant.runs(controller, controller.start(plant.seen()), 15 * PER_MINUTE)
    return plant, controller, state


def foretold(plant: Plant, factor: float, until: int | None = None, width: float = 0.0) -> Forecast:
    """Each domain's requests grow by a factor; the high quantile is `width` above the median."""
    rps = 100 * np.bincount(INVENTORY.domain, plant.work, DOMAINS)
    shape = (1, DOMAINS, len(HORIZONS_MIN), len(QUANTILES))
    domain = np.broadcast_to(factor * rps[None, :, None, None], shape).astype(np.float32)
    domain[..., 2] *= 1 + width
    return Forecast(
        model="by hand",
        made_tick=np.full(1, plant.tick, np.int32),
        valid_until_tick=np.full(1, plant.tick + 30 if until is None else until, np.int32),
        domain=domain,
        domain_peak=domain[..., 2],
    )


def one_step(
    plant: Plant, controller: Heuristic, state: HeuristicState, forecast: Forecast | None = None
) -> Plan:
    """A step that leaves no trace in the state."""
    plan, _ = controller.step(plant.seen(), forecast, copy.deepcopy(state))
    return copy.deepcopy(plan)


def same(one: Plan, other: Plan) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in Plan._fields)


# --- Doing nothing


def test_a_constant_load_ends_in_doing_nothing() -> None:
    plant, controller, state = settled()
    for _ in range(30 * PER_MINUTE):
        before = plant.known.copy()
        plan, state = controller.step(plant.seen(), None, state)
        plant.takes(plan)
        assert (plant.known == before).all()
        assert (plan.nodes == 0).all()
    assert state.squad.overruns.sum() == 0


def test_higher_priorities_are_sized_for_less_utilisation() -> None:
    plant, _, _ = settled()
    pods = plant.known[0, REPLICAS]
    by_priority = [pods[INVENTORY.priority[INVENTORY.domain] == own].mean() for own in range(4)]
    assert by_priority == sorted(by_priority, reverse=True)
    assert by_priority[0] > by_priority[3]


# --- The forecast


@pytest.mark.parametrize("factor", [0.0, 0.3, 1.0, 1.3, 2.0, 1000.0])
@pytest.mark.parametrize("width", [0.0, 0.5])
def test_a_forecast_may_raise_and_never_lowers(factor: float, width: float) -> None:
    plant, controller, state = settled(budget=False)
    plant.work *= 0.9
    without = one_step(plant, controller, state)
    with_it = one_step(plant, controller, state, foretold(plant, factor, width=width))
    assert (with_it.replicas >= without.replicas).all()
    if factor >= 2.0:
        assert (with_it.replicas > without.replicas).all()


def test_a_forecast_of_less_is_as_good_as_none() -> None:
    plant, controller, state = settled()
    without = one_step(plant, controller, state)
    assert same(one_step(plant, controller, state, foretold(plant, 0.2)), without)


@pytest.mark.parametrize("factor", [np.nan, np.inf])
def test_a_forecast_that_is_no_number_is_ignored(factor: float) -> None:
    plant, controller, state = settled()
    without = one_step(plant, controller, state)
    assert same(one_step(plant, controller, state, foretold(plant, factor)), without)


def test_an_expired_forecast_is_ignored() -> None:
    plant, controller, state = settled()
    without = one_step(plant, controller, state)
    valid = foretold(plant, 2.0, until=plant.tick)
    expired = foretold(plant, 2.0, until=plant.tick - 1)
    assert same(one_step(plant, controller, state, expired), without)
    assert not same(one_step(plant, controller, state, valid), without)


def test_a_phantom_leaves_when_it_is_no_longer_foretold() -> None:
    plant, controller, state = settled()
    before = plant.known[0, REPLICAS].sum()
    raised, state = plant.runs(controller, state, 5 * PER_MINUTE, foretold(plant, 2.0))
    assert raised[-1].sum() > 1.3 * before
    back, _ = plant.runs(controller, state, 60 * PER_MINUTE)
    assert back[-1].sum() < 1.15 * before


def test_nodes_are_asked_for_ahead_of_what_is_foretold() -> None:
    plant, controller, state = settled()
    held = plant.known[0, REPLICAS].sum() / INVENTORY.pool_cpu.mean()
    plant.pool["ready"] = round(held / POOLS)
    assert one_step(plant, controller, state, foretold(plant, 2.0)).nodes.sum() > 0


# --- Data that is missing or broken


def blind(plant: Plant, how: Literal["missing", "nan"]) -> None:
    if how == "missing":
        plant.missing[:, ::2] = 1
    else:
        plant.broken[::2] = True


@pytest.mark.parametrize("how", ["missing", "nan"])
def test_what_is_not_seen_is_not_lowered(how: Literal["missing", "nan"]) -> None:
    plant, controller, state = settled()
    before = plant.known[0, REPLICAS].copy()
    blind(plant, how)
    plant.work *= 0.2
    rows, state = plant.runs(controller, state, 40 * PER_MINUTE)
    assert (rows[:, ::2] >= before[::2]).all()
    assert (rows[-1, 1::2] < before[1::2]).any()
    plan = one_step(plant, controller, state)
    assert (plan.reason[0, ::2] == Reason.HOLD_NO_METRICS).all()


def test_traffic_that_breaks_off_does_not_scale_in_at_once() -> None:
    plant, controller, state = settled()
    before = plant.known[0, REPLICAS].copy()
    plant.work *= 0.1
    rows, state = plant.runs(controller, state, 8 * PER_MINUTE)
    assert (rows >= before).all()
    rows, _ = plant.runs(controller, state, 40 * PER_MINUTE)
    assert rows[-1].sum() < 0.7 * before.sum()


def test_a_surge_is_answered_in_the_same_tick() -> None:
    plant, controller, state = settled()
    before = plant.known[0, REPLICAS].copy()
    plant.work *= 3
    rows, state = plant.runs(controller, state, 1)
    assert (rows[0] > before).all()
    assert state.squad.overruns.sum() == 0


# --- Apps that come and go


def test_an_app_that_is_not_declared_is_left_alone() -> None:
    plant, controller, state = settled()
    before = plant.known[0, REPLICAS].copy()
    plant.known[:, ACTIVE, ::2] = 0
    plant.known[:, READY, ::2] = 0
    for _ in range(20 * PER_MINUTE):
        plan, state = controller.step(plant.seen(), None, state)
        plant.takes(plan)
        plant.known[:, READY, ::2] = 0
        assert (plan.replicas[0, ::2] == before[::2]).all()
        assert (plan.cpu[0, ::2] == 1000).all()


def test_an_app_that_is_not_declared_holds_nothing_of_the_budget() -> None:
    """What remains may grow into the room of those that are gone."""
    plant, controller, state = settled(nodes=2)
    plant.work[1::2] *= 2
    grown = []
    for active in (1, 0):
        other, memory = copy.deepcopy(plant), copy.deepcopy(state)
        other.known[:, ACTIVE, ::2] = active
        rows, memory = other.runs(controller, memory, 5 * PER_MINUTE)
        assert memory.squad.overruns.sum() == 0
        grown.append(int(rows[-1, 1::2].sum()))
    assert grown[0] < grown[1]


def test_an_app_that_moves_counts_where_it_is() -> None:
    plant, controller, state = settled(nodes=2)
    plant.known[:, DOMAIN] = 0
    _, state = plant.runs(controller, state, 5 * PER_MINUTE)
    assert state.orders is not None
    shared = state.orders.budget.pool_cores[0, :, -1]
    assert shared[0] > 50
    assert (shared[1:] < 1).all()
    assert state.squad.overruns.sum() == 0


# --- Capacity


def test_without_capacity_nothing_grows_and_nodes_are_asked_for() -> None:
    plant, controller = Plant(work=30.0), heuristic()
    plant.pool["ready"] = 0
    state = controller.start(plant.seen())
    rows, state = plant.runs(controller, state, 3 * PER_MINUTE)
    assert (rows <= 20).all()
    assert one_step(plant, controller, state).nodes.sum() > 0
    assert state.squad.overruns.sum() == 0


def test_nodes_are_asked_for_within_the_quota_and_for_the_highest_priority_first() -> None:
    plant, controller, state = settled(nodes=20)
    plant.work *= 40
    plant.pool["quota"] = 27
    plant.pool["coming"] = 3
    plan = one_step(plant, controller, state)
    assert (plan.nodes.sum(axis=2) <= 27 - 20 - 3).all()
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
    state = controller.start(plant.seen())
    _, state = plant.runs(controller, state, PER_MINUTE)
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
    _, state = plant.runs(controller, controller.start(plant.seen()), 15 * PER_MINUTE)
    priority = INVENTORY.priority[INVENTORY.domain]
    before = plant.known[0, REPLICAS].copy()
    plant.work[priority == 0] *= 6
    rows, state = plant.runs(controller, state, 10 * PER_MINUTE)
    assert rows[-1, priority == 3].sum() < before[priority == 3].sum()
    assert rows[-1, priority == 0].sum() > before[priority == 0].sum()
    assert state.squad.overruns.sum() == 0


# --- The shape of a controller


def test_a_plan_hangs_on_what_is_handed_in_and_on_nothing_else() -> None:
    """One controller that serves two clusters by turns decides as if it served each alone."""
    alone = [settled(), settled(work=14.0, nodes=8)]
    shared = heuristic()
    for plant, controller, state in alone:
        plant.tick += 1
        expected = one_step(plant, controller, state)
        for _, _, other in alone:
            one_step(plant, shared, other)
            assert same(one_step(plant, shared, state), expected)


def test_a_lost_tick_costs_no_budget() -> None:
    plant, controller, state = settled()
    _, state = plant.runs(controller, state, 1)
    assert state.orders is not None
    before = int(state.orders.budget.epoch[0])
    plant.tick += PER_MINUTE + 2
    _, state = controller.step(plant.seen(), None, state)
    assert state.orders is not None
    assert state.orders.budget.epoch[0] > before


def world_of(*events: Event, minutes: int = 10, seeds: tuple[int, ...] = (0,)) -> World:
    scenario = Scenario(
        name="short", shows="What the test needs.", start="Mon 10:00", length_minutes=minutes,
        warmup_minutes=3, events=events,
    )  # fmt: skip
    return World(CLUSTER, scenario, seeds, POPULATION)


SPIKE = Traffic(
    name="spike", target=Target(domains=("payments",)), at_minute=2, factor=2.5, hold_minutes=5
)
LESS = Traffic(name="less", target=Target(domains=ALL), at_minute=1, factor=0.5, hold_minutes=30)


@pytest.mark.parametrize("foreseen", [False, True])
def test_environments_do_not_know_of_each_other(foreseen: bool) -> None:
    seeds = (3, 4, 5)
    together = world_of(SPIKE, seeds=seeds)
    run(together, heuristic_of(together), calendar_of(together) if foreseen else None)
    for place, seed in enumerate(seeds):
        alone = world_of(SPIKE, seeds=(seed,))
        run(alone, heuristic_of(alone), calendar_of(alone) if foreseen else None)
        assert (alone.accounts.totals[0] == together.accounts.totals[place]).all()
        assert (alone.state.known[0] == together.state.known[place]).all()


def test_the_same_seed_brings_the_same_decisions() -> None:
    rows = []
    for _ in range(2):
        world = world_of(SPIKE)
        run(world, heuristic_of(world))
        rows.append(world.accounts.totals.copy())
    assert (rows[0] == rows[1]).all()


def test_the_controller_cannot_see_what_is_hidden() -> None:
    world = world_of(SPIKE)
    controller = heuristic_of(world)
    state = controller.start(world.observe())
    while world.tick < 30:
        plan, state = controller.step(world.observe(), None, state)
        world.step(plan)
    seen = copy.deepcopy(world.observe())
    before = copy.deepcopy(controller.step(seen, None, copy.deepcopy(state))[0])
    world.state.flow[:] *= 3
    world.state.samples[:] *= 3
    world.state.hidden[:] += 1
    world.state.room[:] = 0
    world.state.known[:] = 1
    assert same(controller.step(seen, None, copy.deepcopy(state))[0], before)


@pytest.mark.parametrize("mode", ["zero", "missing"])
def test_an_outage_of_metrics_lowers_and_overruns_nothing(mode: Literal["zero", "missing"]) -> None:
    """Traffic fell before, so that there is something to lower."""
    outage = MetricsOutage(
        name="blind", target=Target(domains=ALL), at_minute=3, mode=mode, length_minutes=17
    )
    world = world_of(LESS, outage, minutes=20, seeds=(0, 1))
    decisions = run(world, heuristic_of(world))
    assert decisions.missing_data_decreases.tolist() == [0, 0]
    assert decisions.budget_overruns is not None
    assert decisions.budget_overruns.tolist() == [0, 0]


@pytest.mark.parametrize(
    "change",
    [
        None,
        Change(name="late", target=Target(domains=ALL, share=0.3), change="appear", at_minute=4),
        Change(name="gone", target=Target(domains=ALL, share=0.3), change="vanish", at_minute=4),
        Change(
            name="moved", target=Target(domains=("data",)), change="move", at_minute=4,
            to_domain="internal",
        ),
    ],
    ids=lambda change: "none" if change is None else change.change,
)  # fmt: skip
def test_a_spike_overruns_no_budget(change: Change | None) -> None:
    world = world_of(SPIKE, *(() if change is None else (change,)), seeds=(0, 1))
    decisions = run(world, heuristic_of(world), calendar_of(world))
    assert decisions.budget_overruns is not None
    assert decisions.budget_overruns.tolist() == [0, 0]
    assert decisions.missing_data_decreases.tolist() == [0, 0]
