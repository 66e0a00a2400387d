"""What `survive: zone` adds to decisions, what it costs, and what it must never break."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster.arrays import F64
from models.cluster.inventory import Inventory
from models.control.budget import CommanderDecision
from models.control.commander import Commander
from models.control.hierarchy import Heuristic
from models.control.insurance import StandingNodes, StandingPods
from models.control.parameters import Parameters, Parts
from models.control.report import Report
from models.features.pools import PoolReadings
from tests.unit.models.control.control_helpers import (
    DOMAINS,
    INVENTORY,
    PER_MINUTE,
    POOLS,
    Plant,
)

TICK = np.zeros(1, np.int32)
PARAMETERS = Parameters()
P0 = np.flatnonzero(INVENTORY.priority == 0)
NOT_P0 = np.flatnonzero(INVENTORY.priority > 0)
P3 = int(np.flatnonzero(INVENTORY.priority == 3)[0])


def insured(domains: list[int], zones: int = 3) -> Inventory:
    """The cluster with these domains insured, and this many zones in every pool."""
    survives = np.isin(np.arange(DOMAINS), domains)
    return INVENTORY._replace(survives_zone=survives, pool_zones=np.full(POOLS, zones, np.int32))


def each(cores: float) -> F64:
    """The same for every domain."""
    return np.full((1, DOMAINS), cores)


def report_of(distress: dict[int, float] | None = None) -> Report:
    """All domains hold the 1,000 cores that they want."""
    lacking = each(0.0)
    for domain, cores in (distress or {}).items():
        lacking[0, domain] = cores
    return Report(
        work=each(500.0), essential=each(590.0), kept=each(800.0), wanted=each(1000.0),
        held=each(1000.0), held_memory_gib=each(1000.0), pending=each(0.0), distress=lacking,
        rps=each(1.0), at_risk=each(0.0), apps=each(8.0),
    )  # fmt: skip


def beyond(
    inventory: Inventory, headroom: float = 0.0, distress: dict[int, float] | None = None
) -> list[float]:
    pods = StandingPods(inventory, PARAMETERS)
    _, found = pods.insured(each(headroom), report_of(distress))
    shares: list[float] = found[0].tolist()
    return shares


def nodes(spare: float, part: float, held: float = 1000.0, cushion: float = 0.0) -> StandingNodes:
    """Of the first domain alone, in a preferred pool with 20 filled nodes of 50 cores.

    `part` of what it wants is insured, and `cushion` comes on top.
    """
    inventory = insured([int(P0[0])])
    filled = np.zeros((1, POOLS))
    filled[0, inventory.domain_pools[P0[0], 0]] = held / 50.0
    report = report_of()._replace(held=each(held))
    insured_part, standing = each(0.0), each(0.0)
    insured_part[0, P0[0]], standing[0, P0[0]] = part, part + cushion
    size = np.full((1, DOMAINS, POOLS), 50.0)
    share = np.array([[spare]])
    pods = StandingPods(inventory, PARAMETERS)
    return pods.nodes(filled, share, size, report, standing, insured_part)


def test_what_is_left_after_a_loss_carries_the_work() -> None:
    plant, inventory = Plant(work=9.0, nodes=40), insured(P0.tolist())
    controller = Heuristic(inventory, POOLS, PARAMETERS, Parts())
    replicas, _ = plant.run(controller, controller.start(plant.observe()), 15 * PER_MINUTE)
    of_insured = np.isin(inventory.domain, P0)
    left = replicas[-1] * 2.0 / 3.0
    assert (9.0 / left[of_insured] <= 0.75 + 1e-3).all()
    assert (9.0 / left[~of_insured] > 0.75).any()


def test_the_more_zones_the_less_it_takes() -> None:
    two, three, ten = (beyond(insured([0], zones))[0] for zones in (2, 3, 10))
    assert two > three > ten >= 0.0


def test_a_domain_with_low_targets_needs_nothing_more() -> None:
    pods = StandingPods(insured([0], 10), Parameters(target_p0=0.5))
    raised, more = pods.insured(each(0.0), report_of())
    assert raised[0, 0] == more[0, 0] == 0.0


def test_headroom_for_demand_counts() -> None:
    inventory = insured([0])
    without, some, all_of_it = (beyond(inventory, room)[0] for room in (0.0, 0.02, 5.0))
    assert some == pytest.approx(without - 0.02)
    assert all_of_it == 0.0


def test_a_policy_that_cuts_headroom_cuts_no_insurance_and_insures_nobody() -> None:
    inventory = insured([0])
    raised, more = StandingPods(inventory, PARAMETERS).insured(each(-0.1), report_of())
    assert raised[0, 0] == more[0, 0] == beyond(inventory)[0]
    assert (raised[0, 1:] == -0.1).all()
    assert (more[0, 1:] == 0.0).all()


def test_present_work_of_high_priorities_comes_before_insurance_that_of_low_ones_does_not() -> None:
    inventory = insured([int(P0[0])])
    insurance = beyond(inventory)
    assert insurance[P0[0]] > 0.0
    assert beyond(inventory, distress={int(P0[1]): 200.0})[P0[0]] == 0.0
    assert beyond(inventory, distress={P3: 200.0}) == insurance


def test_spare_nodes_count_and_only_what_exceeds_them_is_the_price() -> None:
    # 20 nodes are filled, 2 of them by insurance: 18 with a spare tenth need 19.8 anyway.
    within = nodes(spare=0.1, part=0.1)
    assert within.price.sum() == pytest.approx(0.2)
    assert within.kept.sum() == pytest.approx(20.0)
    assert nodes(spare=0.2, part=0.1).price.sum() == 0.0
    assert nodes(spare=0.2, part=0.1).kept.sum() == pytest.approx(18.0 * 1.2)
    assert nodes(spare=0.0, part=0.1).price.sum() == pytest.approx(2.0)


def test_of_pods_that_are_missing_the_insured_ones_are_missing_first() -> None:
    assert nodes(spare=0.0, part=0.1, held=950.0).price.sum() == pytest.approx(1.0)
    assert nodes(spare=0.0, part=0.1, held=800.0).price.sum() == 0.0


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_without_insured_domains_every_number_stays_as_it_is(seed: int, spare: float) -> None:
    rng = np.random.default_rng(seed)
    filled, headroom = rng.uniform(0, 1e6, (2, POOLS)), rng.uniform(-0.5, 0.5, (2, DOMAINS))
    pods, report = StandingPods(insured([]), PARAMETERS), report_of()
    raised, more = pods.insured(headroom, report)
    assert pods.cushioned(headroom, report).tobytes() == headroom.tobytes()
    assert (more == 0.0).all()
    assert raised.tobytes() == headroom.tobytes()
    size = np.full((2, DOMAINS, POOLS), 50.0)
    found = pods.nodes(filled, np.full((2, 1), spare), size, report, more, more)
    assert (found.kept == filled * (1.0 + spare)).all()
    assert (found.price == 0.0).all()


def test_a_cushion_stands_while_high_priorities_are_served_and_is_no_insurance() -> None:
    pods = StandingPods(INVENTORY, Parameters(cushion_p0=0.3, cushion_p1=0.2))
    by_priority = np.array([0.3, 0.2, 0.0, 0.0])[INVENTORY.priority]
    assert pods.cushioned(each(0.0), report_of())[0] == pytest.approx(by_priority)
    # More headroom than that stays as it is.
    assert pods.cushioned(each(0.25), report_of())[0, P0] == pytest.approx(0.3)
    assert pods.cushioned(each(0.25), report_of())[0, NOT_P0] == pytest.approx(0.25)
    lacking = report_of({int(P0[0]): 200.0})
    assert (pods.cushioned(each(0.0), lacking) == 0.0).all()
    _, more = pods.insured(pods.cushioned(each(0.0), report_of()), report_of())
    assert (more == 0.0).all()


def test_nodes_of_a_cushion_replace_spare_ones_and_have_no_price() -> None:
    # 20 nodes are filled, 2 of them by a cushion: 18 with a spare tenth need 19.8.
    found = nodes(spare=0.1, part=0.0, cushion=0.1)
    assert found.kept.sum() == pytest.approx(20.0)
    assert found.price.sum() == 0.0
    # Insurance beside it costs what the cushion leaves no spare node for.
    both = nodes(spare=0.1, part=0.1, cushion=0.1)
    assert both.kept.sum() == pytest.approx(20.0)
    assert both.price.sum() == pytest.approx(4.0 - 1.6 - (2.0 - 1.6))


def test_a_cushion_is_claimed_after_the_comfort_of_all() -> None:
    report = report_of()
    # More than there is: 12 nodes in each pool.
    plain, cushioned = (
        decided(INVENTORY, report, 12, 12, Parameters(cushion_p0=share)).directive.budget
        for share in (0.0, 0.3)
    )
    assert cushioned.headroom[0, P0] == pytest.approx(0.3)
    assert (cushioned.cores[0, NOT_P0] >= plain.cores[0, NOT_P0] - 1e-6).all()


def decided(
    inventory: Inventory,
    report: Report,
    nodes_of_pool: int,
    quota: int,
    parameters: Parameters = PARAMETERS,
) -> CommanderDecision:
    pool = Plant(nodes=nodes_of_pool).pool
    pool["quota"] = quota
    # Full of pods.
    pool["free_cpu"] = pool["free_memory"] = 0.0
    pools = PoolReadings(pool, inventory)
    return Commander(inventory, parameters).decide(TICK, pools, report, None, TICK)


# No deadline: the first example may compile kernels.
@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.sets(st.integers(0, DOMAINS - 1)),
    st.integers(2, 5),
    st.integers(1, 40),
    st.integers(0, 40),
    st.floats(0, 500),
)
def test_shares_quotas_and_the_spend_cap_hold_with_any_insurance(
    seed: int, domains: set[int], zones: int, ready: int, more: int, left: float
) -> None:
    work, held, distress = np.random.default_rng(seed).uniform(0, 5000, (3, 1, DOMAINS))
    # Insurance is suspended where high priorities lack pods: both cases count.
    distress *= seed % 2
    price = float(INVENTORY.pool_price.sum()) * ready
    inventory = insured(list(domains), zones)._replace(spend_cap_per_hour=price + left)
    report = report_of()._replace(
        work=work, essential=work / 0.85, kept=np.maximum(held, work), wanted=2.0 * work,
        held=held, held_memory_gib=held, distress=distress,
    )  # fmt: skip
    found = decided(inventory, report, ready, ready + more)
    budget = found.directive.budget
    assert budget.share.sum() + budget.reserve.sum() == pytest.approx(1.0)
    assert (budget.share >= 0.0).all()
    assert (found.keep <= ready + more).all()
    requested = found.nodes.sum(axis=2)
    assert (requested <= more).all()
    assert (requested @ INVENTORY.pool_price <= left + 1e-3).all()
    assert ((found.insured >= 0) & (found.insured <= found.keep)).all()
    assert (budget.insured <= budget.headroom).all()
    assert (budget.insured[0, sorted(set(range(DOMAINS)) - domains)] == 0.0).all()


def test_insurance_takes_nothing_from_the_work_of_others_and_what_they_hold_beyond_it() -> None:
    """Pods that a domain wants for insurance are comfort; what others hold idle yields to them."""
    inventory = insured(P0.tolist())
    report = report_of()
    wanted = report.wanted.copy()
    wanted[0, P0] *= 1.3
    hungry = report._replace(wanted=wanted)
    pools = decided(inventory, report, 12, 12), decided(inventory, hungry, 12, 12)
    before, after = (one.directive.budget.cores[0] for one in pools)
    assert after[P0].sum() >= before[P0].sum()
    capacity = 12 * float(INVENTORY.pool_cpu.sum())
    assert capacity < wanted.sum()
    assert (after[NOT_P0] >= np.minimum(report.essential[0, NOT_P0], before[NOT_P0]) - 1e-6).all()
