"""What the Commander derives from a forecast, and which nodes it keeps and requests."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster.arrays import F64, I32, Records
from models.control.budget import CommanderDecision
from models.control.commander import Commander, Outlook, affordable, look_ahead
from models.control.parameters import Parameters
from models.control.report import Report
from models.features.pools import PoolReadings
from models.forecaster.port import HORIZONS_MIN, QUANTILES, Forecast
from tests.unit.models.control.control_helpers import DOMAINS, INVENTORY, Plant

NOW: F64 = np.array([[100.0]])
TICK = np.zeros(1, np.int32)


def forecast_of(low: float, median: float, high: float, domains: int = 1) -> Forecast:
    values = np.array([low, median, high], np.float32)
    shape = (1, domains, len(HORIZONS_MIN), len(QUANTILES))
    return Forecast(
        model="by hand",
        made_tick=TICK,
        valid_until_tick=TICK + 6,
        domain=np.broadcast_to(values, shape),
        domain_peak=np.full(shape[:3], high, np.float32),
    )


def outlook(low: float, median: float, high: float) -> Outlook:
    return look_ahead(TICK, NOW, forecast_of(low, median, high))


# No deadline: the first example may compile kernels.
@settings(deadline=None)
@given(st.floats(0.0, 1e6), st.floats(0.0, 1e6))
def test_growth_and_headroom_of_a_forecast_are_bounded(median: float, more: float) -> None:
    found = outlook(0.0, median, median + more)
    assert 1.0 <= found.soon[0, 0] <= 4.0
    assert ((found.ahead >= 1.0) & (found.ahead <= 4.0)).all()
    forecast = forecast_of(0.0, median, median + more, DOMAINS)
    pools = PoolReadings(Plant().pool, INVENTORY)
    decision = Commander(INVENTORY, Parameters()).decide(TICK, pools, REPORT, forecast, TICK)
    granted = decision.directive.budget.headroom
    assert ((granted >= 0.0) & (granted <= 0.1 + 1e-9)).all()


def test_the_width_of_a_forecast_is_relative_to_its_median() -> None:
    assert outlook(95.0, 100.0, 105.0).width[0, 0] == pytest.approx(0.05, rel=1e-3)
    assert outlook(95.0, 100.0, 90.0).width[0, 0] == 0.0


def test_without_a_forecast_there_is_no_growth_and_no_width() -> None:
    found = look_ahead(TICK, NOW, None)
    assert (found.soon[0, 0], found.width[0, 0]) == (1.0, 0.0)
    assert (found.ahead == 1.0).all()


def headroom(of: list[float], spare: float) -> list[float]:
    """Of domains with 100 cores of work each."""
    work = np.full((1, len(of)), 100.0)
    found: list[float] = affordable(np.array([of]), work, np.array([spare]))[0].tolist()
    return found


def test_headroom_is_cut_to_the_spare_cores() -> None:
    assert headroom([0.1, 0.05], 15.0) == [0.1, 0.05]
    assert headroom([0.1, 0.05], 3.0) == pytest.approx([0.02, 0.01])
    assert headroom([0.0, 0.0], 3.0) == [0.0, 0.0]


@pytest.mark.parametrize("spare", [0.0, -50.0])
def test_there_is_no_headroom_without_spare_cores(spare: float) -> None:
    assert headroom([0.1, 0.05], spare) == [0.0, 0.0]


def each(cores: float) -> F64:
    """The same for every domain."""
    return np.full((1, DOMAINS), cores)


def decided(report: Report, pool: Records, spend_cap: float = 1e9) -> CommanderDecision:
    inventory = INVENTORY._replace(spend_cap_per_hour=spend_cap)
    pools = PoolReadings(pool, inventory)
    return Commander(inventory, Parameters()).decide(TICK, pools, report, None, TICK)


REPORT = Report(
    work=each(100.0), essential=each(118.0), kept=each(150.0), wanted=each(200.0),
    held=each(200.0), held_memory_gib=each(200.0), pending=each(0.0), distress=each(0.0),
    rps=each(1.0), at_risk=each(0.0), apps=each(8.0),
)  # fmt: skip
"""All domains hold what they want, twice their work."""


def released(by: int, *lacking: int) -> float:
    """Cores that a domain releases while others lack many."""
    distress = each(0.0)
    distress[0, list(lacking)] = 500.0
    decision = decided(REPORT._replace(distress=distress), Plant(nodes=1).pool)
    return float(decision.directive.release[0, by])


def test_the_highest_priority_gives_way_to_its_equals_but_not_to_its_callers() -> None:
    caller, callee = np.flatnonzero(INVENTORY.priority == 0)[:2]
    assert INVENTORY.calls[caller, callee] > 0.0
    assert released(caller, callee) > 0.0
    # The surge of a caller reaches those that it calls next.
    assert released(callee, caller) == 0.0


def test_the_highest_priority_keeps_its_room_for_surges_while_it_lacks_capacity_itself() -> None:
    caller, callee = np.flatnonzero(INVENTORY.priority == 0)[:2]
    lower = int(np.flatnonzero(INVENTORY.priority == 1)[0])
    assert released(callee, lower) > 0.0
    assert released(callee, lower, caller) == 0.0


def full_pools(nodes: int) -> Records:
    """Every pool has this many nodes, full of pods."""
    pool = Plant(nodes=nodes).pool
    pool["free_cpu"] = pool["free_memory"] = 0.0
    pool["quota"] = 100 * nodes
    return pool


def test_nodes_are_kept_where_pods_are_and_not_once_more_in_preferred_pools() -> None:
    preferred = INVENTORY.domain_pools[0, 0]
    pool = full_pools(4)
    # Its pods are in the other pool of the domain, and its own pool is empty.
    pool["free_cpu"][0, preferred] = 4 * INVENTORY.pool_cpu[preferred]
    pool["free_memory"][0, preferred] = 4 * INVENTORY.pool_memory[preferred]
    decision = decided(REPORT, pool)
    assert decision.keep[0, preferred] == 0
    assert (np.delete(decision.keep[0], preferred) >= 4).all()


def test_spare_nodes_are_a_share_of_those_that_pods_fill() -> None:
    decision = decided(REPORT, full_pools(100))
    assert (decision.keep[0] == 110).all()  # a tenth, the default
    assert (decision.nodes[0].sum(axis=1) == decision.keep[0] - 100).all()


def rising(later: float, parameters: Parameters) -> I32:
    """Nodes to keep when all domains grow to `later` in half an hour, and not before."""
    median = np.full((1, DOMAINS, len(HORIZONS_MIN), len(QUANTILES)), 1.0, np.float32)
    median[:, :, HORIZONS_MIN.index(30)] = later
    forecast = Forecast("by hand", TICK, TICK + 6, median, median[..., 0])
    pools = PoolReadings(full_pools(4), INVENTORY)
    decision = Commander(INVENTORY, parameters).decide(TICK, pools, REPORT, forecast, TICK)
    kept: I32 = decision.keep[0]
    return kept


def test_nodes_for_a_later_rise_are_requested_once_the_cloud_needs_the_time() -> None:
    quick, slow = Parameters(arrival=0.04), Parameters(arrival=0.0)
    assert (rising(2.0, quick) == rising(1.0, quick)).all()
    assert rising(2.0, slow).sum() > rising(1.0, slow).sum()


def test_what_a_domain_lacks_is_requested_in_its_preferred_pool() -> None:
    preferred = INVENTORY.domain_pools[0, 0]
    wanted = REPORT.wanted.copy()
    wanted[0, 0] += 10 * float(INVENTORY.pool_cpu[preferred])
    before = decided(REPORT, full_pools(4)).nodes[0].sum(axis=1)
    after = decided(REPORT._replace(wanted=wanted), full_pools(4)).nodes[0].sum(axis=1)
    more = after - before
    assert more[preferred] >= 10
    assert (np.delete(more, preferred) == 0).all()


def test_no_node_is_requested_beyond_the_spend_cap() -> None:
    report = REPORT._replace(distress=each(500.0), wanted=each(900.0))
    free = decided(report, full_pools(4))
    assert free.nodes.sum() > 0
    pools = PoolReadings(full_pools(4), INVENTORY)
    cap = float(pools.price_per_hour[0]) + 3 * float(pools.price.max())
    capped = decided(report, full_pools(4), cap)
    assert 0 < capped.nodes.sum() < free.nodes.sum()
    assert 0.0 <= capped.spend_left[0] < pools.price.max() * INVENTORY.pool_cpu.size
    # What is urgent comes first.
    assert capped.nodes[0, :, 2:].sum() == 0
