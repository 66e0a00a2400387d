"""A Soldier's start: imitate the oracle of its lever, as far as what it sees allows.

The oracle sizes an app for the highest demand of the next minutes. Nobody can know that, but its
mean given what a Soldier sees is a better start than noise. Neither earlier actions nor budgets are
among the inputs: policies that were cloned with them copied the past.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor

from models.cluster.arrays import F32
from models.compare.levers import foresee
from models.control.residual import Advisers
from models.policies.advisers import SoldierPolicy
from models.policies.contract import NEED_SPAN
from models.training.agents import Soldier
from models.training.rollouts import Track

_EPOCHS: Final = 6
_BATCH: Final = 4096
_RATE: Final = 2e-3


def clone(agent: Soldier, tracks: Sequence[Track]) -> list[float]:
    """Fit the means of the policy; the loss of every pass."""
    examples = [_examples(track) for track in tracks]
    inputs = torch.cat([one for one, _ in examples])
    targets = torch.cat([other for _, other in examples])
    optimiser = torch.optim.Adam(agent.policy.parameters(), _RATE)
    generator = torch.Generator().manual_seed(agent.args.seed)
    losses = []
    for _ in range(_EPOCHS):
        total = 0.0
        for rows in torch.randperm(len(inputs), generator=generator).split(_BATCH):
            loss = ((agent.policy(inputs[rows]) - targets[rows]) ** 2).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            total += float(loss.detach()) * len(rows)
        losses.append(total / len(inputs))
    return losses


def _examples(track: Track) -> tuple[Tensor, Tensor]:
    """What Soldiers see in the first tick of each minute, and the oracle's raw action."""
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
    first = track.world.timeline.warmup_ticks // per_minute
    known = foresee(track.world).app[:, first : first + len(seen)]
    raw = np.log(np.clip(known, 1.0, NEED_SPAN)) / np.log(NEED_SPAN)
    # Apps are the last axis of both, minutes the first.
    inputs = np.stack(seen).reshape(-1, seen[0].shape[2])
    target = raw.transpose(1, 0, 2).reshape(-1, 1).astype(np.float32)
    return torch.from_numpy(inputs), torch.from_numpy(target)
