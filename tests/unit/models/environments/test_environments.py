"""Environments: Gymnasium's checks, determinism, spaces, rewards and refused arguments."""

from pathlib import Path

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from models.environments.app import AppEnv, reward_of
from models.environments.commander import CommanderEnv
from models.environments.environment import SEEDS
from models.environments.soldier import SoldierEnv
from models.features.table import APP, CLUSTER, DOMAIN, GROUP, POOL
from models.inputs.errors import InputError
from tests.unit.models.environments.environments_helpers import KINDS, cluster, make, play, spike


@pytest.mark.parametrize("kind", KINDS)
def test_environments_pass_the_gymnasium_checks(kind: str) -> None:
    check_env(make(kind), skip_render_check=True)


@pytest.mark.parametrize("kind", KINDS)
def test_equal_seeds_give_equal_episodes(kind: str) -> None:
    env = make(kind, (spike(), spike("another")))
    first, repeated = (
        play(env, 0.3, seed=5),
        play(make(kind, (spike(), spike("another"))), 0.3, seed=5),
    )
    assert first.start_info == repeated.start_info
    assert first.rewards == repeated.rewards
    np.testing.assert_array_equal(first.observations, repeated.observations)
    other = play(env, 0.3)
    assert other.start_info["world_seed"] != first.start_info["world_seed"]
    assert not np.array_equal(first.observations, other.observations)


@pytest.mark.parametrize(
    ("kind", "decisions"), [("commander", 6), ("soldier", 36), ("app", 6)], ids=str
)
def test_an_episode_is_the_accounted_part_of_the_scenario(kind: str, decisions: int) -> None:
    env = make(kind)
    played = play(env, seed=1)
    assert len(played.rewards) == decisions
    assert all(env.observation_space.contains(row) for row in played.observations)
    with pytest.raises(ResetNeeded):
        env.step(env.action_space.sample())


def test_spaces_have_the_sizes_of_the_declared_features() -> None:
    domains, pools = len(cluster().domains), len(cluster().pools)
    tiers = len(cluster().domains[0].tiers)
    sizes = {
        "commander": (domains * (DOMAIN.width + domains) + pools * POOL.width + CLUSTER.width),
        "soldier": tiers * GROUP.width + DOMAIN.width + domains,
        "app": APP.width + 1,
    }
    actions = {"commander": 2 * domains, "soldier": tiers, "app": 2}
    for kind, size in sizes.items():
        env = make(kind)
        assert env.observation_space.shape == (size,)
        assert env.action_space.shape == (actions[kind],)


def test_the_commanders_rewards_sum_to_minus_j() -> None:
    env = make("commander")
    assert isinstance(env, CommanderEnv)
    played = play(env, 0.4, seed=2)
    assert played.info["objective"] > 0
    assert sum(played.rewards) == pytest.approx(-played.info["objective"] * env.reward_scale)
    assert played.info["objective"] == played.info["pw"] + played.info["node_hours"]


def test_the_paired_reward_is_the_difference_to_the_plain_heuristic() -> None:
    env = make("paired commander")
    assert isinstance(env, CommanderEnv)
    assert play(env, 0.0, seed=2).rewards == [0.0] * 6
    mine = play(env, -1.0, seed=2)
    plain = play(make("commander"), 0.0, seed=2)
    gained = plain.info["objective"] - mine.info["objective"]
    assert gained != 0
    assert sum(mine.rewards) == pytest.approx(gained * env.reward_scale)


@pytest.mark.parametrize("kind", ["commander", "soldier", "app"])
def test_different_actions_give_different_results(kind: str) -> None:
    env = make(kind)
    # A seed with room in the budget of payments; without any, its Soldier has no choice.
    assert play(env, 1.0, seed=3).info != play(env, -1.0, seed=3).info


def test_the_soldier_reward_falls_during_a_spike() -> None:
    env = make("soldier")
    assert isinstance(env, SoldierEnv)
    quiet, *_ = rewards = play(env, seed=3).rewards
    # The spike begins in the twelfth tick.
    assert min(rewards[12:]) < 5 * quiet < 0


def test_training_never_draws_seeds_of_the_benchmark() -> None:
    env = make("app")
    seeds = [env.reset(seed=seed)[1]["world_seed"] for seed in range(5)]
    assert all(SEEDS[0] <= seed < SEEDS[1] for seed in seeds)


def test_options_select_scenario_and_seed() -> None:
    env = make("app", (spike(), spike("another")))
    for name, seed in (("another", 3), ("spike", 4)):
        options = {"scenario": name, "world_seed": seed}
        assert env.reset(options=options)[1] == options
    with pytest.raises(InputError, match="scenario: clam: expected one of spike, another"):
        env.reset(options={"scenario": "clam"})


def test_scenarios_default_to_the_tuning_ones_and_load_by_name_or_path() -> None:
    named = AppEnv(0, ("calm",), cluster())
    assert [one.name for one in named._scenarios] == ["calm"]
    default = AppEnv(0, None, cluster())
    assert all(one.name.startswith("tune-") for one in default._scenarios)
    with pytest.raises(InputError, match="expected at least one"):
        AppEnv(0, (), cluster())
    with pytest.raises(InputError, match="nowhere"):
        AppEnv(0, (Path("nowhere.yaml"),), cluster())


def test_an_unknown_domain_or_app_is_an_error() -> None:
    with pytest.raises(InputError, match="domain: payment: did you mean payments"):
        SoldierEnv("payment", (spike(),), cluster())
    with pytest.raises(InputError, match="app: expected from 0 to 39, got 40"):
        AppEnv(40, (spike(),), cluster())


@pytest.mark.parametrize(
    ("headroom", "errors", "cpu", "memory", "expected"),
    [
        (0.5, 0.0, 0.6, 0.4, 0.5 * 2 + 0.5 * 1.0),
        (-1.0, 0.0, 0.6, 0.4, 0.5 * 0.5 * 2 + 0.5 * 1.0),
        (0.5, 0.2, 0.6, 0.4, 0.5 * 0.8 * 2 + 0.5 * 1.0),
        (1.0, 0.0, 3.0, 2.0, 0.5 * 2 + 0.5 * 2.0),
    ],
    ids=["kept", "twice the latency target", "failing", "use counts up to the request"],
)
def test_the_app_reward_equals_the_formula_of_the_paper(
    headroom: float, errors: float, cpu: float, memory: float, expected: float
) -> None:
    row = np.zeros(APP.width, np.float32)
    row[APP.at("headroom")], row[APP.at("errors")] = headroom, errors
    row[APP.at("utilisation")], row[APP.at("memory_use")] = cpu, memory
    assert reward_of(row, 0.5) == pytest.approx(expected)
