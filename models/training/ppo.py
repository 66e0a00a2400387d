"""PPO, top to bottom: play every track with noise, judge each decision, take careful steps.

Deterministic for a seed and one thread. Each iteration ends with a checkpoint; an interrupted run
continues from it with the same result. The best judged iteration is what ships.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from models.cluster.arrays import F64
from models.inputs.errors import InputError
from models.training.agents import NOBODY, Agent, Memory, agent_of
from models.training.args import Args
from models.training.discount import Discount
from models.training.multiplier import TOLERANCE, Multiplier
from models.training.reward import Costs, advantages
from models.training.rollouts import Track


class Iteration(msgspec.Struct, frozen=True, kw_only=True):
    """A point of the learning curves."""

    iteration: int
    reward: float
    """Mean per decision."""
    objective: float
    """J with noise over the heuristic's on the same seeds, less one; mean over the tracks."""
    p0_minutes: float
    """P0 violation minutes less the heuristic's, per seed and track."""
    nodes: float
    """Node-hours over the heuristic's, less one."""
    kl: float
    passes: int
    """Over the decisions, before the divergence stopped them."""
    value_loss: float
    spread: float
    """Mean standard deviation of the actions."""
    price: float = 0.0
    """Of node-hours in this iteration, beyond their weight in the objective."""
    discount: float = 0.0
    judged: float | None = None
    """J without noise over the heuristic's on the judging seeds, less one."""
    judged_p0: float | None = None
    judged_nodes: float | None = None
    """Node-hours of the same, over the heuristic's, less one."""


class Watch(Protocol):
    """Receives progress."""

    def played(self) -> None:
        """A track was played."""
        ...

    def learned(self, iteration: Iteration) -> None:
        """An iteration is over."""
        ...


class Decisions(NamedTuple):
    """Of all tracks of one shape, one after the other. N rows, U units of each."""

    inputs: dict[str, Tensor]
    raw: Tensor
    """[N, ...]."""
    log_prob: Tensor
    """[N, U] under the policy that acted."""
    advantage: Tensor
    """[N, U]."""
    returns: Tensor
    """[N, U]."""
    weight: Tensor
    """[N, U] 0 where no reward is about the unit."""


class Judgement(msgspec.Struct, frozen=True):
    """Ours over the heuristic's."""

    objective: float
    p0_minutes: float
    nodes: float


