"""The projection fits a domain's wishes into its budget and shares scarcity by load."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster.arrays import F32, F64, I32
from models.control.projection import (
    MEBIBYTES,
    MILLICORES,
    RESOURCES,
    bisection_scratch,
    project,
    sum_held,
)

APPS, DOMAINS = 40, 4
seeds = st.integers(0, 2**32 - 1)
often = settings(max_examples=60, deadline=None)


class ProjectionCase(NamedTuple):
    """What the apps of some domains have and want, and their load."""

    wanted: I32
    current: I32
    load: F32
    size: I32
    """[2, A]."""
    domain: I32

    def holds(self, replicas: I32) -> F64:
        """[2, D]."""
        held = np.zeros((RESOURCES, DOMAINS))
        sum_held(replicas, self.size, self.domain, held)
        return held

    def within(self, limit: F64, wanted: I32 | None = None) -> I32:
        """Replicas after the projection."""
        result = (self.wanted if wanted is None else wanted).copy()
        scratch = bisection_scratch(DOMAINS)
        project(result, self.current, self.load, self.size, self.domain, limit, scratch)
        return result


def random_case(seed: int) -> ProjectionCase:
    rng = np.random.default_rng(seed)
    current = rng.integers(0, 50, APPS)
    wanted = np.maximum(0, current + rng.integers(-10, 60, APPS))
    # From idle to what no number of its pods could carry.
    load = current * rng.choice([0.0, 0.1, 0.5, 1.0, 2.0, 30.0], APPS) * rng.random(APPS)
    return ProjectionCase(
        wanted.astype(np.int32),
        current.astype(np.int32),
        load.astype(np.float32),
        rng.integers(1, 4000, (RESOURCES, APPS)).astype(np.int32),
        rng.integers(0, DOMAINS, APPS).astype(np.int32),
    )


cases = seeds.map(random_case)
some_shares = st.lists(st.floats(0, 1.2), min_size=DOMAINS, max_size=DOMAINS)
shares = st.tuples(some_shares, some_shares).map(np.array)
"""Of either resource, so that now one binds and now the other."""


def between(case: ProjectionCase, share: F64) -> F64:
    """Limits from what is held without growth to more than all apps want."""
    least = case.holds(np.minimum(case.wanted, case.current))
    return least + share * (case.holds(case.wanted) - least)


@often
@given(cases)
def test_holdings_are_summed_by_domain_in_whatever_order_apps_come(case: ProjectionCase) -> None:
    expected = [
        np.bincount(case.domain, case.wanted.astype(np.float64) * size, DOMAINS)
        for size in case.size
    ]
    assert (case.holds(case.wanted) == expected).all()


@often
@given(cases, shares)
def test_a_domain_holds_no_more_than_its_limit_if_it_did_not_before(
    case: ProjectionCase, share: F64
) -> None:
    limit = between(case, share)
    assert (case.holds(case.within(limit)) <= limit).all()


@often
@given(cases, shares)
def test_a_domain_beyond_its_limit_gets_nothing_more(case: ProjectionCase, share: F64) -> None:
    limit = 0.99 * np.minimum(share, 1.0) * case.holds(np.minimum(case.wanted, case.current))
    result, stuck = case.within(limit), case.holds(case.current).max(axis=0) > 0
    grown = (result > case.current) & stuck[case.domain]
    assert not grown.any()


@often
@given(cases, shares)
def test_no_app_is_cut_below_what_it_has_or_above_what_it_wants(
    case: ProjectionCase, share: F64
) -> None:
    result = case.within(between(case, share))
    assert (result >= np.minimum(case.current, case.wanted)).all()
    assert (result <= case.wanted).all()


@often
@given(cases, shares)
def test_the_projection_is_idempotent(case: ProjectionCase, share: F64) -> None:
    limit = between(case, share)
    once = case.within(limit)
    assert (case.within(limit, once) == once).all()


@often
@given(cases, shares, shares)
def test_a_higher_limit_takes_nothing_from_any_app(
    case: ProjectionCase, share: F64, more: F64
) -> None:
    lower, higher = between(case, share), between(case, share + more)
    assert (case.within(higher) >= case.within(lower)).all()


@often
@given(cases, shares)
def test_apps_of_a_short_domain_end_at_a_common_utilisation(
    case: ProjectionCase, share: F64
) -> None:
    """With one pod more, none that was cut would be fuller than one that was raised."""
    result = case.within(between(case, share))
    for domain in range(DOMAINS):
        own = case.domain == domain
        raised = own & (result > case.current)
        cut = own & (result < case.wanted) & (case.current < case.wanted)
        if raised.any() and cut.any():
            fullest = (case.load[cut] / (result[cut] + 1)).max()
            assert fullest <= (case.load[raised] / result[raised]).min() * 1.0001


@often
@given(cases, shares, st.integers(0, DOMAINS - 1))
def test_the_shortage_of_one_domain_does_not_touch_another(
    case: ProjectionCase, share: F64, domain: int
) -> None:
    limit = np.full((RESOURCES, DOMAINS), np.inf)
    limit[:, domain] = between(case, share)[:, domain]
    result, others = case.within(limit), case.domain != domain
    assert (result[others] == case.wanted[others]).all()


@often
@given(cases)
def test_without_a_limit_every_app_gets_what_it_wants(case: ProjectionCase) -> None:
    assert (case.within(np.full((RESOURCES, DOMAINS), np.inf)) == case.wanted).all()


@often
@given(cases, shares)
def test_a_load_of_nan_or_infinity_cannot_break_the_limit(case: ProjectionCase, share: F64) -> None:
    case.load[::3] = np.nan
    case.load[1::3] = np.inf
    limit = between(case, share)
    assert (case.holds(case.within(limit)) <= limit).all()


def two(load: list[float], limit: float, wanted: int = 100, scarce: int = MILLICORES) -> list[int]:
    """Two apps of 10 pods, in one domain that may hold `limit` pods of the scarce resource."""
    case = ProjectionCase(
        np.full(2, wanted, np.int32),
        np.full(2, 10, np.int32),
        np.array(load, np.float32),
        np.full((RESOURCES, 2), 1000, np.int32),
        np.zeros(2, np.int32),
    )
    limits = np.full((RESOURCES, DOMAINS), np.inf)
    limits[scarce, 0] = 1000.0 * limit
    result: list[int] = case.within(limits).tolist()
    return result


@pytest.mark.parametrize("scarce", [MILLICORES, MEBIBYTES])
def test_twice_the_load_is_given_twice_the_pods(scarce: int) -> None:
    assert two([40.0, 20.0], 60, scarce=scarce) == pytest.approx([40, 20], abs=1)


def test_a_full_app_is_served_before_one_with_room() -> None:
    assert two([40.0, 5.0], 50) == pytest.approx([40, 10], abs=1)


@pytest.mark.parametrize("times", [5, 9, 1000])
def test_an_overloaded_app_is_not_raised_beyond_the_limit(times: int) -> None:
    assert sum(two([10.0 * times, 10.0 * times], 21, wanted=20_000)) <= 21
