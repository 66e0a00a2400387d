"""The state at tick 0: a cluster that has been running and is sized for its traffic."""

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, I32, MIB_PER_GIB, MILLI
from models.jit import kernel
from models.sim.apps import Apps, Population, app_records
from models.sim.config.physics import SimCluster
from models.sim.config.script import APPEAR, Script
from models.sim.draws import Purpose, uniform
from models.sim.groups import add_group
from models.sim.nodes import launch, make_ready
from models.sim.pods import enqueue
from models.sim.rules import ClusterRules, spill_share
from models.sim.scheduler import START_STRIDE, pods_per_node
from models.sim.state import BOUND, LEAKED, NONE, ROOM_CPU, ROOM_MEMORY, ROOM_PODS, State
from models.sim.traffic import TrafficShape, seasonal_rates


def start_replicas(population: Population, shape: TrafficShape, script: Script) -> I32:
    """Replicas for the traffic at tick 0 without noise; the same for every seed."""
    apps, calls = population.apps, population.calls
    rates = np.zeros(apps.domain.size)
    seasonal_rates(app_records(apps), shape, script, 0, rates)
    # Edges into an app precede its own, so one pass carries the whole demand.
    edges = zip(calls.caller, calls.callee, calls.per_request, strict=True)
    for caller, callee, per_request in edges:
        rates[callee] += rates[caller] * per_request
    wanted = np.ceil(apps.start_replicas * rates / np.maximum(apps.mean_rps, 1e-9))
    return np.clip(wanted, apps.min_replicas, apps.max_replicas).astype(np.int32)


def fill(
    st: State, cluster: SimCluster, apps: Apps, rules: ClusterRules, script: Script, replicas: I32
) -> None:
    """Start the pools' nodes and bind every pod; all are ready at tick 0."""
    # At least 1, because the scheduler divides by requests.
    st.status[:, rows.CPU_REQUEST] = np.maximum(1, np.round(apps.cpu_request * MILLI))
    st.status[:, rows.MEMORY_REQUEST] = np.maximum(1, np.round(apps.memory_request * MIB_PER_GIB))
    st.status[:, rows.REPLICAS] = replicas
    spill = np.array([spill_share(cluster, domain) for domain in cluster.domains], np.float32)
    # Bind large pods first, while nodes are empty.
    order = np.argsort(-apps.cpu_request, kind="stable").astype(np.int32)
    for e in range(st.env.size):
        _start_nodes(st, e, rules, script)
        _bind_all(st, e, rules, spill, order)
    st.status[:, rows.READY] = st.hidden[:, BOUND]
    ages = [_container_ages(apps, int(seed), cluster) for seed in st.env["seed"]]
    st.flow[:, LEAKED] = apps.memory_leak * np.array(ages, np.float32)


def _container_ages(apps: Apps, seed: int, cluster: SimCluster) -> F32:
    """[A] hours since the last deploy, or since memory growth last killed the containers."""
    room = apps.memory_request * apps.memory_limit_ratio - apps.memory_base
    until_full = np.where(apps.memory_leak > 0, room / np.maximum(apps.memory_leak, 1e-9), np.inf)
    between_deploys = 24 / max(cluster.physics.churn.deploys_per_app_per_day, 1e-3)
    # A random point between two restarts, as in a cluster that has been running.
    share = [uniform(seed, Purpose.CONTAINER_AGE, app, 0, 0) for app in range(room.size)]
    return (np.minimum(until_full, between_deploys) * share).astype(np.float32)


def hide_late_apps(st: State, script: Script) -> None:
    """Deactivate the apps that appear later in the scenario."""
    late = script.inventory["app"][script.inventory["kind"] == APPEAR]
    st.status[:, rows.ACTIVE, late] = 0


@kernel
def _start_nodes(st: State, e: int, rules: ClusterRules, script: Script) -> None:
    for pool in range(rules.pools.size):
        first = rules.pools[pool].first
        for node in range(first, first + rules.pools[pool].start_nodes):
            launch(st, e, node, rules, script)
            make_ready(st, e, node, rules)


@kernel
def _bind_all(st: State, e: int, rules: ClusterRules, spill: F32, order: I32) -> None:
    """Bind the spill share in the shared pools, then the rest, preferred pool first.

    `order` has large pods first: they fit only while nodes are empty.
    """
    choices = rules.domain_pools.shape[1]
    for app in order:
        domain = st.status[e, rows.DOMAIN, app]
        left = st.status[e, rows.REPLICAS, app]
        # The pools are sized for these shares, see `rules._pool_share`.
        shared = int(left * spill[domain] + 0.5)
        for choice in range(1, choices):
            shared -= _bind_in(st, e, app, shared, rules.domain_pools[domain, choice], rules)
        left = st.status[e, rows.REPLICAS, app] - st.hidden[e, BOUND, app]
        for choice in range(choices):
            left -= _bind_in(st, e, app, left, rules.domain_pools[domain, choice], rules)
        if left > 0:
            enqueue(st, e, app, left)


@kernel
def _bind_in(st: State, e: int, app: int, wanted: int, pool: int, rules: ClusterRules) -> int:
    if wanted <= 0 or pool == NONE:
        return 0
    first = rules.pools[pool].first
    size = rules.pools[pool].start_nodes
    chunk = pods_per_node(wanted)
    left = wanted
    offset = (app * START_STRIDE) % size
    for step in range(2 * size):
        # The first round spreads the pods evenly; the second uses any room that is left.
        if step == size:
            chunk = left
        node = first + offset
        offset = (offset + 1) % size
        room = min(
            st.room[e, ROOM_CPU, node] // st.status[e, rows.CPU_REQUEST, app],
            st.room[e, ROOM_MEMORY, node] // st.status[e, rows.MEMORY_REQUEST, app],
        )
        fits = min(left, chunk, room, st.room[e, ROOM_PODS, node])
        if fits > 0 and st.env[e].free_group != NONE:
            add_group(st, e, app, node, pool, fits, st.env[e].tick)
            left -= fits
        if left == 0:
            break
    return wanted - left
