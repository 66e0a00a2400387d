"""What the pods of a real control plane serve of a simulated scenario: traffic, queues, samples.

It is the simulator's world without its pods, scheduler, nodes and churn: each tick takes the counts
of the real ones, and everything from there to the SLO is the same code.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from models.cluster import rows
from models.cluster.arrays import I32
from models.cluster.description import PRIORITIES, Machine
from models.cluster.observation import Observation, Pipeline
from models.inputs.errors import InputError
from models.sim.accounting import close_tick, reset_accounts
from models.sim.config.physics import SimCluster, load_scaled
from models.sim.config.scenario import Scenario
from models.sim.observe import freeze_exporters
from models.sim.queueing import build_tables
from models.sim.service import serve
from models.sim.state import BOUND, COLD, NONE, ROOM_CPU, ROOM_MEMORY
from models.sim.traffic import begin_minute, lay_waves
from models.sim.world import World

PLAYED: Final = frozenset({"Traffic", "Deploy"})
"""Kinds of events that are played. A deploy is a real rollout; the others happen to pods and nodes,
which are real here."""
_CORES: Final = 8
"""Of the lab's nodes: with the 64 of the example cluster a small world would fit on one."""
_AT_ONCE: Final = 100.0
"""Per second: more than this world has."""


class Pods(NamedTuple):
    """Pods by app, [A] each, but for `placed`."""

    replicas: I32
    """As the Deployments ask for."""
    ready: I32
    pending: I32
    """Without a node."""
    placed: I32
    """[P, A] on the nodes of each pool, ready or not."""


class PoolNodes(NamedTuple):
    """Nodes of one pool."""

    ready: int
    booting: int
    free_cpu: int
    """Millicores of the ready nodes that no pod requests; likewise MiB."""
    free_memory: int


def lab_cluster(apps: int, pods: int) -> SimCluster:
    """The example cluster in small: fewer apps and pods, smaller nodes, and nothing that dies."""
    cluster = load_scaled(None, apps)
    physics = cluster.physics
    churn = replace(
        physics.churn,
        deploys_per_app_per_day=0.0,
        crashes_per_pod_per_day=0.0,
        node_evictions_per_day=0.0,
        spot_reclaims_per_day=0.0,
    )
    # The rates of the example's cloud are for nodes of 64 cores; here nothing but boots takes time.
    provisioner = replace(
        physics.provisioner, requests_per_second=_AT_ONCE, launches_per_second=_AT_ONCE
    )
    population = replace(physics.population, pods_at_peak=pods)
    machines = tuple(_small(machine) for machine in cluster.machines)
    changed = replace(physics, churn=churn, population=population, provisioner=provisioner)
    return replace(cluster, machines=machines, physics=changed)


def _small(machine: Machine) -> Machine:
    share = _CORES / machine.cpu_cores
    return replace(
        machine,
        cpu_cores=_CORES,
        memory_gib=machine.memory_gib * share,
        reserved_cpu_cores=machine.reserved_cpu_cores * share,
        reserved_memory_gib=machine.reserved_memory_gib * share,
        max_pods=110,
        price_per_hour=machine.price_per_hour * share,
    )


class Load:
    """The traffic of one scenario and seed, and what becomes of it."""

    def __init__(self, cluster: SimCluster, scenario: Scenario, seed: int) -> None:
        others = {type(event).__name__ for event in scenario.events} - PLAYED
        if others:
            raise InputError(
                f"scenario {scenario.name}: {', '.join(sorted(others))} cannot be played on a real "
                f"control plane, only {', '.join(sorted(PLAYED))}"
            )
        self.world = World(cluster, scenario, [seed])
        self._tables = build_tables()
        self._scratch = self.world._scratch  # noqa: SLF001  the same buffers for the same kernels
        self._ready_before = self.world.state.status[0, rows.READY].copy()

    @property
    def finished(self) -> bool:
        """Whether the scenario has ended."""
        return self.world.tick >= self.world.timeline.total_ticks

    def deploys(self) -> list[int]:
        """Apps whose rollout begins at this tick."""
        due = self.world.given.script.deploy_tick[0]
        return [int(app) for app in np.flatnonzero(due == self.world.tick)]

    def step(self, pods: Pods, nodes: Mapping[str, PoolNodes]) -> None:
        """Serve one tick with these pods, and bill these nodes by pool."""
        world, st = self.world, self.world.state
        given, physics = world.given, world.given.rules.physics[0]
        if world.tick == world.timeline.warmup_ticks:
            reset_accounts(world.accounts)
        self._place(pods, nodes)
        if world.tick % physics["ticks_per_minute"] == 0:
            begin_minute(st, 0, given.apps, given.shape, given.script, physics["ticks_per_minute"])
        lay_waves(st, 0, given.script)
        serve(
            st, world.accounts, 0, given.traits, given.calls, given.rules, self._tables,
            self._scratch.per_app, self._scratch.cells,
        )  # fmt: skip
        freeze_exporters(st, 0, given.script)
        close_tick(st, world.accounts, 0, given.rules)
        st.env["tick"] += 1

    def observe(self, pipeline: Pipeline) -> Observation:
        """What a pipeline of metrics delivers now; valid until the next call."""
        return self.world.observe(pipeline)

    def violation_minutes(self) -> dict[str, float]:
        """Traffic-weighted minutes of violation by priority, since the warm-up."""
        found: dict[str, float] = dict.fromkeys(PRIORITIES, 0.0)
        minutes = self.world.accounts.domain_minutes[0].tolist()
        for domain, value in zip(self.world.cluster.domains, minutes, strict=True):
            found[domain.priority] += value
        return found

    def _place(self, pods: Pods, nodes: Mapping[str, PoolNodes]) -> None:
        st, rules = self.world.state, self.world.given.rules
        physics = rules.physics[0]
        st.status[0, rows.REPLICAS] = pods.replicas
        st.status[0, rows.PENDING] = pods.pending
        st.placed[0] = pods.placed
        st.hidden[0, BOUND] = pods.placed.sum(axis=0)
        st.status[0, rows.STARTING] = st.hidden[0, BOUND] - pods.ready
        fresh = np.maximum(0, pods.ready - self._ready_before)
        cold = st.flow[0, COLD] * physics["cold_left"] + fresh * physics["cold_share"]
        st.flow[0, COLD] = cold.astype(np.float32)
        self._ready_before = pods.ready.copy()
        st.pool_market[0], st.room[0] = 0, NONE
        st.pool["first_app"][0], st.pool["end_app"][0] = 0, pods.ready.size
        for index, name in enumerate(self.world.cluster.pool_names):
            found = nodes[name]
            st.pool["ready"][0, index] = found.ready
            st.pool["booting"][0, index] = found.booting
            # Node-hours are compared, not the prices of markets.
            st.pool_market[0, index, 0] = found.ready + found.booting
            # Observed is the sum over the pool's nodes: one slot may have all of it.
            first = rules.pools[index]["first"]
            st.room[0, ROOM_CPU, first] = found.free_cpu
            st.room[0, ROOM_MEMORY, first] = found.free_memory
