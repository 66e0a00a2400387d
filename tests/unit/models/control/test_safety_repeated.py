"""The rules on finished plans: enforcing again changes nothing, in any process."""

import copy
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from models.cluster import rows
from models.cluster.arrays import F32, F64, I32, I64
from models.cluster.inventory import only_domain
from models.cluster.plan import Plan, Reason, empty_plan
from models.control.budget import Budget, allowed, no_directive
from models.control.change_history import NO_APP, ChangeHistory, rotate_order, workspace
from models.control.safety import SafetyRules
from tests.unit.models.control.control_helpers import APPS, DOMAINS, INVENTORY, POOLS

seeds = st.integers(0, 2**32 - 1)
often = settings(max_examples=100, deadline=None)


class Moment(NamedTuple):
    """Any input of the rules, with any history."""

    tick: I32
    status: I32
    missing: F32
    load: F32
    budget: Budget
    history: ChangeHistory
    plan: Plan

    def enforced(self) -> "Moment":
        """A copy after the rules."""
        moment = copy.deepcopy(self)
        SafetyRules(INVENTORY).step(*moment)
        return moment

    def of(self, members: I64) -> "Moment":
        """The input of a process with these apps only."""
        return self._replace(
            status=np.take(self.status, members, axis=-1),
            missing=np.take(self.missing, members, axis=-1),
            load=np.take(self.load, members, axis=-1),
            history=self.history._replace(
                rested=np.take(self.history.rested, members, axis=-1),
                sizing=np.take(self.history.sizing, members, axis=-1),
                decreased=self.history.decreased.copy(),
            ),
            plan=planned(
                np.take(self.plan.replicas, members, axis=-1),
                np.take(self.plan.cpu, members, axis=-1),
                np.take(self.plan.memory, members, axis=-1),
                np.take(self.plan.reason, members, axis=-1),
            ),
        )


def planned(replicas: I32, cpu: I32, memory: I32, reason: I32) -> Plan:
    plan = empty_plan(1, replicas.shape[1], POOLS)
    return plan._replace(replicas=replicas, cpu=cpu, memory=memory, reason=reason)


def budget_of(cores: F64, memory: F64, rng: np.random.Generator, tick: int) -> Budget:
    nothing = no_directive(1, DOMAINS, POOLS).budget
    return nothing._replace(
        valid_until_tick=np.full(1, tick + int(rng.integers(-3, 10)), np.int32),
        cores=cores[None],
        memory=memory[None],
        overdraft=0.1 * cores[None],
        floor=0.5 * cores[None],
    )


def random_moment(seed: int) -> Moment:
    rng = np.random.default_rng(seed)
    tick = int(rng.integers(0, 1000))
    status = np.zeros((1, rows.STATUS, APPS), np.int32)
    status[:, rows.ACTIVE] = rng.random(APPS) < 0.9
    # Shuffled: apps may have moved away from the domain that declares them.
    status[:, rows.DOMAIN] = rng.permutation(INVENTORY.domain)
    status[:, rows.REPLICAS] = rng.integers(0, 420, APPS)
    # More pods than replicas at times, as in a rolling deploy.
    status[:, rows.READY] = status[:, rows.REPLICAS] * rng.choice([0.0, 0.5, 1.0, 1.1], APPS)
    status[:, rows.PENDING] = status[:, rows.REPLICAS] * rng.choice([0.0, 0.0, 0.5], APPS)
    status[:, rows.CPU_REQUEST] = rng.choice([250, 1000, 1500], APPS)
    status[:, rows.MEMORY_REQUEST] = rng.choice([512, 2048, 8192], APPS)
    now = status[:, rows.REPLICAS]
    held = np.bincount(status[0, rows.DOMAIN], now[0] * status[0, rows.CPU_REQUEST], DOMAINS) / 1000
    memory = (
        np.bincount(status[0, rows.DOMAIN], now[0] * status[0, rows.MEMORY_REQUEST], DOMAINS) / 1024
    )
    shares = rng.choice([0.0, 0.8, 0.95, 1.0, 1.2, 3.0], (2, DOMAINS))
    replicas = (now * rng.choice([0.0, 0.9, 1.0, 1.0, 1.2, 3.0], APPS)).astype(np.int32)
    return Moment(
        tick=np.full(1, tick, np.int32),
        status=status,
        missing=(rng.random((1, APPS)) < 0.2).astype(np.float32),
        load=(now * rng.uniform(0, 2, APPS)).astype(np.float32),
        budget=budget_of(held * shares[0], memory * shares[1], rng, tick),
        history=ChangeHistory(
            rested=(tick + rng.integers(-20, 20, (1, APPS))).astype(np.int32),
            decreased=rng.choice([0.0, 5000.0, 1e6], (1, 6, DOMAINS)),
            sizing=(
                status[:, [rows.CPU_REQUEST, rows.MEMORY_REQUEST]] * rng.choice([1, 2], APPS)
            ).astype(np.int32),
        ),
        plan=planned(
            replicas,
            (status[:, rows.CPU_REQUEST] * rng.choice([0.5, 1, 1, 1.5], APPS)).astype(np.int32),
            (status[:, rows.MEMORY_REQUEST] * rng.choice([0.5, 1, 1, 1.25], APPS)).astype(np.int32),
            rng.choice([int(reason) for reason in Reason], (1, APPS)).astype(np.int32),
        ),
    )


