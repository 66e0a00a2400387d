"""Small simulated clusters, and the changes and requests that tests send to them."""

from models.sim.config.events import Event
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import Scenario
from models.sim.population.generate import generate
from models.sim.world import World
from schemas.capacity_requested import CapacityRequested, NodesByUrgency
from services.simcluster.cluster import SimulatedCluster
from services.simcluster.target import Change, Numbers

CLUSTER = with_apps(load_sim_cluster(), 20)
POPULATION = generate(CLUSTER)
DOMAINS, POOLS = CLUSTER.domain_names, CLUSTER.pool_names


def simulated(*events: Event, minutes: int = 5, warmup: int = 0, seed: int = 3) -> SimulatedCluster:
    scenario = Scenario(
        name="small",
        shows="The events of a test.",
        start="Tue 10:00",
        length_minutes=minutes,
        warmup_minutes=warmup,
        events=events,
    )
    return SimulatedCluster(World(CLUSTER, scenario, [seed], POPULATION))


def change(
    app: str,
    replicas: int,
    decision: str,
    cpu: int = 0,
    memory: int = 0,
    before: Numbers | None = None,
) -> Change:
    return Change(
        app=app,
        replicas=replicas,
        cpu_request=cpu,
        memory_request=memory,
        decision_id=decision,
        before=before,
    )


def request(
    pool: str, tick: int, *, epoch: int = 0, until: int = 5, critical: int = 0, keep: int = 0
) -> CapacityRequested:
    return CapacityRequested(
        tick=tick,
        time="2026-01-06T10:00:00Z",
        pool=pool,
        epoch=epoch,
        valid_until_tick=until,
        nodes=NodesByUrgency(critical=critical),
        min_nodes=keep,
    )


def close_all(cluster: SimulatedCluster) -> None:
    """Close the current tick for every domain and pool, without changes."""
    for domain in DOMAINS:
        cluster.apply(domain, cluster.tick, [])
    for pool in POOLS:
        cluster.request_capacity(request(pool, cluster.tick, epoch=cluster.tick, until=10**6))
