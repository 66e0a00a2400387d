"""A result row has the figures of the accounts."""

import numpy as np
import pytest

from models.sim import accounting
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import Scenario
from models.sim.results.summary import Decisions, Result, priority_weighted, quantile_s, summarise
from models.sim.world import World

BENCHMARK_FIELDS = {
    "scenario", "controller", "seed", "apps", "violation_minutes", "pw", "objective", "node_hours",
    "money", "scaling_actions", "pods_started", "reversals", "max_pending_pods",
    "need_to_ready_p95_s", "budget_overruns", "missing_data_decreases", "latency_p99_ms",
    "loops_per_day", "p3_share_while_p0_waits", "cpu_utilisation", "memory_utilisation",
}  # fmt: skip
HOUR_TICKS = 360


@pytest.fixture(scope="module")
def world() -> World:
    scenario = Scenario(name="hour", shows="Nothing.", start="Mon 10:00", length_minutes=60)
    return World(with_apps(load_sim_cluster(), 40), scenario, [3, 4])


@pytest.fixture
def row(world: World) -> Result:
    """Environment 1 after an hour in which the accounts came to round numbers."""
    accounts = world.accounts
    accounting.reset_accounts(accounts)
    totals = accounts.totals[1]
    totals[accounting.TICKS] = HOUR_TICKS
    totals[accounting.NODE_TICKS] = 10 * HOUR_TICKS
    totals[accounting.MONEY] = world.cluster.spend_cap_per_hour / 4
    totals[accounting.ACTIONS], totals[accounting.REVERSALS] = 200, 10
    totals[accounting.P0_WAIT_TICKS], totals[accounting.P3_HELD] = 20, 3.6
    totals[accounting.P3_HELD_OF_P0_POOLS] = 0.8
    totals[accounting.CPU_USED], totals[accounting.CPU_CAPACITY] = 65, 100
    totals[accounting.CRASHED], totals[accounting.OOM_KILLED] = 2, 3
    accounts.waits[1, 0, 3], accounts.waits[1, 4, 24] = 90, 10
    # Sums of requests x p99, and requests; the first two domains are P0.
    accounts.latency[1, :, :] = [[20, 100], [10, 100], [500, 100], [0, 0], [0, 0]]
    accounts.domains[1, :2, accounting.UNSCORED] = 5, 7
    accounts.domain_minutes[1] = [0.5, 2, 0, 0, 1]
    return summarise(world, "hpa", Decisions(np.array([5, 6])))[1]


def test_a_row_has_every_field_of_the_benchmark() -> None:
    assert not BENCHMARK_FIELDS.difference(Result.__struct_fields__)


def test_violation_minutes_are_by_the_priority_of_the_domain(row: Result) -> None:
    assert row.violation_minutes == {"P0": 2.5, "P1": 0.0, "P2": 0.0, "P3": 1.0}


def test_the_objective_is_weighted_violations_plus_node_hours(row: Result) -> None:
    assert row.node_hours == pytest.approx(10)
    minutes = row.violation_minutes
    assert row.pw == pytest.approx(10 * minutes["P0"] + 0.3 * minutes["P3"])
    assert row.objective == pytest.approx(row.pw + row.node_hours)
    assert priority_weighted({"P0": 1, "P2": 2}, {"P0": 10, "P2": 1}) == 12


def test_a_loop_is_two_reversals_scaled_to_a_day(row: Result) -> None:
    assert row.oscillation_rate == pytest.approx(0.05)
    assert row.loops_per_day == pytest.approx(5 * 24)


def test_latency_is_of_p0_domains_weighted_by_traffic(row: Result) -> None:
    assert row.latency_p99_ms == pytest.approx(1000 * 30 / 200)


def test_the_other_figures_come_from_the_accounts(row: Result) -> None:
    assert (row.seed, row.apps, row.controller, row.scenario) == (4, 40, "hpa", "hour")
    assert row.spend_cap_share == pytest.approx(0.25)
    assert row.p3_share_while_p0_waits == pytest.approx(0.18)
    assert row.p3_share_of_p0_pools_while_p0_waits == pytest.approx(0.04)
    assert row.p0_wait_ticks == 20
    assert (row.need_to_ready_p50_s, row.need_to_ready_p95_s) == (30, 240)
    assert row.cpu_utilisation == pytest.approx(0.65)
    assert (row.unscored_transactions, row.restarts) == (12, 5)


def test_overruns_are_counted_only_where_budgets_were_in_force(world: World, row: Result) -> None:
    assert row.missing_data_decreases == 6
    assert row.budget_overruns is None
    counted = summarise(world, "ours", Decisions(np.array([0, 0]), np.array([0, 2])))
    assert [each.budget_overruns for each in counted] == [0, 2]


def test_an_empty_run_has_zero_shares(world: World) -> None:
    accounting.reset_accounts(world.accounts)
    row = summarise(world, "hpa", Decisions(np.zeros(2, np.int64)))[0]
    assert row.objective == row.oscillation_rate == row.p3_share_while_p0_waits == 0
    assert row.need_to_ready_p95_s == row.latency_p99_ms == row.cpu_utilisation == 0


@pytest.mark.parametrize(("share", "seconds"), [(0.5, 20), (0.51, 50), (0.95, 50), (1.0, 50)])
def test_a_wait_quantile_is_the_first_time_that_covers_the_share(
    share: float, seconds: int
) -> None:
    waits = np.zeros(8, np.int64)
    waits[[2, 5]] = 10
    assert quantile_s(waits, share, 10.0) == seconds
