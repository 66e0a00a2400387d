"""The system in one process treats the cluster's refusals as answers, as the one over HTTP does."""

import asyncio

from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import Scenario
from models.sim.world import World
from services.actuator.target import Change, Numbers, TargetRequest, Withdrawal, Write, Written
from services.devcluster.memory import DirectTarget
from services.simcluster.cluster import SimulatedCluster


def answers_to(cluster: SimulatedCluster, request: TargetRequest) -> dict[str, str]:
    found = asyncio.run(DirectTarget(cluster).carry_out(request))
    assert isinstance(found, Written)
    return dict(found.answers)


def test_a_tick_of_the_future_is_refused_and_withdrawn_without_an_error() -> None:
    calm = Scenario(name="calm", shows="Nothing.", start="Tue 10:00", length_minutes=1)
    cluster = SimulatedCluster(World(with_apps(load_sim_cluster(), 20), calm, [3]))
    app, domain = cluster.names[0], cluster.world.cluster.domain_names[0]
    change = Change(
        app=app, replicas=9, cpu_request=1000, memory_request=1024,
        before=Numbers(1, 1000, 1024), decision_id="d",
    )  # fmt: skip
    write = Write(domain=domain, tick=cluster.tick + 1, changes=[change])
    assert answers_to(cluster, write) == {app: "refused"}
    assert answers_to(cluster, Withdrawal(write=write, reason="off")) == {app: "withdrawn"}
