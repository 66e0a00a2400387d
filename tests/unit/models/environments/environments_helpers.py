"""A small cluster, a short scenario and constant policies for the tests of environments."""

from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from models.cluster.arrays import F32
from models.environments.app import AppEnv
from models.environments.commander import CommanderEnv
from models.environments.environment import Environment
from models.environments.soldier import SoldierEnv
from models.sim.config.events import Target, Traffic
from models.sim.config.physics import SimCluster, load_sim_cluster, with_apps
from models.sim.config.scenario import Scenario

Env = Environment[Any]
KINDS: Final = ("commander", "paired commander", "soldier", "app")


@cache
def cluster() -> SimCluster:
    return with_apps(load_sim_cluster(), 40)


@cache
def spike(name: str = "spike") -> Scenario:
    """Payments' traffic doubles after two of six minutes."""
    event = Traffic(
        name="spike", target=Target(domains=("payments",)), at_minute=2.0, factor=2.0,
        hold_minutes=3.0,
    )  # fmt: skip
    return Scenario(
        name=name, shows="Payments' traffic doubles.", start="Mon 10:00", length_minutes=6,
        warmup_minutes=2, events=(event,),
    )  # fmt: skip


def make(kind: str, scenarios: tuple[Scenario | str | Path, ...] | None = None) -> Env:
    chosen = (spike(),) if scenarios is None else scenarios
    match kind:
        case "commander":
            return CommanderEnv(chosen, cluster())
        case "paired commander":
            return CommanderEnv(chosen, cluster(), paired=True)
        case "soldier":
            return SoldierEnv("payments", chosen, cluster())
        case _:
            return AppEnv(0, chosen, cluster())


class ConstantPolicy:
    """A policy with a constant action; records its observations."""

    def __init__(self, value: float, actions: int) -> None:
        self.action: F32 = np.full(actions, value, np.float32)
        self.observations: list[F32] = []

    def predict(self, observation: F32, *, deterministic: bool) -> tuple[F32, None]:
        assert deterministic
        self.observations.append(observation)
        return self.action, None


class Played:
    """A whole episode: its observations, rewards and last `info`."""

    def __init__(self, env: Env, policy: ConstantPolicy, **reset: Any) -> None:
        observation, self.start_info = env.reset(**reset)
        self.observations, self.rewards, self.info = [observation], list[float](), dict[str, Any]()
        self.over = False
        while not self.over:
            action, _ = policy.predict(observation, deterministic=True)
            observation, reward, _, self.over, self.info = env.step(action)
            self.observations.append(observation)
            self.rewards.append(reward)


def play(env: Env, value: float = 0.0, **reset: Any) -> Played:
    assert env.action_space.shape is not None
    return Played(env, ConstantPolicy(value, env.action_space.shape[0]), **reset)
