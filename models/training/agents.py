"""The two agents as PPO sees them: how they act in a run, and what each decision was worth.

A row is one decision maker: for the Commander an environment, for the Soldiers an app.
"""

from abc import ABC, abstractmethod
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from models.cluster.arrays import F32, F64
from models.control.residual import Advisers
from models.policies.advisers import CommanderPolicy, SoldierPolicy
from models.policies.contract import SOLDIER_OUTPUTS
from models.policies.inputs import CommanderInputs
from models.policies.outputs import Answer
from models.training import network
from models.training.args import Args, Weights
from models.training.reward import Costs, commander_rewards, soldier_rewards
from models.training.rollouts import Track

LEARNED_APPS: Final = 48
"""Apps of each environment that are learned from in one run: neighbours tell much the same."""


class Memory(NamedTuple):
    """The decisions of one run. M minutes, R rows."""

    inputs: dict[str, F32]
    """[M, R, ...] by the names of the contract; what is per cluster is repeated."""
    raw: F32
    """[M, R, K] actions before they were clipped."""
    rewards: F64
    """[M, R]."""


class Agent(ABC):
    """A policy with its critic, and the way from a run to its decisions."""

    args: Args
    policy: nn.Module
    value: nn.Module
    price: float = 0.0
    """Of node-hours, beyond their weight in the objective."""

    @property
    def weights(self) -> Weights:
        """Of the rewards now."""
        weights = self.args.weights
        return weights._replace(node_hours=weights.node_hours + self.price)

    @abstractmethod
    def play(self, track: Track, generator: torch.Generator | None) -> tuple[Memory, Costs]:
        """Play a track with noise, or without where there is no generator."""

    @property
    @abstractmethod
    def exported(self) -> nn.Module:
        """The policy as it ships."""


class Commander(Agent):
    """One decision a minute about all domains of an environment."""

    def __init__(self, args: Args) -> None:
        self.args = args
        self.policy = network.CommanderPolicy(args.hidden, args.levers, args.log_std)
        self.value = network.CommanderValue(args.hidden)

    @property
    def exported(self) -> nn.Module:
        """With the outputs of the contract."""
        return network.ExportedCommander(self.policy)

    def play(self, track: Track, generator: torch.Generator | None) -> tuple[Memory, Costs]:
        """One network call for all environments of the track."""
        seen: list[CommanderInputs] = []
        acted: list[Tensor] = []

        def answer(inputs: CommanderInputs) -> Answer:
            seen.append(inputs)
            raw = sample(self.policy, feed_of(inputs), generator)
            acted.append(raw)
            return _answer(raw, inputs.domain.shape[1])

        costs = track.play(Advisers(commander=CommanderPolicy(track.inventory, answer)))
        raw = torch.stack(acted).numpy()
        fields = {
            name: np.stack([_per_row(name, inputs) for inputs in seen])
            for name in CommanderInputs._fields
        }
        cluster = track.world.cluster
        rewards = commander_rewards(
            costs, track.plain, raw.astype(np.float64), track.inventory.priority,
            np.array(list(cluster.priority_weights.values())), self.weights,
        )  # fmt: skip
        return Memory(fields, raw, rewards), costs