class Trainer:
    """Everything that changes during training."""

    def __init__(self, args: Args, checkpoint: Path) -> None:
        torch.manual_seed(args.seed)
        torch.set_num_threads(1)
        self.args, self._checkpoint = args, checkpoint
        self.agent: Agent = agent_of(args)
        # Policy and critic apart: the errors of the critic are a hundred times as large.
        self._parameters = [
            list(module.parameters()) for module in (self.agent.policy, self.agent.value)
        ]
        self._optimisers = [
            torch.optim.Adam(parameters, rate, eps=1e-5)
            for parameters, rate in zip(
                self._parameters, (args.learning_rate, args.critic_rate), strict=True
            )
        ]
        self._generator = torch.Generator().manual_seed(args.seed)
        self._multiplier = Multiplier()
        self._discount = Discount(value=args.discount)
        self.curve: list[Iteration] = []
        self.start: Judgement | None = None
        """Of the clone that PPO begins with; None before it was judged."""
        self.best = _copy(self.agent.policy)
        self.best_objective = 0.0
        """Of the heuristic itself: a policy that is never better than it does not ship."""
        if checkpoint.exists():
            self._resume()

    def learn(
        self, tracks: Sequence[Track], judges: Sequence[Track], watch: Watch, end: int | None = None
    ) -> None:
        """All iterations that are left before `end`, if it is given."""
        if not self.curve:
            # What was cloned may be better than what noise makes of it.
            self.start = self._judge(judges)
        end = self.args.iterations if end is None else end
        for iteration in range(len(self.curve), end):
            played = []
            for track in tracks:
                played.append((track, *self.agent.play(track, self._generator)))
                watch.played()
            memories = [memory for _, memory, _ in played]
            reward = float(np.mean([memory.rewards.mean() for memory in memories]))
            if self.args.cusum:
                self._discount = self._discount.updated(reward)
                self.agent.discount = self._discount.value
            kl, passes, loss = self._update([self._decisions(one) for one in _by_shape(memories)])
            found = judge([(track, costs) for track, _, costs in played])
            closed = Iteration(
                iteration=iteration,
                reward=reward,
                objective=found.objective, p0_minutes=found.p0_minutes, nodes=found.nodes,
                kl=kl, passes=passes, value_loss=loss, spread=self._spread(),
                price=self.agent.price, discount=self.agent.discount,
            )  # fmt: skip
            if self.args.most_nodes is not None:
                self._multiplier = self._multiplier.updated(found.nodes - self.args.most_nodes)
                self.agent.price = self._multiplier.price
            if (iteration + 1) % self.args.judge_every == 0:
                found = self._judge(judges)
                closed = msgspec.structs.replace(
                    closed, judged=found.objective, judged_p0=found.p0_minutes,
                    judged_nodes=found.nodes,
                )  # fmt: skip
            self.curve.append(closed)
            self._save()
            watch.learned(closed)

    def _decisions(self, memories: list[Memory]) -> Decisions:
        """Judge every decision by what came of it."""
        parts = []
        for memory in memories:
            minutes, count = memory.raw.shape[:2]
            inputs = {
                name: torch.from_numpy(np.ascontiguousarray(values)).flatten(0, 1)
                for name, values in memory.inputs.items()
            }
            raw = torch.from_numpy(memory.raw).flatten(0, 1)
            with torch.no_grad():
                values = self.agent.values(inputs).numpy().astype(np.float64)
                log_prob, _ = self.agent.log_probability(inputs, raw)
            credit = credited(
                memory, values.reshape(minutes, -1), self.agent.discount, self.args.trace
            )
            flat = [torch.from_numpy(one.reshape(minutes * count, -1)) for one in credit]
            parts.append((inputs, raw, log_prob, *(one.to(torch.float32) for one in flat)))
        every, *others = zip(*parts, strict=True)
        joined = {name: torch.cat([inputs[name] for inputs in every]) for name in every[0]}
        return Decisions(joined, *(torch.cat(one) for one in others))

    def _update(self, shapes: list[Decisions]) -> tuple[float, int, float]:
        """Several passes over the decisions; divergence, passes and loss of the value."""
        kl = loss = 0.0
        # After a change point the policy waits for a batch: these decisions are its own, so their
        # advantages under the new discount need no importance weights.
        steady = len(self.curve) < self.args.critic_first or self._discount.changed
        for done in range(self.args.epochs):
            losses = []
            for decisions in shapes:
                order = torch.randperm(len(decisions.raw), generator=self._generator)
                for rows in order.split(self.args.minibatch):
                    divergence, value_loss = self._step(decisions, rows, steady=steady)
                    losses.append(value_loss)
                    kl = max(kl, divergence)
                    # Within a pass: one pass can go too far.
                    if kl > self.args.most_kl:
                        steady = True
            loss = float(np.mean(losses))
            if kl > self.args.most_kl:
                return kl, done + 1, loss
        return kl, self.args.epochs, loss

    def _step(self, decisions: Decisions, rows: Tensor, *, steady: bool) -> tuple[float, float]:
        """One step of the critic, and of the policy unless it is to stay steady."""
        args, agent = self.args, self.agent
        inputs = {name: values[rows] for name, values in decisions.inputs.items()}
        log_prob, entropy = agent.log_probability(inputs, decisions.raw[rows])
        log_ratio = log_prob - decisions.log_prob[rows]
        ratio = log_ratio.exp()
        gain, weight = decisions.advantage[rows], decisions.weight[rows]
        # Of the batch itself: the last one may have a single row.
        gain = gain - _mean(gain, weight)
        gain = gain / (_mean(gain**2, weight).sqrt() + 1e-8)
        clip = self._discount.clip(args.clip)
        clipped = ratio.clamp(1 - clip, 1 + clip)
        policy_loss = -_mean(torch.minimum(ratio * gain, clipped * gain), weight)
        value_loss = _mean((agent.values(inputs) - decisions.returns[rows]) ** 2, weight)
        learned = 0.0 if steady else policy_loss - args.entropy * entropy
        loss = learned + args.value_weight * value_loss
        for optimiser in self._optimisers:
            optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        for parameters in self._parameters:
            nn.utils.clip_grad_norm_(parameters, args.most_gradient)
        for optimiser in self._optimisers[1:] if steady else self._optimisers:
            optimiser.step()
        # Schulman's estimate, which is never negative.
        divergence = _mean(ratio - 1 - log_ratio, weight)
        return float(divergence.detach()), float(value_loss.detach())

    def _judge(self, judges: Sequence[Track]) -> Judgement:
        found = judge([(track, self.agent.play(track, None)[1]) for track in judges])
        # The guard of P0: a policy that sells it does not ship, however much J it saves.
        allowed = found.p0_minutes <= 0.0 and (
            self.args.most_nodes is None or found.nodes <= self.args.most_nodes + TOLERANCE
        )
        if found.objective < self.best_objective and allowed:
            self.best, self.best_objective = _copy(self.agent.policy), found.objective
        return found

    def _spread(self) -> float:
        with torch.no_grad():
            return float(self.agent.policy.log_std.exp().mean())

    def _save(self) -> None:
        state = {
            "args": msgspec.json.encode(self.args),
            "policy": self.agent.policy.state_dict(),
            "value": self.agent.value.state_dict(),
            "optimisers": [one.state_dict() for one in self._optimisers],
            "generator": self._generator.get_state(),
            "curve": msgspec.json.encode(self.curve),
            "multiplier": msgspec.json.encode(self._multiplier),
            "discount": msgspec.json.encode(self._discount),
            "start": msgspec.json.encode(self.start),
            "best": self.best,
            "best_objective": self.best_objective,
        }
        self._checkpoint.parent.mkdir(parents=True, exist_ok=True)
        # Written beside and renamed: an interruption must not destroy the state before it.
        draft = self._checkpoint.with_suffix(".draft")
        torch.save(state, draft)
        draft.replace(self._checkpoint)

    def _resume(self) -> None:
        state: dict[str, Any] = torch.load(self._checkpoint, weights_only=True)
        # More iterations are no other run.
        mine = msgspec.json.encode(self.args._replace(iterations=0))
        saved = msgspec.json.decode(state["args"], type=Args)
        if msgspec.json.encode(saved._replace(iterations=0)) != mine:
            raise InputError(f"{self._checkpoint}: is of other settings; pass --fresh")
        self.agent.policy.load_state_dict(state["policy"])
        self.agent.value.load_state_dict(state["value"])
        for optimiser, saved_state in zip(self._optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved_state)
        self._generator.set_state(state["generator"])
        self.curve = msgspec.json.decode(state["curve"], type=list[Iteration])
        self.start = msgspec.json.decode(state["start"], type=Judgement | None)
        self._multiplier = msgspec.json.decode(state["multiplier"], type=Multiplier)
        self.agent.price = self._multiplier.price
        self._discount = msgspec.json.decode(state["discount"], type=Discount)
        self.agent.discount = self._discount.value
        self.best, self.best_objective = state["best"], state["best_objective"]


