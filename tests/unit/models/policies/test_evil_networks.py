"""Whatever networks answer, plans keep bounds and budgets, and the actuator's rules hold."""

import os
from typing import Any, Final

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32
from models.control.budget import allowed
from models.control.change_history import start_history
from models.control.hierarchy import Heuristic
from models.control.parameters import Parameters, Parts
from models.control.residual import Advisers
from models.control.safety import SafetyRules
from models.policies.advisers import CommanderPolicy, SoldierPolicy
from models.policies.contract import OUTPUTS, SOLDIER_OUTPUTS
from models.policies.inputs import CommanderInputs
from models.policies.outputs import Answer
from models.policies.soldier_inputs import SoldierInputs
from tests.unit.models.control.control_helpers import (
    APPS,
    DOMAINS,
    INVENTORY,
    PER_MINUTE,
    POOLS,
    Plant,
    forecast_of,
)

_TICKS: Final = int(os.environ.get("HIRL_POLICY_DECISIONS", "40000")) // APPS
"""A decision is one about an app."""
_EVIL: Final = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 0.0, -1.0, 1.0, 5e-324], np.float32)


class Evil:
    """Two networks that answer anything, in the right shapes: others raise before they are used."""

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random

    def commander(self, inputs: CommanderInputs, /) -> Answer:
        lengths = {"rows": inputs.domain.shape[0], "domains": inputs.domain.shape[1]}
        return {
            port.name: self._numbers(
                tuple(one if isinstance(one, int) else lengths[one] for one in port.shape),
                port.low, port.high,
            )
            for port in OUTPUTS
        }  # fmt: skip

    def soldier(self, inputs: SoldierInputs, /) -> Answer:
        shape = inputs.cores.shape
        return {port.name: self._numbers(shape, 0.5, 2.0) for port in SOLDIER_OUTPUTS}

    def _numbers(self, shape: tuple[int, ...], low: float, high: float) -> F32:
        sound: F32 = self._random.uniform(low, high, shape).astype(np.float32)
        share = self._random.choice([0.0, 0.3, 1.0])
        return np.where(
            self._random.random(shape) < share, self._random.choice(_EVIL, shape), sound
        )


def test_whatever_networks_answer_no_budget_is_overrun_and_no_rule_of_the_actuator_broken() -> None:
    random = np.random.default_rng(0)
    evil, plant, rules = Evil(random), Plant(), SafetyRules(INVENTORY)
    advisers = Advisers(
        CommanderPolicy(INVENTORY, evil.commander), SoldierPolicy(INVENTORY, evil.soldier)
    )
    controller = Heuristic(INVENTORY, POOLS, Parameters(), Parts(), advisers)
    state: Any = controller.start(plant.observe())
    actuator = start_history(1, APPS, DOMAINS, INVENTORY.tick_s)
    changed = 0
    for tick in range(_TICKS):
        if tick % 30 == 0:
            plant.work = random.uniform(0.5, 30.0, APPS).astype(np.float32)
            plant.broken = random.random(APPS) < 0.1
        seen, budget = plant.observe(), state.decision.directive.budget
        forecast = forecast_of(plant, float(random.uniform(0.5, 3.0)))
        plan, state = controller.step(seen, forecast, state)
        before, most = seen.status[0], allowed(budget, seen.tick)[0]
        overruns = rules.step(
            seen.tick, seen.status, seen.missing.astype(np.float32), plant.work[None], budget,
            actuator, plan,
        )  # fmt: skip
        assert int(overruns[0]) == int(state.soldiers.overruns[0]) == 0
        # The same once more, by other means, where nothing else changes beside the growth.
        now, was = plan.replicas[0], before[rows.REPLICAS]
        resized = plan.cpu[0] != before[rows.CPU_REQUEST]
        cores = now * before[rows.CPU_REQUEST].astype(np.float64)
        held, grown, other = (
            np.bincount(INVENTORY.domain, each, DOMAINS)
            for each in (cores, now > was, (now < was) | resized)
        )
        assert (held <= most[0] * (1 + 1e-9))[(grown > 0) & (other == 0)].all()
        assert (plan.replicas >= np.minimum(was, INVENTORY.min_replicas)).all()
        assert (plan.replicas <= np.maximum(was, INVENTORY.max_replicas)).all()
        new = state.decision.directive.budget
        assert abs(float(new.share.sum() + new.reserve.sum()) - 1.0) < 1e-9
        assert (new.share >= -1e-12).all()
        assert np.isfinite(new.cores).all()
        if tick % PER_MINUTE == 0:
            total = plan.nodes[0].sum(axis=1) + plant.pool["ready"][0]
            assert (
                total <= np.maximum(plant.pool["quota"][0], plant.pool["ready"][0]) + 1e-9
            ).all()
        changed += int((now != was).sum())
        plant.apply(plan)
    # The rules were put to the test: much was changed.
    assert changed > _TICKS // 10
