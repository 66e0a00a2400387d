"""The start of a policy: imitate the oracle of its lever, as far as what it sees allows.

The oracle of the Commander's lever knows when demand rises and capacity is lost, that of the
Soldiers' sizes an app for the highest demand of the next minutes. Nobody can know that, but its
mean given what a policy sees is a better start than noise. Neither earlier actions nor budgets are
among the inputs: policies that were cloned with them copied the past.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor

from models.cluster.arrays import F32, F64
from models.compare.levers import Known, foresee
from models.control.residual import Advisers
from models.policies.advisers import CommanderPolicy, SoldierPolicy
from models.policies.contract import HEADROOM_SPAN, NEED_SPAN
from models.policies.inputs import CommanderInputs
from models.policies.outputs import Answer
from models.training.agents import Agent, Commander, feed_of
from models.training.network import DOMAIN_ACTIONS, DOMAIN_PORTS
from models.training.rollouts import Track

_EPOCHS: Final = 60
_BATCHES: Final = 24
"""Steps of a pass."""
_RATE: Final = 2e-3
_HEADROOM: Final = [port.name for port in DOMAIN_PORTS].index("headroom")

Examples = tuple[dict[str, Tensor], Tensor]
"""Inputs [N, ...] and the oracle's raw actions [N, D or 1]."""


def clone(agent: Agent, tracks: Sequence[Track]) -> list[float]:
    """Fit the means of the policy; the loss of every pass."""
    commands = isinstance(agent, Commander)
    examples = [(_of_commander if commands else _of_soldier)(agent, track) for track in tracks]
    inputs = {name: torch.cat([one[name] for one, _ in examples]) for name in examples[0][0]}
    targets = torch.cat([other for _, other in examples])
    optimiser = torch.optim.Adam(agent.policy.parameters(), _RATE)
    generator = torch.Generator().manual_seed(agent.args.seed)
    up, losses = agent.args.expectile, []
    size = -(-len(targets) // _BATCHES)
    for _ in range(_EPOCHS):
        total = 0.0
        for rows in torch.randperm(len(targets), generator=generator).split(size):
            mean = agent.policy(**{name: values[rows] for name, values in inputs.items()})
            # Of a Commander's actions only the headroom of each domain is imitated.
            cut = mean[:, : DOMAIN_ACTIONS * targets.shape[1]] if commands else mean
            found = cut[:, _HEADROOM::DOMAIN_ACTIONS] if commands else cut
            missing = targets[rows] - found
            loss = (torch.where(missing > 0, up, 1.0 - up) * missing**2).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += float(loss.detach()) * len(rows)
        losses.append(total / len(targets))
    return losses


def _of_commander(agent: Agent, track: Track) -> Examples:
    seen: list[CommanderInputs] = []

    def watch(inputs: CommanderInputs) -> Answer:
        seen.append(inputs)
        return {"headroom": np.ones(inputs.domain.shape[:2], np.float32)}

    track.play(Advisers(commander=CommanderPolicy(track.inventory, watch)))
    low, high = agent.args.oracle
    known = _of_minutes(track, len(seen))
    prepared = known.rising | known.losing[..., None]
    raw = np.log(np.where(prepared, high, low)) / np.log(HEADROOM_SPAN)
    highest = track.inventory.priority == track.inventory.priority.min()
    # Below zero the guard of P0 hides what the policy would do.
    raw = np.where(highest, np.maximum(raw, 0.0), raw)
    feeds = [feed_of(inputs) for inputs in seen]
    inputs = {name: torch.cat([feed[name] for feed in feeds]) for name in feeds[0]}
    return inputs, _minutes_first(raw)


def _of_soldier(agent: Agent, track: Track) -> Examples:  # noqa: ARG001  as the Commander's
    """In the first tick of each minute."""
    per_minute = 60 // track.inventory.tick_s
    seen: list[F32] = []
    ticks = 0

    def watch(inputs: F32) -> F32:
        nonlocal ticks
        if ticks % per_minute == 0:
            seen.append(inputs)
        ticks += 1
        return np.ones(inputs.shape[:2], np.float32)

    track.play(Advisers(soldier=SoldierPolicy(track.inventory, watch)))
    ahead = _of_minutes(track, len(seen)).app
    raw = np.log(np.clip(ahead, 1.0, NEED_SPAN)) / np.log(NEED_SPAN)
    inputs = np.stack(seen).reshape(-1, seen[0].shape[2])
    return {"app": torch.from_numpy(inputs)}, _minutes_first(raw).reshape(-1, 1)


def _of_minutes(track: Track, minutes: int) -> Known:
    """What an oracle knows in each minute after the warm-up."""
    first = track.world.timeline.warmup_ticks // (60 // track.inventory.tick_s)
    return foresee(track.world).between(first, first + minutes)


def _minutes_first(raw: F64) -> Tensor:
    """[M x E, ...] of [E, M, ...], as the inputs are."""
    return torch.from_numpy(raw.swapaxes(0, 1).reshape(-1, raw.shape[2]).astype(np.float32))
