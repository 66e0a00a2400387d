"""The suite of every target on a real API server, and what only a real one can show."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from services._kit.handler import Executor
from services.actuator.target import Read, Reading
from services.lab.controlplane import Lab
from tests.integration.lab_helpers import Cluster
from tests.kubernetes_helpers import autoscaler, deployment, running_loop
from tests.target_suite import TargetSuite, answer, present, raising

_NUMBERS = count()


class _Real:
    """One Deployment in a namespace of its own."""

    domain = "payments"

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.run = cluster, cluster.run
        self.domain = cluster.namespace
        self.app = f"{cluster.namespace}/web"
        cluster.create(deployment("web", domain=self.domain))

    def target(self) -> Executor:
        return self.cluster.target()

    def made(self) -> int:
        return self.cluster.changes("web")


@pytest.fixture
def world(lab: Lab) -> Iterator[_Real]:
    with running_loop() as run:
        cluster = Cluster(lab, run, f"target-{next(_NUMBERS)}")
        yield _Real(cluster)
        cluster.close()


class TestRealApiServer(TargetSuite):
    pass


def hold(world: _Real, target: Executor) -> str:
    return present(world, target, tick=99).hold


def test_the_decision_is_in_the_managed_fields_and_in_the_audit_log(world: _Real) -> None:
    target = world.target()
    for tick in range(12):
        write = raising(world, present(world, target, tick), tick)
        assert answer(world, target, write) == "applied"
    ours = [
        one
        for one in world.cluster.stored("web")["metadata"]["managedFields"]
        if one["manager"].startswith("hirl:")
    ]
    # The entries of earlier decisions are gone: each owned nothing but the number.
    assert [one["manager"] for one in ours] == [f"hirl:{world.domain}/11/3/heuristic/2"]
    made = [
        one.audit_id
        for one in world.cluster.audit()
        if one.stage == "ResponseComplete" and one.object_ref.get("subresource") == "scale"
    ]
    assert made == [f"{world.domain}/{tick}/3/heuristic/2" for tick in range(12)]


def test_a_stale_version_is_a_conflict_that_is_judged_again(world: _Real) -> None:
    target = world.target()
    write = raising(world, present(world, target))
    labels = {"metadata": {"labels": {"touched": "yes"}}}
    assert world.cluster.patch(world.cluster.path("web"), labels) == 200
    assert answer(world, target, write) == "applied"
    assert world.made() == 1


def test_a_number_of_another_writer_is_a_conflict(world: _Real) -> None:
    target = world.target()
    write = raising(world, present(world, target))
    scale = f"{world.cluster.path('web')}/scale"
    assert world.cluster.patch(scale, {"spec": {"replicas": 9}}) == 200
    assert answer(world, target, write) == "conflict"
    assert world.cluster.stored("web")["spec"]["replicas"] == 9


def test_an_hpa_is_a_second_owner(world: _Real) -> None:
    target = world.target()
    assert hold(world, target) == ""
    world.cluster.create(autoscaler("rival", "web"))
    fresh = world.target()
    assert hold(world, fresh) == "hold-second-owner: HorizontalPodAutoscaler rival"
    write = raising(world, present(world, fresh))
    assert answer(world, fresh, write) == "refused"
    assert world.made() == 0


def test_a_program_that_scales_after_us_is_a_second_owner(world: _Real) -> None:
    target = world.target()
    assert answer(world, target, raising(world, present(world, target))) == "applied"
    scale = f"{world.cluster.path('web')}/scale"
    assert hold(world, target) == ""
    assert world.cluster.patch(scale, {"spec": {"replicas": 9}}, "keda") == 200
    assert hold(world, target) == "hold-second-owner: keda"


def test_a_workload_without_the_annotation_is_never_written(world: _Real) -> None:
    target = world.target()
    removed = {"metadata": {"annotations": {"hirl.dev/managed": None}}}
    assert world.cluster.patch(world.cluster.path("web"), removed) == 200
    write, before = raising(world, present(world, target)), world.made()
    assert answer(world, target, write) == "refused"
    assert world.made() == before


def test_replicas_of_zero_are_written_and_read(world: _Real) -> None:
    target = world.target()
    now = present(world, target)
    assert answer(world, target, raising(world, now, 0, -now.replicas)) == "applied"
    empty = present(world, target, 1)
    assert empty.replicas == 0
    assert answer(world, target, raising(world, empty, 1, 2)) == "applied"
    assert world.cluster.stored("web")["spec"]["replicas"] == 2


def test_a_namespace_that_is_deleted_under_way_leaves_unknown_apps(world: _Real) -> None:
    target = world.target()
    write = raising(world, present(world, target))
    path = world.cluster.path("web")
    assert world.run(world.cluster.api.request("DELETE", path)).status == 200
    assert answer(world, target, write) == "unknown"


def test_lists_are_read_in_pages(world: _Real) -> None:
    for number in range(3):
        world.cluster.create(deployment(f"more-{number}", domain=world.domain))
    found: Any = world.run(world.target().carry_out(Read(domain=world.domain, tick=0)))
    assert isinstance(found, Reading)
    assert found.apps is not None
    assert len(found.apps) == 4
