"""Stable-Baselines3 trains in the environments without wrappers; `make test-train` installs it."""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from models.compare.catalogue import Entrant, enter
from models.environments.entrants import app_entrant, commander_entrant, soldier_entrant
from models.environments.policy import Policy
from models.sim.results.summary import summarise
from tests.unit.models.environments.environments_helpers import KINDS, cluster, make, spike

sb3 = pytest.importorskip(
    "stable_baselines3", reason="stable-baselines3 needs torch: run `make test-train`"
)


def entrant(kind: str, policy: Policy) -> Entrant:
    match kind:
        case "soldier":
            return soldier_entrant(policy, "payments")
        case "app":
            return app_entrant(policy, 0)
        case _:
            return commander_entrant(policy)


@pytest.mark.parametrize("kind", KINDS)
def test_ppo_trains_and_a_saved_policy_runs_in_the_benchmark(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = make(kind)
    import_module("stable_baselines3.common.env_checker").check_env(env)
    model = sb3.PPO("MlpPolicy", env, n_steps=32, batch_size=16, n_epochs=2, seed=1, device="cpu")
    before = {name: value.clone() for name, value in model.policy.state_dict().items()}
    model.learn(64)
    assert model.num_timesteps == 64
    after = model.policy.state_dict()
    assert any((after[name] != value).any() for name, value in before.items())
    model.save(tmp_path / "mine.zip")

    mine = ModuleType("module_of_mine")
    mine.trained = entrant(kind, sb3.PPO.load(tmp_path / "mine.zip", device="cpu"))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, mine.__name__, mine)
    match = enter("module_of_mine:trained", cluster(), spike(), [0, 1])
    results = summarise(match.world, "trained", match.play())
    assert all(result.objective > 0 for result in results)
