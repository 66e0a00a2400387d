"""Policies as entrants: their decisions in the benchmark equal those in training, bit for bit."""

import json
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from models.cluster import rows
from models.compare import workers
from models.compare.catalogue import Entrant, Match, enter
from models.control.residual import neutral
from models.environments.app_adapter import AppAdapter
from models.environments.entrants import (
    PolicyController,
    app_entrant,
    commander_entrant,
    soldier_entrant,
)
from models.environments.heuristic_adapters import CommanderAdapter, SoldierAdapter
from models.environments.policy import bounded, factors
from models.sim.accounting import ACTIONS
from models.sim.results.summary import Result, summarise
from services.cli import main
from tests.unit.models.environments.environments_helpers import (
    ConstantPolicy,
    cluster,
    make,
    play,
    spike,
)

ACTIONS_OF = {"commander": 10, "soldier": 4, "app": 2}


def entrant(kind: str, policy: ConstantPolicy) -> Entrant:
    match kind:
        case "commander":
            return commander_entrant(policy)
        case "soldier":
            return soldier_entrant(policy, "payments")
        case _:
            return app_entrant(policy, 0)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An importable module for the test's entrant."""
    mine = ModuleType("module_of_mine")
    monkeypatch.setitem(sys.modules, mine.__name__, mine)
    return mine


def scored(name: str, seeds: list[int]) -> tuple[Match, list[Result]]:
    entered = enter(name, cluster(), spike(), seeds)
    return entered, summarise(entered.world, name, entered.play())


@pytest.mark.parametrize("kind", ["commander", "soldier"])
def test_zero_actions_equal_the_heuristic_bit_for_bit(kind: str, module: ModuleType) -> None:
    policy = ConstantPolicy(0.0, ACTIONS_OF[kind])
    module.mine = entrant(kind, policy)  # type: ignore[attr-defined]
    mine, _ = scored("module_of_mine:mine", [0, 1])
    plain, _ = scored("heuristic:calendar", [0, 1])
    assert policy.observations
    ours, theirs = mine.world.save(), plain.world.save()
    for name in ours.state._fields:
        np.testing.assert_array_equal(getattr(ours.state, name), getattr(theirs.state, name))
    for name in ours.accounts._fields:
        np.testing.assert_array_equal(getattr(ours.accounts, name), getattr(theirs.accounts, name))


@pytest.mark.parametrize("kind", ["commander", "soldier", "app"])
def test_the_benchmark_reports_the_figures_of_the_environment(
    kind: str, module: ModuleType
) -> None:
    policy = ConstantPolicy(0.7, ACTIONS_OF[kind])
    module.mine = entrant(kind, policy)  # type: ignore[attr-defined]
    _, results = scored("module_of_mine:mine", [4, 7])
    played = play(make(kind), 0.7, options={"world_seed": 7})
    assert results[1].objective == played.info["objective"]
    assert results[1].scaling_actions == played.info["scaling_actions"]
    # Observations in the benchmark equal those in training, to the last bit.
    np.testing.assert_array_equal(policy.observations[1::2], played.observations[:-1])


def test_policies_on_the_heuristic_never_overrun_budgets(module: ModuleType) -> None:
    module.mine = commander_entrant(ConstantPolicy(1.0, 10))  # type: ignore[attr-defined]
    _, results = scored("module_of_mine:mine", [0])
    assert results[0].budget_overruns == 0
    module.mine = app_entrant(ConstantPolicy(0.0, 2), 0)  # type: ignore[attr-defined]
    _, results = scored("module_of_mine:mine", [0])
    assert results[0].budget_overruns is None


def test_nan_actions_are_neutral_and_large_ones_are_clipped() -> None:
    odd = np.array([np.nan, 7.0, -7.0, 0.0], np.float32)
    np.testing.assert_array_equal(bounded(odd), [0.0, 1.0, -1.0, 0.0])
    np.testing.assert_array_equal(factors(odd, 2.0), [1.0, 2.0, 0.5, 1.0])