def credited(memory: Memory, values: F64, discount: float, trace: float) -> tuple[F64, F64, F64]:
    """Advantage, return and weight of each unit, [M, R x U] each; `values` are the critic's.

    An app is followed through the minutes whatever member it belongs to, and a member is worth the
    mean of its apps.
    """
    if memory.unit is None:
        found = advantages(memory.rewards, values, discount, trace)
        return *found, np.ones_like(values)
    minute = np.arange(len(values))[:, None]
    about = memory.unit != NOBODY
    of_apps = np.where(about, values[minute, memory.unit], 0.0)
    advantage, _ = advantages(memory.rewards, of_apps, discount, trace)
    length = values.shape[1]
    at = (minute * length + memory.unit)[about]
    count = np.bincount(at, minlength=values.size)
    total = np.bincount(at, advantage[about], values.size)
    gained = (total / np.maximum(count, 1)).reshape(values.shape)
    return gained, gained + values, (count > 0).astype(np.float64).reshape(values.shape)


def _mean(values: Tensor, weight: Tensor) -> Tensor:
    return (values * weight).sum() / weight.sum().clamp(min=1.0)


def judge(played: Sequence[tuple[Track, Costs]]) -> Judgement:
    """J relative to the heuristic's, each track counting alike; P0 minutes per seed and track."""
    objectives, minutes, nodes = [], [], []
    for track, costs in played:
        weights = np.array(list(track.world.cluster.priority_weights.values()))
        weight = weights[track.inventory.priority]
        ours, plain = (
            float((one.domains * weight).sum() + one.nodes.sum()) for one in (costs, track.plain)
        )
        highest = track.inventory.priority == track.inventory.priority.min()
        more = (costs.domains - track.plain.domains)[..., highest].sum()
        objectives.append(ours / plain - 1.0)
        minutes.append(float(more) / track.world.environments)
        nodes.append(float(costs.nodes.sum() / track.plain.nodes.sum()) - 1.0)
    return Judgement(*(float(np.mean(values)) for values in (objectives, minutes, nodes)))


def _by_shape(memories: list[Memory]) -> list[list[Memory]]:
    """Clusters with other numbers of domains or pools cannot share a batch."""
    found: dict[Any, list[Memory]] = {}
    for memory in memories:
        shape = tuple(values.shape[2:] for values in memory.inputs.values())
        found.setdefault(shape, []).append(memory)
    return list(found.values())


def _copy(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}
