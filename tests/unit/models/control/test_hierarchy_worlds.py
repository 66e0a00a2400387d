"""The heuristic in small worlds: reproducible, blind to hidden state, within budgets."""

import copy
from typing import Literal

import pytest

from models.compare.ablation import heuristic_of
from models.compare.run import run
from models.forecaster.simulated.catalogue import calendar_of
from models.sim.config.events import Inventory as Change
from models.sim.config.events import MetricsOutage, Target
from tests.unit.models.control.control_helpers import ALL, HALF_TRAFFIC, SPIKE, same_plan, world_of


@pytest.mark.parametrize("with_forecast", [False, True])
def test_environments_do_not_affect_each_other(with_forecast: bool) -> None:
    seeds = (3, 4, 5)
    together = world_of(SPIKE, seeds=seeds)
    run(together, heuristic_of(together), calendar_of(together) if with_forecast else None)
    for index, seed in enumerate(seeds):
        alone = world_of(SPIKE, seeds=(seed,))
        run(alone, heuristic_of(alone), calendar_of(alone) if with_forecast else None)
        assert (alone.accounts.totals[0] == together.accounts.totals[index]).all()
        assert (alone.state.status[0] == together.state.status[index]).all()


def test_the_same_seed_gives_the_same_decisions() -> None:
    totals = []
    for _ in range(2):
        world = world_of(SPIKE)
        run(world, heuristic_of(world))
        totals.append(world.accounts.totals.copy())
    assert (totals[0] == totals[1]).all()


def test_a_plan_does_not_depend_on_hidden_state() -> None:
    world = world_of(SPIKE)
    controller = heuristic_of(world)
    state = controller.start(world.observe())
    while world.tick < 30:
        plan, state = controller.step(world.observe(), None, state)
        world.step(plan)
    seen = copy.deepcopy(world.observe())
    before = copy.deepcopy(controller.step(seen, None, copy.deepcopy(state))[0])
    world.state.flow[:] *= 3
    world.state.samples[:] *= 3
    world.state.hidden[:] += 1
    world.state.room[:] = 0
    world.state.status[:] = 1
    assert same_plan(controller.step(seen, None, copy.deepcopy(state))[0], before)


@pytest.mark.parametrize("mode", ["zero", "missing"])
def test_an_outage_of_exporters_causes_no_decrease_and_no_overrun(
    mode: Literal["zero", "missing"],
) -> None:
    """Traffic fell before, so that there would be something to decrease."""
    outage = MetricsOutage(
        name="blind", target=Target(domains=ALL), pipeline="exporter", mode=mode, at_minute=3,
        length_minutes=17,
    )  # fmt: skip
    world = world_of(HALF_TRAFFIC, outage, minutes=20, seeds=(0, 1))
    decisions = run(world, heuristic_of(world))
    assert decisions.missing_data_decreases.tolist() == [0, 0]
    assert decisions.budget_overruns is not None
    assert decisions.budget_overruns.tolist() == [0, 0]


@pytest.mark.parametrize(
    "change",
    [
        None,
        Change(name="late", target=Target(domains=ALL, share=0.3), change="appear", at_minute=4),
        Change(name="gone", target=Target(domains=ALL, share=0.3), change="vanish", at_minute=4),
        Change(
            name="moved", target=Target(domains=("data",)), change="move", at_minute=4,
            to_domain="internal",
        ),
    ],
    ids=lambda change: "none" if change is None else change.change,
)  # fmt: skip
def test_a_spike_overruns_no_budget(change: Change | None) -> None:
    world = world_of(SPIKE, *(() if change is None else (change,)), seeds=(0, 1))
    decisions = run(world, heuristic_of(world), calendar_of(world))
    assert decisions.budget_overruns is not None
    assert decisions.budget_overruns.tolist() == [0, 0]
    assert decisions.missing_data_decreases.tolist() == [0, 0]
