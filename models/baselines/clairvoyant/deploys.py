"""When rolling deploys will be under way: drawn by the world, known to the clairvoyant."""

import math
from typing import Final

import numpy as np

from models.cluster.arrays import I8, I32
from models.jit import kernel
from models.sim.churn import turn_of
from models.sim.draws import Purpose, as_uniform, draw, stream
from models.sim.world import World

_DEPLOY = int(Purpose.DEPLOY)
_BATCHES: Final = 3
_SLOWEST: Final = 2.0
"""Deviations by which the slowest pod of a batch is late."""


def deploying(world: World, steps: int, step_ticks: int) -> I8:
    """[E, S, A] 1 in the steps in which a deploy keeps some of an app's pods away."""
    physics, apps = world.given.rules.physics[0], world.population.apps
    late = math.exp(_SLOWEST * float(physics["start_sigma"]))
    seconds = (physics["pod_boot_s"] * apps.boot + physics["image_pull_s"] * apps.image_pull) * late
    batch = 1 + (seconds + physics["readiness_s"]) / physics["tick_s"]
    lasts = np.ceil(_BATCHES * batch).astype(np.int32)
    found = np.zeros((world.environments, steps, lasts.size), np.int8)
    chance, per_minute = float(physics["deploy_chance"]), int(physics["ticks_per_minute"])
    for e, seed in enumerate(world.state.env["seed"]):
        planned = world.given.script.deploy_tick[e]
        _mark(int(seed), planned, chance, per_minute, step_ticks, lasts, found[e])
    return found


@kernel
def _mark(
    seed: int,
    planned: I32,
    chance: float,
    per_minute: int,
    step_ticks: int,
    lasts: I32,
    found: I8,
) -> None:
    draws = stream(seed, _DEPLOY)
    steps = found.shape[0]
    for tick in range(steps * step_ticks):
        first, end = turn_of(tick, per_minute, planned.size)
        for app in range(first, end):
            due = planned[app]
            forced = due >= 0 and tick - per_minute < due <= tick
            if forced or as_uniform(draw(draws, app, 0, tick)) < chance:
                last = min(steps - 1, (tick + lasts[app]) // step_ticks)
                for step in range(tick // step_ticks, last + 1):
                    found[step, app] = 1
