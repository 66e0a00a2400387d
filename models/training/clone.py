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

from models.cluster.arrays import F64
from models.compare.levers import Known, foresee
from models.control.residual import Advisers
from models.policies.advisers import CommanderPolicy
from models.policies.contract import HEADROOM_SPAN, MEMBERS, NEED_SPAN, STEPS
from models.policies.inputs import CommanderInputs
from models.policies.outputs import Answer
from models.training.agents import (
    NOBODY,
    Agent,
    Commander,
    Soldier,
    SoldierActor,
    feed_of,
    flat_inputs,
)
from models.training.network import DOMAIN_ACTIONS, DOMAIN_PORTS
from models.training.rollouts import Track

_EPOCHS: Final = 60
_BATCHES: Final = 24
"""Steps of a pass."""
_RATE: Final = 2e-3
_HEADROOM: Final = [port.name for port in DOMAIN_PORTS].index("headroom")

Examples = tuple[dict[str, Tensor], Tensor]
"""Inputs [N, ...] and what the oracle did: headroom [N, D], or steps [N, MEMBERS, 2] with 1 where
apps belong to the member."""


def clone(agent: Agent, tracks: Sequence[Track]) -> list[float]:
    """Fit the policy; the loss of every pass."""
    loss_of = _commander_loss if isinstance(agent, Commander) else _soldier_loss
    examples = [_examples(agent, track) for track in tracks]
    optimiser = torch.optim.Adam(agent.policy.parameters(), _RATE)
    generator = torch.Generator().manual_seed(agent.args.seed)
    total, losses = sum(len(targets) for _, targets in examples), []
    size = -(-total // _BATCHES)
    for _ in range(_EPOCHS):
        summed = 0.0
        for track, rows in _batches([len(targets) for _, targets in examples], size, generator):
            inputs, targets = examples[track]
            part = {name: values[rows] for name, values in inputs.items()}
            loss = loss_of(agent, part, targets[rows])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            summed += float(loss.detach()) * len(rows)
        losses.append(summed / total)
    return losses


def _batches(lengths: list[int], size: int, generator: torch.Generator) -> list[tuple[int, Tensor]]:
    """Rows of one track each, because clusters of other shapes cannot share a batch."""
    found = [
        (track, rows)
        for track, length in enumerate(lengths)
        for rows in torch.randperm(length, generator=generator).split(size)
    ]
    order: list[int] = torch.randperm(len(found), generator=generator).tolist()
    return [found[at] for at in order]


def _examples(agent: Agent, track: Track) -> Examples:
    match agent:
        case Commander():
            return _of_commander(agent, track)
        case Soldier():
            return _of_soldier(agent, track)
    raise AssertionError(agent)


def _commander_loss(agent: Agent, inputs: dict[str, Tensor], targets: Tensor) -> Tensor:
    """Expectile loss of the headroom of each domain; the other actions are not imitated."""
    mean = agent.policy(**inputs)[:, : DOMAIN_ACTIONS * targets.shape[1]]
    missing = targets - mean[:, _HEADROOM::DOMAIN_ACTIONS]
    up = agent.args.expectile
    return (torch.where(missing > 0, up, 1.0 - up) * missing**2).mean()


def _soldier_loss(agent: Agent, inputs: dict[str, Tensor], targets: Tensor) -> Tensor:
    """How unlikely the oracle's steps are, with pods as large as their owners have them."""
    steps, about = targets[..., 0], targets[..., 1]
    raw = torch.stack((steps, torch.zeros_like(steps)), dim=2)
    log_prob, _ = agent.log_probability(inputs, raw)
    return -(log_prob * about).sum() / about.sum().clamp(min=1.0)


def _of_commander(agent: Commander, track: Track) -> Examples:
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


def _of_soldier(agent: Soldier, track: Track) -> Examples:
    """In the first tick of each minute, the feasible step closest to the oracle's factor."""
    actor = SoldierActor(agent.policy, track, None)
    track.play(Advisers(soldier=actor))
    ahead = _of_minutes(track, len(actor.seen)).app.swapaxes(0, 1)
    inputs, steps = [], []
    for seen, unit, factor in zip(actor.seen, actor.units, ahead, strict=True):
        flat = flat_inputs(seen)
        rows = len(flat["domain"])
        about, length = unit != NOBODY, rows * MEMBERS
        count = np.bincount(unit[about], minlength=length)
        wanted = np.clip(np.log(factor.reshape(-1)), 0.0, np.log(NEED_SPAN))
        mean = np.bincount(unit[about], wanted[about], length) / np.maximum(count, 1)
        apart = np.abs(mean[:, None] - np.log(np.array(STEPS)))
        apart[seen.feasible.reshape(length, -1) < 1.0] = np.inf
        both = np.stack((apart.argmin(axis=1), count > 0), axis=1).astype(np.float32)
        inputs.append(flat)
        steps.append(torch.from_numpy(both.reshape(rows, MEMBERS, 2)))
    joined = {name: torch.cat([one[name] for one in inputs]) for name in inputs[0]}
    return joined, torch.cat(steps)


def _of_minutes(track: Track, minutes: int) -> Known:
    """What an oracle knows in each minute after the warm-up."""
    first = track.world.timeline.warmup_ticks // (60 // track.inventory.tick_s)
    return foresee(track.world).between(first, first + minutes)


def _minutes_first(raw: F64) -> Tensor:
    """[M x E, ...] of [E, M, ...], as the inputs are."""
    return torch.from_numpy(raw.swapaxes(0, 1).reshape(-1, raw.shape[2]).astype(np.float32))
