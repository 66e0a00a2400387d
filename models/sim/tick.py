"""One tick of all environments: the order in which the mechanisms run, and nothing else."""

from typing import NamedTuple

from models.cluster.arrays import F32, I32, Records
from models.cluster.plan import Plan
from models.jit import kernel
from models.sim.accounting import Accounts, close_tick
from models.sim.actions import apply_plan
from models.sim.apps import Traits
from models.sim.call_graph import CallRows
from models.sim.churn import churn
from models.sim.config.script import Script
from models.sim.groups import free_room
from models.sim.observe import freeze_exporters
from models.sim.pods import reconcile
from models.sim.provisioner import provision
from models.sim.queueing import U32, LatencyTables
from models.sim.rules import ClusterRules
from models.sim.scheduler import Failed, schedule
from models.sim.service import serve
from models.sim.state import State
from models.sim.traffic import TrafficShape, begin_minute, lay_waves


class Given(NamedTuple):
    """The constant inputs of every tick."""

    apps: Records
    traits: Traits
    calls: CallRows
    rules: ClusterRules
    shape: TrafficShape
    script: Script
    tables: LatencyTables


class Scratch(NamedTuple):
    """Working memory within a tick; environments use it one after the other."""

    per_app: F32
    counts: I32
    cells: U32
    failed: Failed


@kernel
def advance(st: State, acc: Accounts, plan: Plan, given: Given, scratch: Scratch) -> None:
    """Advance every environment by one tick. One at a time, so that it stays in the CPU cache."""
    for e in range(st.env.size):
        _advance_one(st, acc, plan, given, scratch, e)
        st.env[e].tick += 1


@kernel
def _advance_one(
    st: State, acc: Accounts, plan: Plan, given: Given, scratch: Scratch, e: int
) -> None:
    apps, rules, script = given.apps, given.rules, given.script
    apply_plan(st, acc, plan, e, apps, rules, scratch.counts)
    # Before reconciling, so that pods lost now are queued in the same tick.
    churn(st, acc, e, apps, rules, script)
    reconcile(st, acc, e, rules, scratch.counts)
    # After all that stops pods: without a grace period their room is free at once.
    free_room(st, e, rules.physics[0].grace_ticks)
    schedule(st, acc, e, apps, rules, scratch.failed)
    # After scheduling: only pods that found no room are a reason for new nodes.
    provision(st, acc, plan, e, rules, script)
    every = rules.physics[0].ticks_per_minute
    if st.env[e].tick % every == 0:
        begin_minute(st, e, apps, given.shape, script, every)
    lay_waves(st, e, script)
    # After all changes of pods: requests meet those that are ready in this tick.
    serve(
        st, acc, e, given.traits, given.calls, rules, given.tables,
        scratch.per_app, scratch.cells,
    )  # fmt: skip
    freeze_exporters(st, e, script)
    close_tick(st, acc, e, rules)
