"""The safety rules hold for any plan, whichever controller made it."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.cluster import rows
from models.cluster.arrays import F32, F64, I32
from models.cluster.plan import Reason
from models.control.change_history import (
    BLAST_SHARE,
    BLAST_WINDOW_S,
    ChangeHistory,
    cool_down_ticks,
    rotate_order,
    start_history,
    workspace,
)
from models.control.projection import MILLICORES, RESOURCES, sum_held
from models.control.safety import Apps, Bounds, Wishes, count_overruns, enforce_replicas

TICK_S = 10
WINDOW = BLAST_WINDOW_S // TICK_S
COOL_DOWN = cool_down_ticks(TICK_S)
APPS, DOMAINS = 30, 3
TICKS = 100
NO_LIMIT = np.full(DOMAINS, np.inf)
UNUSED = np.zeros(APPS, np.int32)
seeds = st.integers(0, 2**32 - 1)
rarely = settings(max_examples=15, deadline=None)


class Fleet(NamedTuple):
    """One environment's apps and what the rules remember of them.

    Pods have as many MiB as millicores, and domains may hold as many.
    """

    replicas: I32
    pending: I32
    size: I32
    domain: I32
    least: I32
    most: I32
    missing: F32
    load: F32
    history: ChangeHistory

    @property
    def status(self) -> I32:
        """[STATUS, A]; all apps are declared."""
        status = np.zeros((rows.STATUS, APPS), np.int32)
        status[rows.ACTIVE], status[rows.DOMAIN] = 1, self.domain
        status[rows.REPLICAS], status[rows.PENDING] = self.replicas, self.pending
        return status

    @property
    def held(self) -> F64:
        return self.cores(self.replicas)

    def cores(self, replicas: I32) -> F64:
        """[D] millicores of these replicas."""
        held = np.zeros((RESOURCES, DOMAINS))
        sum_held(replicas, np.stack([self.size] * RESOURCES), self.domain, held)
        cores: F64 = held[MILLICORES]
        return cores

    def apply(
        self,
        tick: int,
        wanted: I32,
        allowed: F64 = NO_LIMIT,
        reason: Reason | None = None,
        cool_down: int = COOL_DOWN,
    ) -> list[Reason]:
        """Change the fleet as far as the rules allow; returns each app's reason."""
        result, why = wanted.astype(np.int32), np.where(wanted > self.replicas, 1, 2)
        why = np.where(wanted == self.replicas, 0, why).astype(np.int32)
        if reason is not None:
            why[:] = reason
        work = workspace(DOMAINS, APPS)
        work.size[:], work.limit[:], work.held[:] = self.size, allowed, self.held
        apps = Apps(tick, self.status, self.missing, self.load, np.zeros(APPS, np.int8))
        wishes, bounds = (
            Wishes(result, UNUSED, UNUSED, why),
            Bounds(self.least, self.most, cool_down),
        )
        rotate_order(apps.status[rows.ACTIVE], self.domain, tick, work)
        rested, decreased = self.history.rested[0], self.history.decreased[0]
        enforce_replicas(wishes, apps, bounds, rested, decreased, work)
        self.replicas[:] = result
        return [Reason(one) for one in why]


def fleet(replicas: int = 100) -> Fleet:
    """Thirty apps of pods of one core, a third of them in each domain."""
    return Fleet(
        replicas=np.full(APPS, replicas, np.int32),
        pending=np.zeros(APPS, np.int32),
        size=np.full(APPS, 1000, np.int32),
        domain=np.arange(APPS, dtype=np.int32) % DOMAINS,
        least=np.full(APPS, 2, np.int32),
        most=np.full(APPS, 500, np.int32),
        missing=np.zeros(APPS, np.float32),
        load=np.full(APPS, 50.0, np.float32),
        history=start_history(1, APPS, DOMAINS, TICK_S),
    )


class Moment(NamedTuple):
    """A tick of a fleet under an arbitrary plan."""

    tick: int
    fleet: Fleet
    allowed: F64
    before: I32
    held_before: F64


