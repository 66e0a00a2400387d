"""The start of a Commander's policy: imitate the oracle of its lever, as far as it can.

The oracle knows when demand rises and capacity is lost. Nobody can know that, but its mean given
what a policy sees is a better start than noise. Neither earlier actions nor budgets are among the
inputs: policies that were cloned with them copied the past. Soldiers start as the heuristic:
docs/decisions/0039-soldiers-decide-about-members.md.
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
from models.policies.contract import HEADROOM_SPAN
from models.policies.inputs import CommanderInputs
from models.policies.outputs import Answer
from models.training.agents import Commander, feed_of
from models.training.network import DOMAIN_ACTIONS, DOMAIN_PORTS
from models.training.rollouts import Track

_EPOCHS: Final = 60
_BATCHES: Final = 24
"""Steps of a pass."""
_RATE: Final = 2e-3
_HEADROOM: Final = [port.name for port in DOMAIN_PORTS].index("headroom")

Examples = tuple[dict[str, Tensor], Tensor]
"""Inputs [N, ...] and the oracle's headroom [N, D], as raw actions."""


def clone(agent: Commander, tracks: Sequence[Track]) -> list[float]:
    """Fit the policy; the loss of every pass."""
    examples = [_of_commander(agent, track) for track in tracks]
    optimiser = torch.optim.Adam(agent.policy.parameters(), _RATE)
    generator = torch.Generator().manual_seed(agent.args.seed)
    total, losses = sum(len(targets) for _, targets in examples), []
    size = -(-total // _BATCHES)
    for _ in range(_EPOCHS):
        summed = 0.0
        for track, rows in _batches([len(targets) for _, targets in examples], size, generator):
            inputs, targets = examples[track]
            part = {name: values[rows] for name, values in inputs.items()}
            loss = _loss(agent, part, targets[rows])
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


def _loss(agent: Commander, inputs: dict[str, Tensor], targets: Tensor) -> Tensor:
    """Expectile loss of the headroom of each domain; the other actions are not imitated."""
    mean = agent.policy(**inputs)[:, : DOMAIN_ACTIONS * targets.shape[1]]
    missing = targets - mean[:, _HEADROOM::DOMAIN_ACTIONS]
    up = agent.args.expectile
    return (torch.where(missing > 0, up, 1.0 - up) * missing**2).mean()


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


def _of_minutes(track: Track, minutes: int) -> Known:
    """What an oracle knows in each minute after the warm-up."""
    first = track.world.timeline.warmup_ticks // (60 // track.inventory.tick_s)
    return foresee(track.world).between(first, first + minutes)


def _minutes_first(raw: F64) -> Tensor:
    """[M x E, ...] of [E, M, ...], as the inputs are."""
    return torch.from_numpy(raw.swapaxes(0, 1).reshape(-1, raw.shape[2]).astype(np.float32))