class Soldier(Agent):
    """One decision a tick about every app; one tick a minute is learned from."""

    def __init__(self, args: Args) -> None:
        self.args = args
        self.policy = network.SoldierPolicy(args.hidden, args.log_std)
        self.value = network.SoldierValue(args.hidden)

    @property
    def exported(self) -> nn.Module:
        """With the outputs of the contract."""
        return network.ExportedSoldier(self.policy)

    def play(self, track: Track, generator: torch.Generator | None) -> tuple[Memory, Costs]:
        """Noise is drawn once a minute and kept: a new one each tick would average out."""
        per_minute = 60 // track.inventory.tick_s
        seen: list[F32] = []
        acted: list[Tensor] = []
        noise: list[Tensor] = []
        chosen = _chosen(track, generator)

        def answer(inputs: F32) -> F32:
            shape = inputs.shape[:2]
            flat = {"app": torch.from_numpy(inputs.reshape(-1, inputs.shape[2]))}
            with torch.no_grad():
                mean = self.policy(**flat)
                if len(noise) % per_minute == 0 and generator is not None:
                    std, _ = self.policy.spread(1)
                    noise.append(std * torch.randn(mean.shape, generator=generator))
                else:
                    noise.append(noise[-1] if generator is not None else torch.zeros_like(mean))
                raw = mean + noise[-1]
                if (len(noise) - 1) % per_minute == 0:
                    seen.append(inputs[:, chosen].reshape(-1, inputs.shape[2]))
                    acted.append(raw.reshape(shape)[:, chosen].reshape(-1, 1))
                factor = network.in_units(raw, SOLDIER_OUTPUTS)[0]
            factors: F32 = factor.reshape(shape).numpy()
            return factors

        costs = track.play(Advisers(soldier=SoldierPolicy(track.inventory, answer)))
        raw = torch.stack(acted).numpy()
        cluster = track.world.cluster
        minutes, environments = costs.nodes.shape
        rewards = soldier_rewards(
            _of_apps(costs, chosen), _of_apps(track.plain, chosen),
            raw.reshape(minutes, environments, -1).astype(np.float64),
            track.inventory.priority[track.inventory.domain[chosen]],
            np.array(list(cluster.priority_weights.values())), self.weights,
        )  # fmt: skip
        return Memory({"app": np.stack(seen)}, raw, rewards.reshape(minutes, -1)), costs


def agent_of(args: Args) -> Agent:
    """A new agent; its weights follow from torch's seed."""
    return Commander(args) if args.agent == "commander" else Soldier(args)


def sample(policy: Any, inputs: dict[str, Tensor], generator: torch.Generator | None) -> Tensor:
    """Raw actions [rows, K]; without a generator the policy's means."""
    with torch.no_grad():
        mean: Tensor = policy(**inputs)
        if generator is None:
            return mean
        std, _ = policy.spread(mean.shape[1])
        return mean + std * torch.randn(mean.shape, generator=generator)


def feed_of(inputs: CommanderInputs) -> dict[str, Tensor]:
    """As batches want it: what is per cluster once per row."""
    return {
        name: torch.from_numpy(np.ascontiguousarray(_per_row(name, inputs)))
        for name in CommanderInputs._fields
    }


def _per_row(name: str, inputs: CommanderInputs) -> F32:
    values: F32 = getattr(inputs, name)
    if name in ("calls", "uses"):
        return np.broadcast_to(values, (inputs.domain.shape[0], *values.shape))
    return values


def _answer(raw: Tensor, domains: int) -> Answer:
    """The outputs of the contract for raw actions, domain by domain and then the cluster's."""
    split = domains * network.DOMAIN_ACTIONS
    of_domain = raw[:, :split].reshape(-1, domains, network.DOMAIN_ACTIONS)
    values = (
        *network.in_units(of_domain, network.DOMAIN_PORTS),
        *network.in_units(raw[:, split:], network.CLUSTER_PORTS),
    )
    ports = (*network.DOMAIN_PORTS, *network.CLUSTER_PORTS)
    return {port.name: value.numpy() for port, value in zip(ports, values, strict=True)}


def _chosen(track: Track, generator: torch.Generator | None) -> Any:
    apps = track.inventory.domain.size
    if generator is None or apps <= LEARNED_APPS:
        return np.arange(min(apps, LEARNED_APPS))
    return np.sort(torch.randperm(apps, generator=generator)[:LEARNED_APPS].numpy())


def _of_apps(costs: Costs, chosen: Any) -> Costs:
    return costs._replace(apps=costs.apps[..., chosen], held=costs.held[..., chosen])
