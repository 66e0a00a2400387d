"""The two agents as PPO sees them: how they act in a run, and what each decision was worth.

A row is one network's answer: for the Commander that of an environment, for the Soldiers that of a
domain. A unit is what one reward is about: the row itself, or a member of the domain.
"""

from abc import ABC, abstractmethod
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from models.cluster import rows
from models.cluster.arrays import F32, F64, I32
from models.control.budget import Directive
from models.control.demand import AppSignals
from models.control.residual import Advisers, AppFactors
from models.policies.advisers import CommanderPolicy
from models.policies.contract import MEMBERS, STEPS
from models.policies.inputs import CommanderInputs
from models.policies.outputs import Answer, factors_of
from models.policies.soldier_inputs import SoldierInputs, at_risk, soldier_inputs
from models.training import network, soldier_network
from models.training.args import Args, Weights
from models.training.reward import Costs, Growth, commander_rewards, soldier_rewards
from models.training.rollouts import Track

NOBODY: Final = -1
"""Unit of an app about which nothing was decided."""


class Memory(NamedTuple):
    """The decisions of one run. M minutes, R rows, U units of a row, C rewards of a minute."""

    inputs: dict[str, F32]
    """[M, R, ...] by the names of the contract; what is per cluster is repeated."""
    raw: F32
    """[M, R, ...] actions before they were clipped."""
    rewards: F64
    """[M, C]."""
    unit: I32 | None = None
    """[M, C] of the R x U units, the one that each reward is about, or NOBODY. None: the rows."""


class Agent(ABC):
    """A policy with its critic, and the way from a run to its decisions."""

    args: Args
    policy: nn.Module
    value: nn.Module
    price: float = 0.0
    """Of node-hours, beyond their weight in the objective."""
    discount: float
    """Per minute; it may change during training."""

    @property
    def weights(self) -> Weights:
        """Of the rewards now."""
        weights = self.args.weights
        return weights._replace(node_hours=weights.node_hours + self.price)

    @abstractmethod
    def log_probability(self, inputs: dict[str, Tensor], raw: Tensor) -> tuple[Tensor, Tensor]:
        """[rows, U] of raw actions, and the mean entropy."""

    @abstractmethod
    def values(self, inputs: dict[str, Tensor]) -> Tensor:
        """[rows, U]."""

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
        self.args, self.discount = args, args.discount
        self.policy = network.CommanderPolicy(args.hidden, args.levers, args.log_std)
        self.value = network.CommanderValue(args.hidden)

    @property
    def exported(self) -> nn.Module:
        """With the outputs of the contract."""
        return network.ExportedCommander(self.policy)

    def log_probability(self, inputs: dict[str, Tensor], raw: Tensor) -> tuple[Tensor, Tensor]:
        """Of a normal distribution; actions that are not moved don't count."""
        std, moved = self.policy.spread(raw.shape[1])
        each = -0.5 * ((raw - self.policy(**inputs)) / std) ** 2 - std.log()
        entropy = (std.log() * moved).sum() / moved.sum().clamp(min=1.0)
        return (each * moved).sum(dim=1, keepdim=True), entropy

    def values(self, inputs: dict[str, Tensor]) -> Tensor:
        """[rows, 1]."""
        found: Tensor = self.value(**inputs)
        return found.unsqueeze(1)

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
            np.array(list(cluster.priority_weights.values())), self.weights, self.discount,
        )  # fmt: skip
        return Memory(fields, raw, rewards), costs


class Soldier(Agent):
    """One decision a tick about the members of every domain; one tick a minute is learned from."""

    policy: soldier_network.SoldierPolicy
    value: soldier_network.SoldierValue

    def __init__(self, args: Args) -> None:
        self.args, self.discount = args, args.discount
        self.policy = soldier_network.SoldierPolicy(args.hidden, args.levers, args.log_std)
        self.value = soldier_network.SoldierValue(args.hidden)

    @property
    def exported(self) -> nn.Module:
        """The policy itself: without noise it gives the outputs of the contract."""
        return self.policy

    def log_probability(self, inputs: dict[str, Tensor], raw: Tensor) -> tuple[Tensor, Tensor]:
        """Of the step, and given the step of the request."""
        policy, step = self.policy, one_hot(raw[..., 0])
        code = policy.body(inputs["domain"], inputs["member"], inputs["cores"])
        logs = torch.log_softmax(policy.logits(code, inputs["feasible"]), dim=2)
        mean = policy.mean_cpu(code, step, inputs["cores"], inputs["limit"])
        std = policy.log_std.exp()
        of_cpu = -0.5 * ((raw[..., 1] - mean) / std) ** 2 - std.log()
        entropy = -(logs.exp() * logs).sum(dim=2).mean()
        if policy.resizes:
            return (logs * step).sum(dim=2) + of_cpu, entropy + std.log().mean()
        return (logs * step).sum(dim=2), entropy

    def values(self, inputs: dict[str, Tensor]) -> Tensor:
        """[rows, MEMBERS]."""
        found: Tensor = self.value(inputs["domain"], inputs["member"], inputs["cores"])
        return found

    def play(self, track: Track, generator: torch.Generator | None) -> tuple[Memory, Costs]:
        """One network call for all domains of all environments of the track."""
        actor = SoldierActor(self.policy, track, generator)
        costs = track.play(Advisers(soldier=actor))
        inventory, minutes = track.inventory, len(costs.nodes)
        rewards = soldier_rewards(
            costs, track.plain, Growth(*(np.stack(one) for one in zip(*actor.grown, strict=True))),
            inventory.domain.astype(np.int32), inventory.priority,
            np.array(list(track.world.cluster.priority_weights.values())), self.weights,
            self.discount,
        )  # fmt: skip
        fields = {
            name: np.stack([getattr(inputs, name) for inputs in actor.seen])
            for name in SoldierInputs._fields
        }
        by_row = {name: one.reshape(minutes, -1, *one.shape[3:]) for name, one in fields.items()}
        memory = Memory(
            by_row, np.stack(actor.raw), rewards.reshape(minutes, -1), np.stack(actor.units)
        )
        return memory, costs


