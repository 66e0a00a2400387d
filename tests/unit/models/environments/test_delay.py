"""Delayed actions: they arrive when they should, and the observation says what is on the way."""

import itertools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from models.cluster.arrays import F32
from models.environments.delay import Delay, DelayedActions, always, as_observed

STEPS = 40


class Adding(gym.Env[F32, F32]):
    """The observation is the sum of all actions."""

    def __init__(self) -> None:
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.observation_space = gym.spaces.Box(-99.0, 99.0, (1,), np.float32)
        self._sum = np.zeros(1, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[F32, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._sum = np.zeros(1, np.float32)
        return self._sum, {}

    def step(self, action: F32) -> tuple[F32, float, bool, bool, dict[str, Any]]:
        self._sum = self._sum + action
        return self._sum, float(action[0]), False, False, {}


def played(delay: Delay, most: int, actions: list[float]) -> list[F32]:
    env = DelayedActions(Adding(), delay, most)
    found = [env.reset(seed=3)[0]]
    for action in actions:
        observation, *_ = env.step(np.array([action], np.float32))
        assert env.observation_space.contains(observation)
        found.append(observation)
    return found


def test_without_a_delay_actions_are_in_force_at_once() -> None:
    found = played(always(0), 2, [0.5, 0.25])
    assert [float(one[0]) for one in found] == [0.0, 0.5, 0.75]
    assert (found[-1][2:] == 0.0).all()


def test_an_action_takes_effect_after_its_delay_and_stays_in_force() -> None:
    found = played(always(2), 2, [0.5, 0.25, 0.0, 0.0])
    assert [float(one[0]) for one in found] == [0.0, 0.0, 0.0, 0.5, 0.75]


def test_the_observation_has_what_is_pending_with_its_age() -> None:
    found = played(always(2), 2, [0.5, 0.25])[-1]
    assert found.tolist() == [0.0, 0.0, 0.25, 0.5, 0.5, 1.0]


def test_the_next_observation_follows_from_this_one_and_the_action() -> None:
    """With a fixed delay; without the pending actions it does not."""
    draw = np.random.default_rng(0)
    actions = draw.choice([-1.0, 1.0], STEPS).tolist()
    found = played(always(3), 3, actions)
    for now, after in itertools.pairwise(found[3:]):
        # In force next is the oldest that is pending.
        assert after[0] == now[0] + now[4]
    plain: dict[tuple[float, float], set[float]] = {}
    for now, action, after in zip(found[3:], actions[3:], found[4:], strict=False):
        plain.setdefault((float(now[0]), action), set()).add(float(after[0]))
    assert any(len(ends) > 1 for ends in plain.values())


def test_an_action_that_was_overtaken_has_no_effect() -> None:
    delays = iter([3, 0, 0, 0])
    found = played(lambda _rng: next(delays), 3, [1.0, 0.25, 0.25, 0.25])
    assert [float(one[0]) for one in found] == [0.0, 0.0, 0.25, 0.5, 0.75]


def test_delays_are_drawn_as_they_were_observed() -> None:
    draw, delay = np.random.default_rng(0), as_observed([0, 3, 0, 1])
    found = [delay(draw) for _ in range(4000)]
    assert set(found) == {1, 3}
    assert found.count(1) / len(found) == pytest.approx(0.75, abs=0.03)


def test_delays_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        as_observed([0, 0])
