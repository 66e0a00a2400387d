"""Every term of the reward, by hand."""

import numpy as np
import pytest

from models.cluster.arrays import F64
from models.training.args import Weights
from models.training.reward import Costs, advantages, changes, commander_rewards, soldier_rewards

OBJECTIVE = np.array([10.0, 4.0, 1.0, 0.3])
PRIORITY = np.array([0, 1], np.int32)
PLAIN = Weights(p0=1.0, worst_domain=0.0, action_change=0.0, most=1e9, most_of_app=1e9)


def costs(p0: float, p1: float, nodes: float) -> Costs:
    """Two domains with one app each, alike in three minutes of one environment."""
    domains: F64 = np.broadcast_to(np.array([p0, p1]), (3, 1, 2))
    held: F64 = np.full((3, 1, 2), nodes / 2)
    return Costs(domains, np.full((3, 1), nodes), domains, held)


HEURISTIC = costs(0.0, 0.0, 10.0)
STILL: F64 = np.zeros((3, 1, 4))


def reward(ours: Costs, weights: Weights, raw: F64 = STILL) -> float:
    found = commander_rewards(ours, HEURISTIC, raw, PRIORITY, OBJECTIVE, weights)
    assert found.shape == (3, 1)
    return float(found[-1, 0])


def test_the_heuristic_itself_is_worth_nothing() -> None:
    assert reward(HEURISTIC, Weights()) == 0.0


def test_a_reward_is_the_paired_difference_in_mean_minutes_of_the_heuristic() -> None:
    assert reward(costs(0.0, 0.0, 9.0), PLAIN) == pytest.approx(0.1)
    assert reward(costs(0.0, 1.0, 10.0), PLAIN) == pytest.approx(-0.4)


def test_p0_weighs_more_than_in_the_objective() -> None:
    sold = costs(1.0, -3.0, 10.0)
    assert reward(sold, PLAIN) > 0.0
    assert reward(sold, PLAIN._replace(p0=4.0)) < 0.0


def test_the_worst_domain_counts_once_more() -> None:
    uneven = costs(0.0, 2.5, 0.0)
    assert reward(uneven, PLAIN) == pytest.approx(0.0)
    assert reward(uneven, PLAIN._replace(worst_domain=0.5)) == pytest.approx(-0.5)


def test_one_minute_counts_for_no_more_than_its_bound() -> None:
    assert reward(costs(1e6, 0.0, 10.0), PLAIN._replace(most=3.0)) == -3.0


def test_a_change_of_an_action_costs_and_the_first_is_none() -> None:
    raw = STILL.copy()
    raw[1:] = 0.5
    assert changes(raw)[:, 0].tolist() == [0.0, 1.0, 0.0]
    found = commander_rewards(
        HEURISTIC, HEURISTIC, raw, PRIORITY, OBJECTIVE, PLAIN._replace(action_change=0.1)
    )
    np.testing.assert_allclose(found[:, 0], [0.0, -0.1, 0.0])


def test_an_app_answers_for_its_own_minutes_and_pods() -> None:
    ours = HEURISTIC._replace(apps=np.array([[[0.0, 1.0]]] * 3), held=HEURISTIC.held * [0.9, 1.0])
    found = soldier_rewards(ours, HEURISTIC, np.zeros((3, 1, 2)), PRIORITY, OBJECTIVE, PLAIN)
    np.testing.assert_allclose(found[0, 0], [0.1, -4.0 / 5.0], rtol=1e-6)


def test_advantages_are_those_of_the_recursion_by_hand() -> None:
    rewards, values = np.array([[1.0], [2.0]]), np.array([[0.5], [0.25]])
    found, returns = advantages(rewards, values, 0.9, 0.5)
    last = 2.0 + 0.9 * 0.25 - 0.25
    first = 1.0 + 0.9 * 0.25 - 0.5 + 0.9 * 0.5 * last
    np.testing.assert_allclose(found[:, 0], [first, last])
    np.testing.assert_allclose(returns, found + values)


def test_a_perfect_critic_leaves_no_advantage() -> None:
    values = np.full((40, 2), 1.0 / (1.0 - 0.9))
    found, _ = advantages(np.ones((40, 2)), values, 0.9, 0.95)
    np.testing.assert_allclose(found, 0.0, atol=1e-9)


def test_the_price_of_a_cap_makes_node_hours_dearer() -> None:
    dear = PLAIN._replace(node_hours=3.0)
    assert reward(costs(0.0, 0.0, 9.0), dear) == pytest.approx(
        3 * reward(costs(0.0, 0.0, 9.0), PLAIN)
    )