def random_run(seed: int, cool_down: int = COOL_DOWN) -> Iterator[Moment]:
    """A hundred ticks of random wishes, budgets, losses of data and moves."""
    rng = np.random.default_rng(seed)
    some, start = fleet(), int(rng.integers(0, 1000))
    some.size[:] = rng.integers(50, 4000, APPS)
    some.replicas[:] = rng.integers(2, 500, APPS)
    for tick in range(start, start + TICKS):
        # Apps move between domains now and then: the rules go by the domain of the tick.
        if tick % 17 == 0:
            some.domain[:] = rng.integers(0, DOMAINS, APPS)
        some.missing[:] = rng.random(APPS) < 0.2
        some.load[:] = some.replicas * rng.choice([0.1, 0.5, 1.0, 20.0], APPS)
        # All pods pending at times: those may leave beyond the blast radius.
        some.pending[:] = some.replicas * rng.choice([0.0, 0.0, 0.1, 1.0], APPS)
        held, before = some.held, some.replicas.copy()
        allowed = np.where(held > 0, held, 1e6) * rng.choice([0.0, 0.5, 1.0, 1.05, 2.0], DOMAINS)
        wanted = before * rng.choice([0.0, 0.5, 0.9, 1.0, 1.0, 1.0, 1.1, 3.0], APPS)
        some.apply(tick, wanted, allowed, cool_down=cool_down)
        yield Moment(tick, some, allowed, before, held)


@rarely
@given(seeds)
def test_no_plan_leaves_the_declared_bounds(seed: int) -> None:
    for moment in random_run(seed):
        replicas = moment.fleet.replicas
        assert (replicas >= np.minimum(moment.before, moment.fleet.least)).all()
        assert (replicas <= np.maximum(moment.before, moment.fleet.most)).all()


@rarely
@given(seeds)
def test_missing_data_never_decreases(seed: int) -> None:
    for moment in random_run(seed, cool_down=0):
        fewer = moment.fleet.replicas < moment.before
        assert not (fewer & (moment.fleet.missing > 0)).any()


@rarely
@given(seeds)
def test_an_app_rests_after_every_change_before_it_is_decreased(seed: int) -> None:
    changed = np.full(APPS, -COOL_DOWN * 1000)
    for moment in random_run(seed):
        fewer = moment.fleet.replicas < moment.before
        assert (moment.tick - changed >= COOL_DOWN)[fewer].all()
        changed[moment.fleet.replicas != moment.before] = moment.tick


@rarely
@given(seeds)
def test_no_window_takes_more_than_the_blast_radius(seed: int) -> None:
    taken: list[F64] = []
    for moment in random_run(seed, cool_down=0):
        lost = np.maximum(0, moment.before - moment.fleet.replicas - moment.fleet.pending)
        taken_now = moment.fleet.cores(lost.astype(np.int32))
        taken = [*taken, taken_now][-WINDOW:]
        still_going_down = taken_now > 0
        most = BLAST_SHARE * moment.held_before * (1 + 1e-9)
        assert (np.sum(taken, axis=0) <= most)[still_going_down].all()


@rarely
@given(seeds)
def test_no_sequence_of_plans_overruns_a_budget(seed: int) -> None:
    for moment in random_run(seed, cool_down=0):
        now = moment.fleet
        grown = now.replicas > moment.before
        over = now.held > moment.allowed * (1 + 1e-9)
        assert not (grown & over[now.domain]).any()
        assert counted(now, moment.before, now.replicas, moment.allowed) == 0


@rarely
@given(seeds)
def test_an_expired_budget_blocks_increases_and_decreases_nothing(seed: int) -> None:
    """It allows no more than the floor, here half of what is held."""
    rng = np.random.default_rng(seed)
    some = fleet()
    before = some.replicas.copy()
    some.apply(0, before + rng.integers(0, 50, APPS), 0.5 * some.held)
    assert (some.replicas == before).all()


def test_below_the_floor_an_expired_budget_allows_growth() -> None:
    some = fleet()
    some.apply(0, some.replicas + 50, 1.2 * some.held)
    assert (some.replicas > 100).all()
    assert some.held == pytest.approx(1.2 * 1_000_000, rel=0.02)


def test_increases_towards_need_are_not_limited_by_the_blast_radius() -> None:
    some = fleet()
    why = some.apply(0, some.replicas * 4)
    assert (some.replicas == 400).all()
    assert set(why) == {Reason.SCALE_OUT}


def test_a_tenth_of_a_domain_is_decreased_per_minute() -> None:
    some = fleet()
    held = [some.held[0]]
    for tick in range(2 * WINDOW):
        some.apply(tick, np.full(APPS, 2), cool_down=0)
        held.append(some.held[0])
    assert held[1] == pytest.approx(0.9 * held[0], rel=0.01)
    assert held[WINDOW] == held[1]
    assert held[2 * WINDOW] == pytest.approx(0.81 * held[0], rel=0.01)


