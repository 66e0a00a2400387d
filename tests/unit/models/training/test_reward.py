"""Every term of the reward, by hand."""

import numpy as np
import pytest

from models.cluster.arrays import F64
from models.training.args import Weights
from models.training.reward import (
    Costs,
    Growth,
    advantages,
    changes,
    commander_rewards,
    coupling,
    of_latency,
    shaping,
    soldier_rewards,
    variance,
)

OBJECTIVE = np.array([10.0, 4.0, 1.0, 0.3])
PRIORITY = np.array([0, 1], np.int32)
PLAIN = Weights(p0=1.0, worst_domain=0.0, action_change=0.0, most=1e9, most_of_app=1e9)


def costs(p0: float, p1: float, nodes: float) -> Costs:
    """Two domains with one app each, alike in three minutes of one environment."""
    domains: F64 = np.broadcast_to(np.array([p0, p1]), (3, 1, 2))
    held: F64 = np.full((3, 1, 2), nodes / 2)
    nothing: F64 = np.zeros((3, 1))
    return Costs(
        domains, np.full((3, 1), nodes), domains, held, np.full((3, 1, 2), 0.5), nothing, nothing
    )


HEURISTIC = costs(0.0, 0.0, 10.0)
STILL: F64 = np.zeros((3, 1, 4))


DOMAIN = np.array([0, 1], np.int32)
NO_GROWTH = Growth(np.zeros((3, 1, 2, 2)), np.ones((3, 1, 2)), np.zeros((3, 1, 2)))


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
    found = soldier_rewards(ours, HEURISTIC, NO_GROWTH, DOMAIN, PRIORITY, OBJECTIVE, PLAIN)
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


def test_terms_that_are_off_change_nothing() -> None:
    other = HEURISTIC._replace(
        late=HEURISTIC.late * 9.0, money=HEURISTIC.money + 7.0, overspend=HEURISTIC.overspend + 1.0
    )
    assert reward(other, PLAIN) == 0.0


def test_money_and_minutes_beyond_the_spend_cap_cost_when_they_are_on() -> None:
    dear = HEURISTIC._replace(money=HEURISTIC.money + 1.0)
    assert reward(dear, PLAIN._replace(money=2.0)) == pytest.approx(-0.2)
    over = HEURISTIC._replace(overspend=HEURISTIC.overspend + 1.0)
    assert reward(over, PLAIN._replace(overspend=50.0)) == pytest.approx(-50.0)


def test_growth_under_urgency_is_worth_it_at_risk_and_costs_elsewhere() -> None:
    actions = np.zeros((1, 1, 3, 2))
    actions[..., 0], actions[..., 1] = np.log(1.2), 0.0
    actions[0, 0, 2] = -1.0
    growth = Growth(actions, np.full((1, 1, 3), 0.5), np.array([[[1.0, 0.0, 0.0]]]))
    half = 0.5 * np.log(1.2)
    np.testing.assert_allclose(coupling(growth)[0, 0], [half, -half, 0.0])
    calm = growth._replace(urgency=np.zeros((1, 1, 3)))
    assert (coupling(calm) == 0.0).all()
    three = Growth(*(np.repeat(one[:, :, :2], 3, axis=0) for one in growth))
    weights = PLAIN._replace(coupling=2.0)
    found = soldier_rewards(HEURISTIC, HEURISTIC, three, DOMAIN, PRIORITY, OBJECTIVE, weights)
    np.testing.assert_allclose(found[0, 0], [2.0 * half, -2.0 * half])


def test_latency_that_varies_costs_and_one_that_is_high_throughout_does_not() -> None:
    steady, plain = np.full((30, 1, 1), 0.9), np.full((30, 1, 1), 0.2)
    weights = PLAIN._replace(latency_variance=0.1)
    np.testing.assert_allclose(of_latency(steady, plain, weights, 0.9), 0.0, atol=1e-12)
    swinging = steady.copy()
    swinging[10::2] += 0.4
    found = of_latency(swinging, plain, weights, 0.9)[:, 0, 0]
    np.testing.assert_allclose(found[:10], 0.0, atol=1e-12)
    assert found[25] == pytest.approx(-0.1 * 0.04)
    # Ten minutes, no more.
    assert variance(swinging)[19, 0, 0] == pytest.approx(swinging[10:20, 0, 0].var())


def test_shaping_says_earlier_what_latency_does_and_sums_to_the_ends() -> None:
    late = np.array([0.5, 1.5, 2.0, 0.5])[:, None, None]
    found = of_latency(late, np.full_like(late, 0.5), PLAIN._replace(potential=1.0), 0.9)[:, 0, 0]
    np.testing.assert_allclose(found, [0.0, -0.45, -0.9 + 0.5, 1.0])
    potential = np.random.default_rng(0).normal(size=20)
    powers = 0.9 ** np.arange(20)
    # The first minute begins where it ends.
    ends = 0.9**20 * potential[-1] - potential[0]
    assert (powers * shaping(potential, 0.9)).sum() == pytest.approx(ends)


def test_shaping_moves_no_optimum_of_a_small_decision_process() -> None:
    draw = np.random.default_rng(1)
    states, actions, discount = 6, 3, 0.9
    for _ in range(20):
        after = draw.dirichlet(np.ones(states), (states, actions))
        gain, potential = draw.normal(size=(states, actions)), 10.0 * draw.normal(size=states)
        pairs = np.stack(np.broadcast_arrays(potential[:, None], potential[None]))
        # Between any two states, as between two minutes.
        added = shaping(pairs, discount)[1]
        plain = best_actions(after, gain, discount)
        shaped = best_actions(after, gain + (after * added[:, None]).sum(axis=2), discount)
        np.testing.assert_array_equal(plain, shaped)


def best_actions(after: F64, gain: F64, discount: float) -> F64:
    values = np.zeros(len(gain))
    for _ in range(500):
        values = (gain + discount * after @ values).max(axis=1)
    found: F64 = (gain + discount * after @ values).argmax(axis=1)
    return found