def test_an_action_of_the_wrong_size_is_refused(module: ModuleType) -> None:
    module.mine = commander_entrant(ConstantPolicy(0.0, 3))  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="cannot reshape"):
        scored("module_of_mine:mine", [0])


def test_a_soldier_policy_changes_only_apps_of_its_domain() -> None:
    world = enter("heuristic:none", cluster(), spike(), [0]).world
    adapter = SoldierAdapter(world, "fraud")
    residual = adapter._residual(np.ones((1, adapter.actions), np.float32), world.observe())
    moved = residual.need[0] != 1
    np.testing.assert_array_equal(moved, world.population.apps.domain == 1)


def test_a_commander_action_changes_only_the_chosen_domains() -> None:
    world = enter("heuristic:none", cluster(), spike(), [0]).world
    adapter = CommanderAdapter(world)
    action = np.zeros((1, adapter.actions), np.float32)
    action[0, 2], action[0, 5 + 1] = 1.0, -1.0
    residual = adapter._residual(action, world.observe())
    np.testing.assert_array_equal(residual.headroom, [[1, 1, 1.5, 1, 1]])
    np.testing.assert_array_equal(residual.urgency, [[1, 0.25, 1, 1, 1]])
    assert residual.need.shape == neutral(1).need.shape == (1, 0)


def test_an_app_policy_leaves_the_hpas_of_other_apps_unchanged() -> None:
    world = enter("hpa", cluster(), spike(), [0]).world
    plain = enter("hpa", cluster(), spike(), [0])
    adapter = PolicyController(AppAdapter(world, 3), ConstantPolicy(0.9, 2), 0)
    mine, theirs = adapter.start(world.observe()), plain.controller.start(world.observe())
    for _ in range(13):
        ours, mine = adapter.step(world.observe(), None, mine)
        wanted = ours._replace(replicas=ours.replicas.copy(), cpu=ours.cpu.copy())
        hpas, theirs = plain.controller.step(world.observe(plain.controller.pipeline), None, theirs)
        others = np.arange(world.population.apps.domain.size) != 3
        np.testing.assert_array_equal(wanted.replicas[:, others], hpas.replicas[:, others])
        world.step(wanted)
    assert world.state.status[0, rows.REPLICAS, 3] > 1


def test_a_zero_app_action_holds_replicas_and_cpu_request() -> None:
    world = enter("hpa", cluster(), spike(), [0]).world
    controller = app_entrant(ConstantPolicy(0.0, 2), 0).controller(world)
    state = controller.start(world.observe(controller.pipeline))
    found = [rows.REPLICAS, rows.CPU_REQUEST]
    while world.tick < world.timeline.total_ticks:
        plan, state = controller.step(world.observe(controller.pipeline), None, state)
        if world.tick == world.timeline.warmup_ticks:
            held = world.state.status[0, found, 0].copy()
        world.step(plan)
    np.testing.assert_array_equal(world.state.status[0, found, 0], held)
    assert world.accounts.totals[0, ACTIONS] > 0


MODULE = """
from models.environments.entrants import commander_entrant
import numpy as np

class Calm:
    def predict(self, observation, deterministic=True):
        return np.zeros(10, np.float32), None

mine = commander_entrant(Calm(), forecast="persistence")
"""


def test_the_command_line_accepts_a_policy_by_module_and_attribute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workers, "cores", lambda: 1)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "policy_of_mine.py").write_text(MODULE)
    (tmp_path / "quiet.yaml").write_text(
        "name: quiet\nshows: Nothing.\nstart: Mon 10:00\nlength_minutes: 3\nwarmup_minutes: 1\n"
    )
    command = ["bench", "control", "--controllers", "heuristic:persistence,policy_of_mine:mine"]
    options = ["--scenarios", "quiet.yaml", "--apps", "20", "--seeds", "0", "--json", "out.json"]
    assert main.run([*command, *options]) == 0
    found = json.loads((tmp_path / "out.json").read_text())["rows"]
    first, *others = sorted(found, key=lambda row: str(row["controller"]))
    assert [row["controller"] for row in others] == ["policy_of_mine:mine"]
    assert {row["objective"] for row in others} == {first["objective"]}