class SoldierActor:
    """The policy in a run, with noise that is drawn once a minute: each tick it would average out.

    It keeps what was decided in the first tick of each minute.
    """

    def __init__(
        self,
        policy: soldier_network.SoldierPolicy,
        track: Track,
        generator: torch.Generator | None,
    ) -> None:
        self._policy, self._inventory, self._generator = policy, track.inventory, generator
        self._per_minute, self._tick = 60 // track.inventory.tick_s, 0
        self._noise: tuple[Tensor, Tensor] | None = None
        self.seen: list[SoldierInputs] = []
        self.raw: list[F32] = []
        self.units: list[I32] = []
        self.grown: list[Growth] = []

    def __call__(self, status: I32, signals: AppSignals, directive: Directive, /) -> AppFactors:
        """Decide for this tick."""
        inputs, apps = soldier_inputs(status, signals, directive, self._inventory)
        begins = self._tick % self._per_minute == 0
        self._tick += 1
        flat = flat_inputs(inputs)
        if begins and self._generator is not None:
            self._noise = _noise(len(flat["domain"]), self._generator)
        raw, need, cpu = _act(self._policy, flat, self._noise)
        answer = {"need": need.numpy(), "cpu": cpu.numpy()}
        factors = factors_of(answer, apps, status, self._inventory.priority)
        if begins:
            self.seen.append(inputs)
            self.raw.append(raw.numpy())
            self.grown.append(_growth(factors, status, signals, directive))
            environment = np.arange(len(status))[:, None] * inputs.domain.shape[1] * MEMBERS
            unit = np.where(apps.known, environment + apps.member, NOBODY)
            self.units.append(unit.reshape(-1).astype(np.int32))
        return factors


def _growth(factors: AppFactors, status: I32, signals: AppSignals, directive: Directive) -> Growth:
    row = np.arange(len(status))[:, None]
    return Growth(
        actions=np.log(np.stack(factors, axis=2).astype(np.float64)),
        urgency=directive.budget.urgency[row, status[:, rows.DOMAIN]],
        at_risk=at_risk(signals.features),
    )


def flat_inputs(inputs: SoldierInputs) -> dict[str, Tensor]:
    """A row per domain of every environment."""
    return {
        name: torch.from_numpy(values.reshape(-1, *values.shape[2:]))
        for name, values in inputs._asdict().items()
    }


def _noise(rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Gumbel noise for the steps, normal noise for the requests."""
    uniform = torch.rand((rows, MEMBERS, len(STEPS)), generator=generator)
    gumbel = -torch.log(-torch.log(uniform.clamp(1e-9, 1.0 - 1e-6)))
    return gumbel, torch.randn((rows, MEMBERS), generator=generator)


def _act(
    policy: soldier_network.SoldierPolicy,
    flat: dict[str, Tensor],
    noise: tuple[Tensor, Tensor] | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Raw actions [rows, MEMBERS, 2], and the outputs of the contract."""
    with torch.no_grad():
        code = policy.body(flat["domain"], flat["member"], flat["cores"])
        logits = policy.logits(code, flat["feasible"])
        gumbel, normal = noise if noise is not None else (torch.zeros(()), None)
        step = one_hot((logits + gumbel).argmax(dim=2))
        cpu = policy.mean_cpu(code, step, flat["cores"], flat["limit"])
        if normal is not None and policy.resizes:
            cpu = cpu + policy.log_std.exp() * normal
        outputs = policy.projected(step, cpu, flat["cores"], flat["limit"])
        return torch.stack((step.argmax(dim=2).to(cpu.dtype), cpu), dim=2), *outputs


def one_hot(step: Tensor) -> Tensor:
    """[..., STEPS] of indices."""
    return nn.functional.one_hot(step.long(), len(STEPS)).to(torch.float32)


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
