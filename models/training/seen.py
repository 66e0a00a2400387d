"""What a trained policy sees, for the artefact: services compare their own features with it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from models.cluster.arrays import F32
from models.control.residual import Advisers
from models.forecaster.port import ticks_per_minute
from models.policies.advisers import CommanderPolicy, SoldierPolicy
from models.policies.artefact import COMMANDER, CommanderSession, SoldierSession
from models.policies.features import commander_features, soldier_features
from models.policies.inputs import CommanderInputs
from models.policies.outputs import Answer
from models.policies.soldier_inputs import SoldierInputs
from models.registry.drift import Distribution, Values, summarised
from models.training.rollouts import Track


def distributions(kind: str, network: Path, tracks: Sequence[Track]) -> dict[str, Distribution]:
    """The distribution of every feature while the exported policy plays the tracks."""
    play = _of_commander if kind == COMMANDER else _of_soldier
    return summarised([run for track in tracks for run in play(network, track)])


def _of_commander(network: Path, track: Track) -> list[Values]:
    """A run for each seed."""
    session, seen = CommanderSession(network), list[Mapping[str, F32]]()

    def watch(inputs: CommanderInputs) -> Answer:
        seen.append(commander_features(inputs))
        return session(inputs)

    track.play(Advisers(commander=CommanderPolicy(track.inventory, watch)))
    return [
        {name: np.stack([one[name][e] for one in seen]) for name in seen[0]}
        for e in range(len(next(iter(seen[0].values()))))
    ]


def _of_soldier(network: Path, track: Track) -> list[Values]:
    """A run for each seed and domain, because a Soldier sees its own domain only."""
    session, seen = SoldierSession(network), list[SoldierInputs]()
    per_minute, ticks = ticks_per_minute(track.inventory.tick_s), 0

    def watch(inputs: SoldierInputs) -> Answer:
        nonlocal ticks
        if ticks % per_minute == 0:
            seen.append(inputs)
        ticks += 1
        return session(inputs)

    track.play(Advisers(soldier=SoldierPolicy(track.inventory, watch)))
    every = SoldierInputs(*(np.stack(values) for values in zip(*seen, strict=True)))
    return [
        soldier_features(SoldierInputs(*(values[:, e] for values in every)), d)
        for e in range(every.domain.shape[1])
        for d in np.unique(track.inventory.domain)
    ]
