"""Runs repeat bit for bit, saved worlds continue, and controllers can't see hidden state."""

import subprocess
import sys

import numpy as np

from models.cluster.observation import Observation
from models.cluster.plan import Plan
from models.compare.hpa_worlds import HpaWorld, copy_memory, digest, digest_of_run
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import load_scenario
from models.sim.population.generate import generate
from models.sim.state import SAMPLE_RING
from models.sim.world import World
from models.validate.section import Check, Effort, Section

_TICKS = 180
"""Into the spike and the deploys."""
_APPS = 155
_HIDDEN = ("hidden", "flow", "group", "queue", "ready_ring", "restart_ring", "crash_loop")
"""Parts of the state that no API exposes."""


def examine(effort: Effort) -> Section:
    """Repeat the cascade under HPA in different ways and compare the fingerprints."""
    one, other = _among_others(effort.together)
    checks = [
        _same("the same seed twice", digest_of_run(_APPS, [5], _TICKS),
              digest_of_run(_APPS, [5], _TICKS)),
        _same("in another process", digest_of_run(_APPS, [5], _TICKS), _in_another_process()),
        _same(f"environment 7 of {effort.together} and the same seed alone, 1,550 apps",
              one, other),
        _same("saved, forked, restored", *_forked()),
        _blind(),
    ]  # fmt: skip
    return Section(
        "Repeatable, forkable, blind",
        "Fingerprints of all state and accounts after 30 minutes of the cascade under HPA.",
        checks,
        [],
    )


def _same(name: str, first: str, second: str) -> Check:
    figure = first if first == second else f"{first} and {second}"
    return Check(name, figure, "bit for bit", first == second)


def _in_another_process() -> str:
    # Another process has other addresses and another hash seed.
    program = (
        "from models.compare.hpa_worlds import digest_of_run;"
        f"print(digest_of_run({_APPS}, [5], {_TICKS}))"
    )
    # The interpreter and the program are our own.
    result = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


def _among_others(together: int) -> tuple[str, str]:
    cluster = load_sim_cluster()
    scenario, population = load_scenario("cascade", cluster), generate(cluster)
    seeds = list(range(together))
    many = HpaWorld(World(cluster, scenario, seeds, population))
    alone = HpaWorld(World(cluster, scenario, [7], population))
    many.run(_TICKS)
    alone.run(_TICKS)
    return digest(many.world, 7), digest(alone.world, 0)


def _forked() -> tuple[str, str]:
    cluster = load_sim_cluster()
    run = HpaWorld(World(cluster, load_scenario("cascade", cluster), [1]))
    run.run(_TICKS)
    world, saved, memory = run.world, run.world.save(), copy_memory(run.memory)
    run.run(60)
    first = digest(world)
    world.restore(saved)
    # Hold instead of HPA: only a fork that differs shows that restoring goes back.
    for _ in range(60):
        world.step(world.hold())
    diverged = digest(world) != first
    world.restore(saved)
    run.memory = memory
    run.run(60)
    return first, digest(world) if diverged else "the fork did not diverge"


def _blind() -> Check:
    changes = decision_changes(_APPS, _TICKS, 10)
    figure = changes[0] if changes else f"none in {_TICKS // 10} trials"
    return Check(
        "decisions that change when only hidden state changes", figure, "none", not changes
    )


def decision_changes(apps: int, ticks: int, every: int) -> list[str]:
    """Changes of the observation or of HPA's plan when only hidden state changes."""
    cluster = with_apps(load_sim_cluster(), apps)
    run = HpaWorld(World(cluster, load_scenario("cascade", cluster), [1, 2]))
    rng = np.random.default_rng(0)
    changes: list[str] = []
    for tick in range(0, ticks, every):
        run.run(every)
        snapshot = run.world.save()
        observed, plan = _decide(run)
        _scramble(run.world, rng)
        observed_then, plan_then = _decide(run)
        run.world.restore(snapshot)
        changes += [
            f"tick {tick}: observed {name}" for name in _differences(observed, observed_then)
        ]
        changes += [f"tick {tick}: decided {name}" for name in _differences(plan, plan_then)]
    return changes


def _decide(run: HpaWorld) -> tuple[Observation, Plan]:
    """Copies of the observation and the plan; the controller's memory does not change."""
    observed = run.world.observe(run.hpa.pipeline)
    # With a copy of the memory, because the same tick is decided twice.
    plan, _ = run.hpa.step(observed, None, copy_memory(run.memory))
    return Observation._make(part.copy() for part in observed), Plan._make(
        part.copy() for part in plan
    )


def _scramble(world: World, rng: np.random.Generator) -> None:
    """Overwrite hidden state, and the sample that is too new to have arrived, with noise."""
    for name in _HIDDEN:
        array = getattr(world.state, name)
        array.view(np.uint8)[...] = rng.integers(0, 256, array.view(np.uint8).shape, np.uint8)
    # Our pipeline and HPA's are at least one tick late, so no decision may depend on it.
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
