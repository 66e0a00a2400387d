"""Cost of each stage of a tick: its kernels, timed one after the other.

Caches are colder stage by stage than in the fused tick, so the sum exceeds the cost of a tick;
compare the shares.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from models.cluster.plan import Plan
from models.compare.hpa_worlds import HpaWorld
from models.jit import kernel
from models.sim.accounting import Accounts, close_tick
from models.sim.actions import apply_plan
from models.sim.churn import churn
from models.sim.groups import free_room
from models.sim.observe import freeze_exporters
from models.sim.pods import reconcile
from models.sim.provisioner import provision
from models.sim.scheduler import schedule
from models.sim.service import serve
from models.sim.state import State
from models.sim.tick import Given, Scratch
from models.sim.traffic import begin_minute, lay_waves
from models.sim.world import World

Stage = Callable[[State, Accounts, Plan, Given, Scratch], None]


@kernel
def _apply(st: State, acc: Accounts, plan: Plan, given: Given, scratch: Scratch) -> None:
    for e in range(st.env.size):
        apply_plan(st, acc, plan, e, given.apps, given.rules, scratch.counts)


@kernel
def _churn(st: State, acc: Accounts, _plan: Plan, given: Given, _scratch: Scratch) -> None:
    for e in range(st.env.size):
        churn(st, acc, e, given.apps, given.rules, given.script)


@kernel
def _reconcile(st: State, acc: Accounts, _plan: Plan, given: Given, scratch: Scratch) -> None:
    for e in range(st.env.size):
        reconcile(st, acc, e, given.rules, scratch.counts)
        free_room(st, e, given.rules.physics[0].grace_ticks)


@kernel
def _schedule(st: State, acc: Accounts, _plan: Plan, given: Given, scratch: Scratch) -> None:
    for e in range(st.env.size):
        schedule(st, acc, e, given.apps, given.rules, scratch.failed)


@kernel
def _provision(st: State, acc: Accounts, plan: Plan, given: Given, _scratch: Scratch) -> None:
    for e in range(st.env.size):
        provision(st, acc, plan, e, given.rules, given.script)


@kernel
def _traffic(st: State, _acc: Accounts, _plan: Plan, given: Given, _scratch: Scratch) -> None:
    every = given.rules.physics[0].ticks_per_minute
    for e in range(st.env.size):
        if st.env[e].tick % every == 0:
            begin_minute(st, e, given.apps, given.shape, given.script, every)


@kernel
def _waves(st: State, _acc: Accounts, _plan: Plan, given: Given, _scratch: Scratch) -> None:
    for e in range(st.env.size):
        lay_waves(st, e, given.script)


@kernel
def _serve(st: State, acc: Accounts, _plan: Plan, given: Given, scratch: Scratch) -> None:
    for e in range(st.env.size):
        serve(
            st, acc, e, given.traits, given.calls, given.rules, given.tables,
            scratch.per_app, scratch.cells,
        )  # fmt: skip
        freeze_exporters(st, e, given.script)


@kernel
def _account(st: State, acc: Accounts, _plan: Plan, given: Given, _scratch: Scratch) -> None:
    for e in range(st.env.size):
        close_tick(st, acc, e, given.rules)


# In the order in which `tick.advance` runs them.
_STAGES: dict[str, tuple[str, Stage]] = {
    "apply": ("plans are applied, resizes take effect", _apply),
    "churn": ("deploys, crashes, OOM kills, drains, reclaims, zones", _churn),
    "reconcile": ("readiness, deploys, pods to start or stop", _reconcile),
    "schedule": ("pending pods find nodes", _schedule),
    "provision": ("nodes are requested, boot, are drained", _provision),
    "traffic": ("season, noise and bursts, each minute", _traffic),
    "waves": ("the scenario's events on traffic and payload", _waves),
    "serve": ("calls, queues, latency, failures, retries", _serve),
    "account": ("bills, waits, violations", _account),
}
_AROUND = {"observe": "what a controller observes", "controller": "HPA decides"}


def stage_seconds(run: HpaWorld, ticks: int) -> dict[str, float]:
    """Seconds of each stage over `ticks` ticks; compiles the stages first."""
    # A tick that does not count, because it compiles the stages.
    _staged_tick(run, dict.fromkeys((*_AROUND, *_STAGES), 0.0))
    spent = dict.fromkeys((*_AROUND, *_STAGES), 0.0)
    for _ in range(ticks):
        _staged_tick(run, spent)
    return spent


def describe(stage: str) -> str:
    """A stage in a few words."""
    return _AROUND[stage] if stage in _AROUND else _STAGES[stage][0]


def _staged_tick(run: HpaWorld, spent: dict[str, float]) -> None:
    """One tick as in `tick.advance`, with the time taken between the stages."""
    world = run.world
    observation = _timed(spent, "observe", lambda: world.observe(run.hpa.pipeline))
    plan, run.memory = _timed(
        spent, "controller", lambda: run.hpa.step(observation, None, run.memory)
    )
    parts = (world.state, world.accounts, plan, world.given, _scratch_of(world))
    for name, (_, stage) in _STAGES.items():
        _timed(spent, name, partial(stage, *parts))
    world.state.env["tick"] += 1


def _scratch_of(world: World) -> Scratch:
    return world._scratch  # noqa: SLF001  (scratch memory without meaning)


def _timed(spent: dict[str, float], name: str, work: Callable[[], Any]) -> Any:
    began = time.perf_counter()
    result = work()
    spent[name] += time.perf_counter() - began
    return result
