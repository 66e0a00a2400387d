"""Budgets: all capacity is divided once, the highest priority first."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster.arrays import F64, I32
from models.control.budget import (
    OVERDRAFT,
    Claims,
    Pools,
    divide,
    no_directive,
    overdrafts,
    reserve_cores,
)

seeds = st.integers(0, 2**32 - 1)
often = settings(max_examples=30)
EXACT = 1e-9
MANY = 16
"""Clusters that are divided at once."""
DOMAINS, POOLS = 5, 4
PRIORITY = np.array([0, 0, 1, 2, 3], np.int32)
OWN_AND_SHARED = np.array([[0, 3], [1, 3], [2, 3], [3, -1], [3, -1]], np.int32)
"""Three domains with a pool of their own, and a pool that all may use."""


class Case(NamedTuple):
    """A cluster to divide."""

    claims: Claims
    pools: Pools
    reserve: float

    def divided(self, **changed: F64) -> tuple[F64, F64]:
        """Grants [E, D, P] and reserve [E], with some of the claims changed."""
        return divide(self.claims._replace(**changed), PRIORITY, self.pools, self.reserve)


def claims_of(floor: F64, essential: F64, kept: F64, comfort: F64, held: F64) -> Claims:
    """Claims in ascending order: each is at least as large as the one before."""
    kept = np.maximum(kept, essential)
    return Claims(floor, essential, kept, np.maximum(kept, comfort), held)


def cores_of(rng: np.random.Generator, *shape: int) -> F64:
    """Of any magnitude: none, a rounding error, a large pool."""
    # Around _LEAST as well, where rounding could grant a little too much.
    scale = rng.choice([0.0, 1e-12, 1e-9, 1.0, 100.0, 2000.0], shape)
    cores: F64 = scale * rng.random(shape)
    return cores


def any_pools(rng: np.random.Generator) -> I32:
    """Any pools in any order; a domain may even have none."""
    choices = np.full((DOMAINS, POOLS), -1, np.int32)
    for row in choices:
        some = rng.permutation(POOLS)[: rng.integers(0, POOLS + 1)]
        row[: some.size] = some
    return choices


def case_of(rng: np.random.Generator, choices: I32) -> Case:
    cores = cores_of(rng, MANY, POOLS)
    shares = np.array([0.2, 0.1, 0.1, 0.05, 0.02]) * rng.random()
    wishes = (cores_of(rng, MANY, DOMAINS) for _ in range(4))
    claims = claims_of(shares * cores.sum(axis=1, keepdims=True), *wishes)
    return Case(claims, Pools(cores, 4 * cores, choices), 0.3 * rng.random())


def cases() -> st.SearchStrategy[Case]:
    return seeds.map(np.random.default_rng).map(lambda rng: case_of(rng, any_pools(rng)))


def usual_cases() -> st.SearchStrategy[Case]:
    return seeds.map(np.random.default_rng).map(lambda rng: case_of(rng, OWN_AND_SHARED))


@often
@given(cases())
def test_shares_and_reserve_are_exactly_one(case: Case) -> None:
    grant, reserve = case.divided()
    total = case.pools.cores.sum(axis=1)
    share = grant.sum(axis=(1, 2)) / np.maximum(total, EXACT)
    assert share + reserve == pytest.approx(1.0, abs=EXACT)
    assert (reserve >= -EXACT).all()


@often
@given(cases())
def test_no_grant_is_negative(case: Case) -> None:
    assert (case.divided()[0] >= 0).all()


@often
@given(cases())
def test_no_pool_is_granted_beyond_its_cores(case: Case) -> None:
    granted = case.divided()[0].sum(axis=1)
    reserved = reserve_cores(case.pools, case.reserve)
    assert (granted + reserved <= case.pools.cores * (1 + EXACT) + EXACT).all()


@often
@given(cases())
def test_no_domain_is_granted_a_pool_it_may_not_use(case: Case) -> None:
    grant, _ = case.divided()
    may = (case.pools.choices[:, :, None] == np.arange(POOLS)).any(axis=1)
    assert (grant[:, ~may] == 0).all()


@often
@given(usual_cases())
def test_no_share_is_below_its_floor_while_that_is_feasible(case: Case) -> None:
    promised = np.minimum(case.claims.essential, case.claims.floor)
    free = (case.pools.cores - reserve_cores(case.pools, case.reserve))[:, -1]
    feasible = promised.sum(axis=1) <= free
    assert (case.divided()[0].sum(axis=2) >= promised - EXACT)[feasible].all()


@often
@given(cases())
def test_essential_need_of_p0_comes_before_all_but_the_floor_of_p3(case: Case) -> None:
    grant, _ = case.divided()
    claims, granted = case.claims, grant.sum(axis=2)
    promised = np.minimum(claims.essential, claims.floor)
    for domain in np.flatnonzero(PRIORITY == 0):
        lacks = granted[:, domain] < claims.essential[:, domain] * (1 - EXACT) - EXACT
        pools = case.pools.choices[domain]
        lowest = np.flatnonzero(PRIORITY == 3)
        taken = grant[:, lowest][:, :, pools[pools >= 0]].sum(axis=2)
        assert (taken <= promised[:, lowest] * (1 + EXACT) + EXACT)[lacks].all()


@often
@given(usual_cases(), st.floats(0, 500), st.integers(0, 1))
def test_a_p0_domain_that_needs_more_is_never_granted_less(
    case: Case, more: float, domain: int
) -> None:
    raised = []
    for claim in case.claims[1:4]:
        higher = claim.copy()
        higher[:, domain] += more
        raised.append(higher)
    essential, kept, comfort = raised
    before = case.divided()[0][:, domain].sum(axis=1)
    after = case.divided(essential=essential, kept=kept, comfort=comfort)[0][:, domain].sum(axis=1)
    assert (after >= before * (1 - EXACT) - 1e-6).all()


@often
@given(seeds.map(np.random.default_rng))
def test_overdrafts_stay_within_the_reserve_and_a_tenth_of_each_budget(
    rng: np.random.Generator,
) -> None:
    cores, reserve = cores_of(rng, MANY, DOMAINS), cores_of(rng, MANY)
    drawn = overdrafts(cores, reserve, PRIORITY)
    assert (drawn >= 0).all()
    assert (drawn <= OVERDRAFT * cores * (1 + EXACT)).all()
    assert (drawn.sum(axis=1) <= reserve * (1 + EXACT)).all()


def simple(shared: float, essential: list[float], floor: float = 0.0) -> Case:
    """All domains in one pool, with comfort equal to what is essential."""
    need = np.array([essential])
    cores = np.array([[0.0, 0.0, 0.0, shared]])
    claims = claims_of(np.full_like(need, floor), need, need, need, need)
    return Case(claims, Pools(cores, 4 * cores, OWN_AND_SHARED), 0.0)


def test_scarcity_is_taken_from_the_lowest_priority_first() -> None:
    grant, _ = simple(100.0, [30.0, 30.0, 30.0, 30.0, 30.0]).divided()
    assert grant.sum(axis=2)[0] == pytest.approx([30, 30, 30, 10, 0])


def test_two_domains_of_one_priority_share_what_is_short() -> None:
    grant, _ = simple(60.0, [30.0, 90.0, 30.0, 30.0, 30.0]).divided()
    assert grant.sum(axis=2)[0] == pytest.approx([15, 45, 0, 0, 0])


def test_a_floor_holds_against_a_higher_priority() -> None:
    grant, _ = simple(100.0, [80.0, 80.0, 30.0, 30.0, 30.0], floor=5.0).divided()
    assert grant.sum(axis=2)[0] == pytest.approx([42.5, 42.5, 5, 5, 5])


def test_a_floor_that_is_not_needed_is_lent() -> None:
    grant, _ = simple(100.0, [50.0, 50.0, 0.0, 0.0, 0.0], floor=20.0).divided()
    assert grant.sum(axis=2)[0] == pytest.approx([50, 50, 0, 0, 0])


def test_own_pools_are_used_before_the_shared_one() -> None:
    case = simple(100.0, [30.0, 0.0, 0.0, 0.0, 0.0])
    case.pools.cores[:, 0] = 20.0
    grant, _ = case.divided()
    assert grant[0, 0] == pytest.approx([20, 0, 0, 100], abs=1e-6)
    case.claims.comfort[:, 4] = 50.0
    grant, _ = case.divided()
    assert grant[0, 0, 0] == pytest.approx(20)
    assert grant[0, 0, 3] >= 10


def test_no_domain_releases_what_no_other_claims() -> None:
    """Holdings beyond every claim come before the rest is spread."""
    case = simple(100.0, [10.0, 0.0, 0.0, 0.0, 0.0])
    case.claims.held[:, 4] = 60.0
    grant, _ = case.divided()
    assert grant[0, 4].sum() >= 60


def test_the_reserve_is_kept_in_shared_pools() -> None:
    cores = np.array([[100.0, 0.0, 0.0, 100.0]])
    kept = reserve_cores(Pools(cores, cores, OWN_AND_SHARED), 0.1)
    assert kept[0] == pytest.approx([0, 0, 0, 20])
    kept = reserve_cores(Pools(cores, cores, OWN_AND_SHARED), 0.4)
    assert kept[0] == pytest.approx([0, 0, 0, 50])


def test_a_cluster_without_capacity_is_all_reserve() -> None:
    case = simple(0.0, [10.0, 10.0, 10.0, 10.0, 10.0], floor=1.0)
    grant, reserve = case.divided()
    assert (grant == 0).all()
    assert reserve == pytest.approx(1.0)
    assert (overdrafts(grant.sum(axis=2), reserve * 0.0, PRIORITY) == 0).all()


def test_epoch_and_validity_of_the_first_directive_are_separate_arrays() -> None:
    budget = no_directive(1, DOMAINS, POOLS).budget
    budget.epoch[0], budget.valid_until_tick[0] = 1, 24
    assert (budget.epoch[0], budget.valid_until_tick[0]) == (1, 24)
