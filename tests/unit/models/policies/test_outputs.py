"""Whatever a network answers, the residual stays in its ranges and P0 is not sold."""

import itertools
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from models.cluster import rows
from models.cluster.arrays import F32
from models.control.residual import Advisers
from models.policies.advisers import CommanderPolicy, SoldierPolicy
from models.policies.contract import MEMBERS, OUTPUTS, SOLDIER_OUTPUTS
from models.policies.inputs import CommanderInputs
from models.policies.outputs import Answer, factors_of, residual_of
from models.policies.soldier_inputs import Apps, SoldierInputs
from models.sim.accounting import OVERSPEND
from tests.unit.models.control.control_helpers import (
    APPS,
    DOMAINS,
    INVENTORY,
    PER_MINUTE,
    SPIKE,
    Plant,
    forecast_of,
    heuristic,
    same_plan,
    world_of,
)

HIGHEST = INVENTORY.priority == 0
SIZES = {"rows": 2, "domains": DOMAINS}
BROKEN = st.sampled_from([np.nan, np.inf, -np.inf, 1e30, -1e30, 0.0, 0.5, 1.0, 2.0])


def answer_of(value: float) -> dict[str, F32]:
    found: dict[str, F32] = {}
    for one in OUTPUTS:
        shape = [axis if isinstance(axis, int) else SIZES[axis] for axis in one.shape]
        found[one.name] = np.full(shape, value, np.float32)
    return found


@given(BROKEN)
def test_a_residual_is_within_the_contract_whatever_the_network_answers(value: float) -> None:
    found = residual_of(answer_of(value), INVENTORY.priority)
    for tensor in OUTPUTS:
        field = getattr(found, tensor.name)
        assert np.isfinite(field).all()
        assert tensor.low <= field.min() <= field.max() <= tensor.high


@given(BROKEN)
def test_the_highest_priority_never_gets_less_than_from_the_heuristic(value: float) -> None:
    found = residual_of(answer_of(value), INVENTORY.priority)
    for factors in (found.headroom, found.urgency, found.comfort):
        assert (factors[:, HIGHEST] >= 1.0).all()
    for weights in (found.pods, found.nodes):
        assert (weights[:, HIGHEST] >= 0.0).all()


def test_what_is_not_a_number_leaves_its_domain_to_the_heuristic() -> None:
    answer = answer_of(1.2)
    answer["headroom"][:, 2] = np.nan
    found = residual_of(answer, INVENTORY.priority)
    assert found.headroom[0].tolist() == pytest.approx([1.2, 1.2, 1.0, 1.2, 1.2])


MEMBER = (np.arange(APPS, dtype=np.int32) % MEMBERS)[None]
ALL_KNOWN = Apps(MEMBER, np.ones((1, APPS), np.bool_))


@given(arrays(np.float32, (1, DOMAINS, MEMBERS), elements=st.floats(width=32)))
def test_factors_are_within_the_contract_and_p0_is_never_lowered(answer: F32) -> None:
    both = {"need": answer, "cpu": answer}
    found = factors_of(both, ALL_KNOWN, Plant().status, INVENTORY.priority)
    for port, values in zip(SOLDIER_OUTPUTS, found, strict=True):
        assert np.isfinite(values).all()
        assert np.float32(port.low) <= values.min() <= values.max() <= np.float32(port.high)
        assert (values[:, HIGHEST[INVENTORY.domain]] >= 1.0).all()


def test_apps_without_a_sample_are_left_to_the_heuristic() -> None:
    known = np.ones((1, APPS), np.bool_)
    known[0, 3] = False
    need = np.full((1, DOMAINS, MEMBERS), 1.3, np.float32)
    found = factors_of({"need": need}, Apps(MEMBER, known), Plant().status, INVENTORY.priority)
    assert found.need[0, 3] == 1.0
    assert found.need[0, 4] == np.float32(1.3)
    assert found.cpu.shape == (1, 0)


class Chance:
    """Networks that answer at random: within their range, beyond it, or with broken numbers."""

    def __init__(self, seed: int) -> None:
        self._draw = np.random.default_rng(seed)

    def commander(self, inputs: CommanderInputs, /) -> Answer:
        rows = inputs.domain.shape[0]
        return {name: self._numbers((rows, *one.shape[1:])) for name, one in answer_of(1.0).items()}

    def soldier(self, inputs: SoldierInputs, /) -> Answer:
        shape = inputs.cores.shape
        return {port.name: self._numbers(shape) for port in SOLDIER_OUTPUTS}

    def _numbers(self, shape: tuple[int, ...]) -> F32:
        odd = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 0.0, -1.0], np.float32)
        usual = self._draw.uniform(0.3, 3.0, shape).astype(np.float32)
        broken = self._draw.random(shape) < 0.3
        return np.where(broken, self._draw.choice(odd, shape), usual).astype(np.float32)


def test_random_and_broken_answers_cause_no_overrun() -> None:
    """HIRL_POLICY_DECISIONS=1000000 plays a million decisions, one per app and tick."""
    left = int(os.environ.get("HIRL_POLICY_DECISIONS", "10000"))
    environments = 2 if left <= 10_000 else 64
    for seed in itertools.count():
        if left <= 0:
            break
        world = world_of(SPIKE, minutes=10, seeds=tuple(range(environments)))
        chance, inventory = Chance(seed), world.inventory
        controller = heuristic()
        controller._advisers = Advisers(
            CommanderPolicy(inventory, chance.commander), SoldierPolicy(inventory, chance.soldier)
        )
        state = controller.start(world.observe())
        while world.tick < world.timeline.total_ticks:
            plan, state = controller.step(world.observe(), None, state)
            world.step(plan)
            left -= plan.replicas.size
        assert not controller.overruns(state).any()
        assert (world.accounts.totals[:, OVERSPEND] == 0.0).all()


def test_networks_that_answer_one_and_zero_are_the_heuristic_bit_for_bit() -> None:
    plain, advised = heuristic(), heuristic()

    def neutral(_inputs: CommanderInputs) -> Answer:
        weights = ("pods", "nodes")
        return {name: np.full_like(values[:1], 0.0 if name in weights else 1.0)
                for name, values in answer_of(1.0).items()}  # fmt: skip

    def same(inputs: SoldierInputs) -> Answer:
        return {port.name: np.ones(inputs.cores.shape, np.float32) for port in SOLDIER_OUTPUTS}

    advised._advisers = Advisers(
        CommanderPolicy(INVENTORY, neutral), SoldierPolicy(INVENTORY, same)
    )
    one, other = Plant(work=11.0, nodes=60), Plant(work=11.0, nodes=60)
    mine, theirs = plain.start(one.observe()), advised.start(other.observe())
    for _ in range(3 * PER_MINUTE):
        plan, mine = plain.step(one.observe(), forecast_of(one, 1.3), mine)
        advice, theirs = advised.step(other.observe(), forecast_of(other, 1.3), theirs)
        assert same_plan(plan, advice)
        one.apply(plan)
        other.apply(advice)
    assert one.status[0, rows.REPLICAS].sum() > 0