def test_pending_pods_leave_without_counting_in_the_blast_radius() -> None:
    some = fleet()
    some.pending[:] = 40
    some.apply(0, np.full(APPS, 2))
    running = some.replicas - 60
    assert (some.replicas <= 60).all()
    assert running.sum() == pytest.approx(-0.1 * 100 * APPS, abs=DOMAINS)


def test_with_the_blast_radius_used_up_pending_pods_still_leave() -> None:
    some = fleet()
    some.pending[:] = 100
    some.history.decreased[0, 1:] = 1e9
    why = some.apply(0, np.full(APPS, 0))
    assert (some.replicas == 2).all()
    assert set(why) == {Reason.SCALE_IN}


def test_another_app_comes_first_in_the_blast_radius_each_tick() -> None:
    ever = np.zeros(APPS, np.bool_)
    for tick in range(APPS):
        some = fleet()
        some.apply(tick, np.full(APPS, 2))
        assert 0 < (some.replicas < 100).sum() < APPS
        ever |= some.replicas < 100
    assert ever.all()


class Refused(NamedTuple):
    """A wish that is refused, and the reason that the rules must give."""

    wanted: int
    missing: float = 0.0
    rested: int = 0
    spent: float = 0.0
    allowed: float = np.inf
    reason: Reason = Reason.HOLD_IN_TOLERANCE


@pytest.mark.parametrize(
    "case",
    [
        Refused(50, missing=1.0, reason=Reason.HOLD_NO_METRICS),
        Refused(50, rested=1, reason=Reason.HOLD_COOL_DOWN),
        Refused(50, spent=1e9, reason=Reason.HOLD_BLAST_RADIUS),
        Refused(150, allowed=0.0, reason=Reason.HOLD_BUDGET),
    ],
    ids=lambda case: case.reason.name,
)
def test_a_refused_wish_carries_the_reason(case: Refused) -> None:
    some = fleet()
    some.missing[:] = case.missing
    some.history.rested[:] = case.rested
    some.history.decreased[0, 1:] = case.spent
    why = some.apply(0, np.full(APPS, case.wanted), np.full(DOMAINS, case.allowed))
    assert (some.replicas == 100).all()
    assert set(why) == {case.reason}


@pytest.mark.parametrize(
    ("wanted", "reason"), [(90, Reason.SCALE_IN), (110, Reason.SCALE_OUT), (100, Reason(0))]
)
def test_a_granted_wish_keeps_its_reason(wanted: int, reason: Reason) -> None:
    some = fleet()
    why = some.apply(0, np.full(APPS, wanted))
    assert (some.replicas == wanted).all()
    assert set(why) == {reason}


def test_an_app_may_give_way_before_it_has_rested() -> None:
    some = fleet()
    some.history.rested[:] = 1
    why = some.apply(0, np.full(APPS, 95), reason=Reason.YIELD)
    assert (some.replicas == 95).all()
    assert set(why) == {Reason.YIELD}


def test_giving_way_stays_within_the_blast_radius_and_spares_apps_without_data() -> None:
    some = fleet()
    some.missing[:15] = 1.0
    some.apply(0, np.full(APPS, 2), reason=Reason.YIELD)
    assert (some.replicas[:15] == 100).all()
    assert (some.held >= 0.9 * 1_000_000).all()
    assert (some.replicas[15:] < 100).any()


def test_capacity_released_by_one_app_can_be_used_by_another_in_the_same_tick() -> None:
    some = fleet()
    held, wanted = some.held, some.replicas.copy()
    wanted[:DOMAINS] += 50
    wanted[DOMAINS : 2 * DOMAINS] -= 50
    some.apply(0, wanted, held)
    assert (some.replicas[:DOMAINS] == 150).all()
    assert (some.held == held).all()


def counted(some: Fleet, before: I32, after: I32, cores: F64, memory: F64 = NO_LIMIT) -> int:
    """Overruns of budgets, by the rules' own count."""
    work = workspace(DOMAINS, APPS)
    work.resized[:], work.limit[:] = some.size, np.array([cores, memory])
    work.held[:] = some.cores(before)
    return int(count_overruns(some.domain, after, work))


@pytest.mark.parametrize("scarce", ["cores", "memory"])
def test_an_overrun_is_an_increase_beyond_what_is_allowed(scarce: str) -> None:
    some = fleet()

    def after(replicas: int, share: float) -> int:
        limits = {"cores": NO_LIMIT, "memory": NO_LIMIT, scarce: share * some.held}
        return counted(some, some.replicas, np.full(APPS, replicas, np.int32), **limits)

    assert after(110, 1.2) == 0
    assert after(110, 1.05) == DOMAINS
    assert after(100, 0.5) == 0
    assert after(90, 0.5) == 0