moments = seeds.map(random_moment)


def same(one: Plan | ChangeHistory, other: Plan | ChangeHistory) -> bool:
    fields = one._fields
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in fields)


# Apps below their minimum, whose domain has no room to raise them all.
@example(random_moment(18060))
@example(random_moment(5571))
# And whose resize is refused as well.
@example(random_moment(671))
@example(random_moment(891))
@often
@given(moments)
def test_enforcing_a_plan_again_with_an_equal_history_changes_nothing(moment: Moment) -> None:
    once = moment.enforced()
    again = once._replace(history=moment.history).enforced()
    assert same(again.plan, once.plan)
    assert same(again.history, once.history)


@often
@given(moments)
def test_no_plan_grows_a_domain_beyond_cores_or_memory(moment: Moment) -> None:
    overruns = SafetyRules(INVENTORY).step(*copy.deepcopy(moment))
    assert overruns.tolist() == [0]
    now, before = moment.enforced().plan, moment.status[0]
    domain, live = before[rows.DOMAIN], before[rows.ACTIVE]
    most = allowed(moment.budget, moment.tick)[0]
    for row, size in enumerate((rows.CPU_REQUEST, rows.MEMORY_REQUEST)):
        sizing = moment.history.sizing[0, row]
        pods = live * np.maximum(before[size], sizing).astype(np.float64)
        held = np.bincount(domain, now.replicas[0] * pods, DOMAINS)
        grown = held > np.bincount(domain, before[rows.REPLICAS] * pods, DOMAINS)
        assert (held <= most[row] * (1 + 1e-9))[grown].all()


@often
@given(moments)
def test_missing_data_decreases_neither_replicas_nor_sizes(moment: Moment) -> None:
    plan, status = moment.enforced().plan, moment.status
    missing = moment.missing > 0
    assert (plan.replicas >= status[:, rows.REPLICAS])[missing].all()
    assert (plan.cpu >= status[:, rows.CPU_REQUEST])[missing].all()
    assert (plan.memory >= status[:, rows.MEMORY_REQUEST])[missing].all()


@often
@given(moments)
def test_an_app_that_is_not_declared_is_not_touched(moment: Moment) -> None:
    plan, status = moment.enforced().plan, moment.status
    gone = status[:, rows.ACTIVE] == 0
    assert (plan.replicas == status[:, rows.REPLICAS])[gone].all()
    assert (plan.cpu == status[:, rows.CPU_REQUEST])[gone].all()
    assert (plan.memory == status[:, rows.MEMORY_REQUEST])[gone].all()


@often
@given(moments, st.integers(0, DOMAINS - 1))
def test_rules_for_one_domain_decide_as_rules_for_all(moment: Moment, domain: int) -> None:
    members = np.flatnonzero(moment.status[0, rows.DOMAIN] == domain)
    own = copy.deepcopy(moment.of(members))
    SafetyRules(only_domain(INVENTORY, members)).step(*own)
    assert same(own.plan, moment.enforced().of(members).plan)


@often
@given(moments)
def test_each_declared_app_has_a_turn_and_the_first_one_changes(moment: Moment) -> None:
    work = workspace(DOMAINS, APPS)
    active, domain = moment.status[0, rows.ACTIVE], moment.status[0, rows.DOMAIN]
    firsts = set()
    for tick in range(30):
        rotate_order(active, domain, tick, work)
        turns = work.order[work.order != NO_APP]
        assert sorted(turns) == np.flatnonzero(active).tolist()
        firsts.add(int(turns[domain[turns] == 0][0]) if (active & (domain == 0)).any() else -1)
    assert len(firsts) == max(1, (active & (domain == 0)).sum())


@pytest.mark.parametrize(("tick", "cores"), [(5, 110.0), (6, 30.0)])
def test_memory_is_allowed_in_the_proportion_of_the_cores(tick: int, cores: float) -> None:
    """Overdraft while the budget is valid, the floor when it has expired."""
    one = np.ones((1, 1))
    budget = no_directive(1, 1, 1).budget._replace(
        valid_until_tick=np.full(1, 5, np.int32),
        cores=100 * one,
        memory=300 * one,
        overdraft=10 * one,
        floor=30 * one,
    )
    may_hold = allowed(budget, np.full(1, tick, np.int32))
    assert may_hold[0, :, 0] == pytest.approx([1000 * cores, 1024 * 3 * cores])


@often
@given(moments, seeds)
def test_a_held_app_stays_as_it_is_and_counts_in_what_its_domain_holds(
    moment: Moment, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    held = (rng.random((1, APPS)) < 0.5).astype(np.int8)
    # Bounds that every app is outside of.
    most = moment.status[0, rows.REPLICAS] // 2
    narrow = SafetyRules(INVENTORY._replace(min_replicas=most // 2, max_replicas=most))
    after = copy.deepcopy(moment)
    overruns = narrow.step(*after, held)
    stays, status = held == 1, moment.status
    assert (after.plan.replicas == status[:, rows.REPLICAS])[stays].all()
    assert (after.plan.cpu == status[:, rows.CPU_REQUEST])[stays].all()
    assert (after.plan.memory == status[:, rows.MEMORY_REQUEST])[stays].all()
    assert (after.history.rested == moment.history.rested)[stays].all()
    assert overruns.tolist() == [0]
