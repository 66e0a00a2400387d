"""The environments keep Gymnasium's promises and ours."""

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
from tests.unit.environments.environments_helpers import KINDS, cluster, make, play, spike


@pytest.mark.parametrize("kind", KINDS)
def test_gymnasium_accepts_them(kind: str) -> None:
    check_env(make(kind), skip_render_check=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_decides_everything(kind: str) -> None:
    env = make(kind, (spike(), spike("another")))
    first, again = (
        play(env, 0.3, seed=5),
        play(make(kind, (spike(), spike("another"))), 0.3, seed=5),
    )
    assert first.begun == again.begun
    assert first.rewards == again.rewards
    np.testing.assert_array_equal(first.seen, again.seen)
    other = play(env, 0.3)
    assert other.begun["world_seed"] != first.begun["world_seed"]
    assert not np.array_equal(first.seen, other.seen)


@pytest.mark.parametrize(
    ("kind", "decisions"), [("commander", 6), ("soldier", 36), ("app", 6)], ids=str
)
def test_an_episode_is_the_accounted_part_of_the_scenario(kind: str, decisions: int) -> None:
    env = make(kind)
    played = play(env, seed=1)
    assert len(played.rewards) == decisions
    assert all(env.observation_space.contains(seen) for seen in played.seen)
    with pytest.raises(ResetNeeded):
        env.step(env.action_space.sample())


def test_the_spaces_are_those_of_the_features() -> None:
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
def test_what_a_policy_does_makes_a_difference(kind: str) -> None:
    env = make(kind)
    assert play(env, 1.0, seed=2).info != play(env, -1.0, seed=2).info


def test_a_soldier_pays_for_violations_pods_and_changes() -> None:
    env = make("soldier")
    assert isinstance(env, SoldierEnv)
    quiet, *_ = rewards = play(env, seed=3).rewards
    # The spike begins in the twelfth tick.
    assert min(rewards[12:]) < 5 * quiet < 0


def test_the_benchmarks_seeds_are_never_drawn() -> None:
    env = make("app")
    seeds = [env.reset(seed=seed)[1]["world_seed"] for seed in range(5)]
    assert all(SEEDS[0] <= seed < SEEDS[1] for seed in seeds)


def test_a_scenario_and_a_seed_can_be_asked_for() -> None:
    env = make("app", (spike(), spike("another")))
    for name, seed in (("another", 3), ("spike", 4)):
        asked = {"scenario": name, "world_seed": seed}
        assert env.reset(options=asked)[1] == asked
    with pytest.raises(InputError, match="scenario: clam: expected one of spike, another"):
        env.reset(options={"scenario": "clam"})


def test_scenarios_are_given_by_name_or_path_and_are_the_tuning_ones_by_default() -> None:
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
    ids=["kept", "twice as slow as promised", "failing", "use counts up to the request"],
)
def test_the_apps_reward_is_the_papers(
    headroom: float, errors: float, cpu: float, memory: float, expected: float
) -> None:
    row = np.zeros(APP.width, np.float32)
    row[APP.at("headroom")], row[APP.at("errors")] = headroom, errors
    row[APP.at("utilisation")], row[APP.at("memory_use")] = cpu, memory
    assert reward_of(row, 0.5) == pytest.approx(expected)
