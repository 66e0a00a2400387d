"""When a domain cannot carry all of its apps, it carries those that save the most requests."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster import rows
from models.cluster.arrays import F32, F64, I32
from models.cluster.plan import Reason
from models.control.projection import MEBIBYTES, MILLICORES, RESOURCES, sum_held
from models.control.report import BEARABLE
from models.control.safety import Apps, Wishes
from models.control.triage import serve_most_requests, triage_scratch

APPS, DOMAINS = 30, 3
seeds = st.integers(0, 2**32 - 1)
often = settings(max_examples=60, deadline=None)


class TriageCase(NamedTuple):
    """What the apps of some domains have and want; a pod holds a core and a GiB by default."""

    wanted: I32
    current: I32
    load: F32
    rps: F32
    domain: I32
    most: I32
    size: I32
    """[2, A]."""

    def holds(self, replicas: I32) -> F64:
        """[2, D]."""
        held = np.zeros((RESOURCES, DOMAINS))
        sum_held(replicas, self.size, self.domain, held)
        return held

    def served(
        self,
        limit: F64,
        pending: list[int] | None = None,
        missing: list[int] | None = None,
        *,
        in_force: bool = True,
    ) -> tuple[list[int], list[Reason]]:
        """Replicas and reasons after the triage; every increase came with SCALE_OUT."""
        status = np.zeros((rows.STATUS, self.wanted.size), np.int32)
        status[rows.REPLICAS], status[rows.DOMAIN] = self.current, self.domain
        nothing = np.zeros_like(self.wanted)
        status[rows.PENDING] = nothing if pending is None else pending
        unseen = np.array(nothing if missing is None else missing, np.float32)
        reason = np.where(self.wanted > self.current, Reason.SCALE_OUT, Reason.HOLD_IN_TOLERANCE)
        wishes = Wishes(self.wanted.copy(), nothing, nothing, reason.astype(np.int32))
        apps = Apps(0, status, unseen, self.load, nothing.astype(np.int8))
        scratch = triage_scratch(DOMAINS, self.wanted.size)
        serve_most_requests(wishes, apps, self.rps, self.most, self.size, limit, in_force, scratch)
        return wishes.replicas.tolist(), [Reason(one) for one in wishes.reason]


def case_of(apps: list[tuple[int, int, float, float]]) -> TriageCase:
    """Apps of one domain: current, wanted, load, requests per second."""
    current, wanted, load, rps = (np.array(column) for column in zip(*apps, strict=True))
    size = np.full((RESOURCES, len(apps)), 1000, np.int32)
    return TriageCase(
        wanted.astype(np.int32), current.astype(np.int32), load.astype(np.float32),
        rps.astype(np.float32), np.zeros(len(apps), np.int32),
        np.full(len(apps), 10_000, np.int32), size,
    )  # fmt: skip


def cores(count: float) -> F64:
    """The limit of the first domain; memory is plentiful."""
    limit = np.full((RESOURCES, DOMAINS), 1e12)
    limit[MILLICORES, 0] = 1000 * count
    return limit


def random_case(seed: int) -> TriageCase:
    rng = np.random.default_rng(seed)
    current = rng.integers(0, 50, APPS)
    wanted = np.maximum(0, current + rng.integers(-10, 60, APPS))
    load = current * rng.choice([0.0, 0.5, 1.0, 2.0, 30.0], APPS) * rng.random(APPS)
    return TriageCase(
        wanted.astype(np.int32), current.astype(np.int32), load.astype(np.float32),
        (rng.random(APPS) * rng.choice([0.0, 1.0, 1e6], APPS)).astype(np.float32),
        rng.integers(0, DOMAINS, APPS).astype(np.int32),
        rng.integers(1, 100, APPS).astype(np.int32),
        rng.integers(1, 4000, (RESOURCES, APPS)).astype(np.int32),
    )  # fmt: skip


def test_the_app_with_most_requests_per_missing_core_is_served_and_the_other_waits() -> None:
    # Both are overloaded, and there is room for one: 20 pods at 0.85 carry a load of 17.
    busy, quiet = (10, 40, 17.0, 9000.0), (10, 40, 17.0, 100.0)
    for apps, expected in (([busy, quiet], [20, 10]), ([quiet, busy], [10, 20])):
        replicas, reasons = case_of(apps).served(cores(30))
        assert replicas == expected
        assert sorted(reasons) == sorted([Reason.SCALE_OUT, Reason.HOLD_BUDGET])


def test_what_is_left_goes_to_the_next_app_even_if_it_is_not_enough() -> None:
    replicas, _ = case_of([(10, 40, 17.0, 9000.0), (10, 400, 170.0, 8000.0)]).served(cores(35))
    assert replicas == [20, 15]


def test_of_apps_that_are_worth_the_same_as_many_are_served_as_fit() -> None:
    replicas, reasons = case_of([(10, 40, 17.0, 9000.0)] * 5).served(cores(75))
    assert replicas == [20, 20, 15, 10, 10]
    assert reasons == [Reason.SCALE_OUT] * 3 + [Reason.HOLD_BUDGET] * 2


def test_a_domain_that_can_carry_all_of_its_apps_is_left_to_the_projection() -> None:
    case = case_of([(10, 40, 17.0, 9000.0), (10, 40, 17.0, 100.0)])
    # 20 pods each are enough to survive; what they want beyond is comfort.
    assert case.served(cores(40))[0] == [40, 40]
    assert case.served(cores(39))[0] == [20, 19]


def test_no_app_is_raised_above_its_declared_maximum() -> None:
    case = case_of([(10, 40, 17.0, 9000.0), (10, 40, 17.0, 100.0)])
    case.most[0] = 12
    assert case.served(cores(24))[0] == [12, 12]


def test_scarce_memory_counts_like_scarce_cpu() -> None:
    limit = cores(1e6)
    limit[MEBIBYTES, 0] = 30_000
    assert case_of([(10, 40, 17.0, 9000.0), (10, 40, 17.0, 100.0)]).served(limit)[0] == [20, 10]


# Two apps lost half of their pods: ten of twenty each wait, and both need twenty.
HALVED = [(20, 20, 17.0, 9000.0), (20, 20, 17.0, 100.0)]


def test_where_many_pods_wait_for_nodes_those_of_apps_that_are_not_served_leave_the_queue() -> None:
    replicas, reasons = case_of(HALVED).served(cores(32), [10, 10])
    assert replicas == [20, 12]
    assert reasons == [Reason.HOLD_IN_TOLERANCE, Reason.YIELD]
    # No running pod leaves, however little the domain may hold.
    assert case_of(HALVED).served(cores(5), [10, 10])[0] == [10, 10]


def test_pods_keep_waiting_where_few_do_or_where_the_domain_can_carry_its_apps() -> None:
    assert case_of(HALVED).served(cores(32), [4, 4])[0] == [20, 20]
    assert case_of(HALVED).served(cores(40), [10, 10])[0] == [20, 20]


def test_neither_missing_samples_nor_an_expired_budget_take_waiting_pods_away() -> None:
    case = case_of(HALVED)
    assert case.served(cores(32), [10, 10], missing=[0, 1])[0][1] == 20
    assert case.served(cores(5), [10, 10], in_force=False)[0] == [20, 20]


@often
@given(seeds, st.floats(0.0, 2.0), st.booleans())
def test_only_waiting_pods_of_apps_with_samples_leave_under_a_budget_in_force(
    seed: int, share: float, in_force: bool
) -> None:
    case, rng = random_case(seed), np.random.default_rng(seed)
    pending = rng.integers(0, 50, APPS)
    missing = rng.integers(0, 2, APPS)
    found = case.served(
        case.holds(case.wanted) * share, pending.tolist(), missing.tolist(), in_force=in_force
    )
    replicas, reasons = np.array(found[0]), np.array(found[1])
    kept = np.minimum(case.wanted, case.current)
    may_leave = (missing == 0) & in_force
    assert (replicas[~may_leave] >= kept[~may_leave]).all()
    running = np.maximum(0, case.current - pending)
    assert (replicas >= np.minimum(kept, running)).all()
    fewer = replicas < kept
    assert (reasons[fewer] == Reason.YIELD).all()


@often
@given(seeds, st.floats(0.0, 2.0))
def test_increases_are_cut_and_nothing_else(seed: int, share: float) -> None:
    case = random_case(seed)
    limit = case.holds(case.wanted) * share
    replicas, _ = case.served(limit)
    grown = case.wanted > case.current
    assert (np.array(replicas) <= case.wanted)[grown].all()
    assert (np.array(replicas) >= case.current)[grown].all()
    assert (np.array(replicas) == case.wanted)[~grown].all()


@often
@given(seeds, st.floats(0.0, 2.0))
def test_a_domain_holds_no_more_than_its_limit_unless_its_apps_survive_or_had_more(
    seed: int, share: float
) -> None:
    case = random_case(seed)
    limit = case.holds(case.wanted) * share
    replicas, _ = case.served(limit)
    enough = np.minimum(np.ceil(case.load / BEARABLE), case.most)
    survive = np.where(
        case.wanted > case.current,
        np.minimum(case.wanted, np.maximum(case.current, enough)),
        case.wanted,
    )
    least = case.holds(np.minimum(case.wanted, case.current))
    held, needed = case.holds(np.array(replicas, np.int32)), case.holds(survive.astype(np.int32))
    for d in range(DOMAINS):
        within = (held[:, d] <= np.maximum(limit[:, d], least[:, d])).all()
        assert within or (needed[:, d] <= limit[:, d]).all()


@pytest.mark.parametrize("load", [1e30, np.float32(3e38)])
def test_an_absurd_load_overflows_nothing(load: float) -> None:
    replicas, _ = case_of([(10, 40, load, 1.0), (10, 40, 17.0, 9000.0)]).served(cores(35))
    assert replicas == [15, 20]
