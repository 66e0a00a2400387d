"""A delay between an action and its effect, for any environment and any algorithm.

Pods and nodes take time to start. An agent that does not see what it has asked for already asks
again. The wrapper keeps the environment Markov by adding to its observation what is on the way: the
action in force, and each pending action with its age. With random delays the age says how soon it
may arrive.
"""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F32

Delay = Callable[[np.random.Generator], int]
"""Draws after how many steps an action takes effect; 0 is at once."""


def always(steps: int) -> Delay:
    """The same delay every time."""
    return lambda _rng: steps


def as_observed(counts: Sequence[int] | NDArray[np.integer[Any]]) -> Delay:
    """Delays as often as they were observed; `counts` are by number of steps.

    The accounts of a simulated run have them: `waits`, pods by ticks from need to ready.
    """
    total = np.cumsum(np.asarray(counts, np.float64))
    if total.size == 0 or total[-1] <= 0.0:
        raise ValueError("expected at least one observed delay")
    # Inverse transform sampling: the first delay whose share reaches the draw.
    return lambda rng: int(np.searchsorted(total / total[-1], rng.random(), side="right"))


class DelayedActions(gym.Wrapper[F32, F32, F32, F32]):
    """Actions take effect later; zeros are in force until the first one does."""

    def __init__(self, env: gym.Env[F32, F32], delay: Delay, most: int) -> None:
        """`most` is the longest delay in steps; longer draws are cut to it."""
        super().__init__(env)
        space = env.action_space
        if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
            raise TypeError("expected a flat Box of actions")
        self._delay, self._most, self._actions = delay, most, space.shape[0]
        self._rng = np.random.default_rng()
        self._pending: list[tuple[int, int, F32]] = []
        """Step in which it was decided, step in which it takes effect, action."""
        self._force, self._since, self._step = self._nothing(), -1, 0
        seen = env.observation_space
        if not isinstance(seen, gym.spaces.Box):
            raise TypeError("expected a Box of observations")
        low = np.concatenate((space.low, np.tile(space.low, most), np.zeros(most, np.float32)))
        high = np.concatenate((space.high, np.tile(space.high, most), np.ones(most, np.float32)))
        self.observation_space = gym.spaces.Box(
            np.concatenate((seen.low, np.minimum(low, 0.0))).astype(np.float32),
            np.concatenate((seen.high, np.maximum(high, 0.0))).astype(np.float32),
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[F32, dict[str, Any]]:
        """Nothing is on the way."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._pending, self._step = [], 0
        self._force, self._since = self._nothing(), -1
        observation, info = self.env.reset(seed=seed, options=options)
        return self._with_pending(observation), info

    def step(self, action: F32) -> tuple[F32, Any, bool, bool, dict[str, Any]]:
        """Send an action on its way, and apply what has arrived."""
        lasts = min(self._most, self._delay(self._rng))
        self._pending.append((self._step, self._step + lasts, np.asarray(action, np.float32)))
        for decided, due, asked in self._pending:
            # An action that is overtaken by a later one has no effect any more.
            if due <= self._step and decided > self._since:
                self._force, self._since = asked, decided
        self._pending = [
            one for one in self._pending if one[1] > self._step and one[0] > self._since
        ]
        self._step += 1
        observation, reward, ended, cut, info = self.env.step(self._force)
        return self._with_pending(observation), reward, ended, cut, info

    def _with_pending(self, observation: F32) -> F32:
        """The observation, the action in force, then by age what is pending and how old it is."""
        actions = np.zeros((self._most, self._actions), np.float32)
        ages = np.zeros(self._most, np.float32)
        for decided, _, asked in self._pending:
            age = self._step - decided
            actions[age - 1], ages[age - 1] = asked, age / self._most
        return np.concatenate((observation, self._force, actions.ravel(), ages)).astype(np.float32)

    def _nothing(self) -> F32:
        return np.zeros(self._actions, np.float32)
