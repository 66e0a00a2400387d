"""Whether a controller can see truth: hidden state is spoiled, what it decides must not change."""

import numpy as np

from models.cluster.observation import Observation
from models.cluster.plan import Plan
from models.compare.drive import Driven, copy_memory
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import load_scenario
from models.sim.state import SAMPLE_RING
from models.sim.world import World

_HIDDEN = ("hidden", "flow", "group", "queue", "ready_ring", "restart_ring", "crash_loop")
"""Parts of the state that no API answers."""


def decision_changes(apps: int, ticks: int, every: int) -> list[str]:
    """What changed in the observation or in HPA's plan when only the truth was changed."""
    cluster = with_apps(load_sim_cluster(), apps)
    run = Driven(World(cluster, load_scenario("cascade", cluster), [1, 2]))
    rng = np.random.default_rng(0)
    changes: list[str] = []
    for tick in range(0, ticks, every):
        run.run(every)
        snapshot = run.world.save()
        seen, plan = _decide(run)
        _spoil(run.world, rng)
        seen_then, plan_then = _decide(run)
        run.world.restore(snapshot)
        changes += [f"tick {tick}: observed {name}" for name in _differences(seen, seen_then)]
        changes += [f"tick {tick}: decided {name}" for name in _differences(plan, plan_then)]
    return changes


def _decide(run: Driven) -> tuple[Observation, Plan]:
    """Copies of what is seen and decided now; the controller's memory stays as it was."""
    seen = run.world.observe(run.hpa.pipeline)
    plan, _ = run.hpa.step(seen, None, copy_memory(run.memory))
    return Observation._make(part.copy() for part in seen), Plan._make(part.copy() for part in plan)


def _spoil(world: World, rng: np.random.Generator) -> None:
    """Turn all hidden state into noise, and the sample that is too new to have arrived."""
    for name in _HIDDEN:
        array = getattr(world.state, name)
        array.view(np.uint8)[...] = rng.integers(0, 256, array.view(np.uint8).shape, np.uint8)
    newest = world.state.samples[:, (world.tick - 1) % SAMPLE_RING]
    newest[...] = rng.normal(1000, 1000, newest.shape)
    for array in world.accounts:
        array.view(np.uint8)[...] = 0


def _differences(first: Observation | Plan, second: Observation | Plan) -> list[str]:
    return [
        name
        for name in first._fields
        if not np.array_equal(getattr(first, name), getattr(second, name))
    ]
