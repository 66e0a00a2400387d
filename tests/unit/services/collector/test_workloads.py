"""Objects of the API server become apps, counts and pools; doubt leaves them out or in preview."""

from typing import Any

import msgspec
import pytest

from services._kit.kubernetes.objects import Node, Pod, PodMetrics, WorkloadObject
from services._kit.kubernetes.sizes import Entry
from services.collector.batches import pools_of, stamp_of
from services.collector.workloads import (
    App,
    NodeState,
    PodState,
    PoolTerms,
    app_of,
    columns_of,
    node_of,
    pod_of,
    pods_by_owner,
    pools_of_nodes,
    sized,
    usage_of,
)
from tests.kubernetes_helpers import deployment

WEB = ("Deployment", "shop", "web")
NOW = 1_763_464_000.0
RECENT, OLD = "2025-11-18T11:06:30Z", "2025-11-18T11:00:00Z"


def app(**annotations: str) -> App:
    manifest = deployment("web")
    named = {f"hirl.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    manifest["metadata"]["annotations"] |= named
    return app_of(msgspec.convert(manifest, WorkloadObject), "deployments", "Deployment")


def pod(
    name: str, node: str = "n1", *, ready: bool = True, phase: str = "Running", deleted: str = ""
) -> PodState:
    owner = {"kind": "ReplicaSet", "name": "web-7f9c", "controller": True}
    meta = {
        "name": name,
        "namespace": "shop",
        "labels": {"pod-template-hash": "7f9c"},
        "ownerReferences": [owner],
        "deletionTimestamp": deleted,
    }
    requests = {"cpu": "500m", "memory": "1Gi"}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    document = {
        "metadata": meta,
        "spec": {"nodeName": node, "containers": [{"resources": {"requests": requests}}]},
        "status": {
            "phase": phase,
            "conditions": conditions,
            "containerStatuses": [{"restartCount": 2}],
        },
    }
    return pod_of(msgspec.convert(document, Pod))


def node(name: str, *, ready: bool = True, created: str = RECENT, **spec: Any) -> Any:
    document = {
        "metadata": {"name": name, "labels": {"pool": "general"}, "creationTimestamp": created},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "16", "memory": "64Gi"},
            "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
        },
    }
    return node_of(msgspec.convert(document, Node), "pool")


def test_annotations_are_the_declaration() -> None:
    found = app(
        min_replicas="2", max_replicas="40", latency_target_seconds="0.25", mode="canary",
        paused="scale-in",
    ).declared  # fmt: skip
    assert (found.app, found.domain) == ("shop/web", "payments")
    assert (found.min_replicas, found.max_replicas) == (2, 40)
    assert found.latency_target_s == 0.25
    assert (found.mode, found.pause) == ("canary", "scale-in")


def test_a_workload_that_is_not_adopted_is_in_preview() -> None:
    manifest = deployment("web", managed=False)
    found = app_of(msgspec.convert(manifest, WorkloadObject), "deployments", "Deployment")
    assert found.declared.mode == "preview"


@pytest.mark.parametrize(
    "annotations",
    [{"max_replicas": "many"}, {"min_replicas": "-1"}, {"mode": "on"}, {"max_replicas": ""}],
)
def test_an_annotation_that_is_no_value_leaves_the_app_in_preview(
    annotations: dict[str, str],
) -> None:
    found = app(**annotations)
    assert (found.declared.mode, found.declared.max_replicas) == ("preview", None)
    assert found.problem.startswith("shop/web: ")


def test_the_name_of_a_stateful_set_says_so() -> None:
    found = app_of(
        msgspec.convert(deployment("web"), WorkloadObject), "statefulsets", "StatefulSet"
    )
    assert found.declared.app == "shop/statefulsets/web"


def test_pods_count_by_what_they_wait_for() -> None:
    pods = [
        pod("1"),
        pod("2", ready=False),
        pod("3", node="", ready=False, phase="Pending"),
        pod("4", phase="Failed"),
    ]
    found = columns_of([app()], pods_by_owner(pods))
    values = {name: column["", "shop/web"] for name, column in found.items()}
    assert values == {
        "replicas": 4, "cpu_request": 250, "memory_request": 512,
        "ready": 1, "starting": 1, "pending": 1, "restarts": 6,
    }  # fmt: skip


def test_usage_is_of_recent_samples_and_an_app_without_any_is_missing() -> None:
    def sample(name: str, timestamp: str) -> PodMetrics:
        used = {"cpu": "250m", "memory": "512Mi"}
        document = {
            "metadata": {"name": name, "namespace": "shop"},
            "timestamp": timestamp,
            "containers": [{"usage": used}, {"usage": used}],
        }
        return msgspec.convert(document, PodMetrics)

    owners = {("shop", "1"): WEB, ("shop", "2"): WEB, ("shop", "3"): ("Deployment", "shop", "x")}
    apps = {WEB: "shop/web", ("Deployment", "shop", "x"): "shop/x"}
    samples = [sample("1", RECENT), sample("2", OLD), sample("3", OLD), sample("4", RECENT)]
    found = usage_of(samples, owners, apps, NOW, 60.0)
    assert found["cpu_cores"] == {("", "shop/web"): 0.5}
    assert found["memory_gib"] == {("", "shop/web"): 1.0}
    assert found["measured_pods"] == {("", "shop/web"): 1.0}


def resized(running: str | None, asked: str = "500m") -> PodState:
    """A pod that was asked to have a size, and has what its kubelet says, if it says anything."""
    container = {"name": "app", "resources": {"requests": {"cpu": asked, "memory": "512Mi"}}}
    requests = {"cpu": running, "memory": "512Mi"}
    statuses = [{"name": "app", "resources": {"requests": requests}}] if running else []
    owner = {"kind": "ReplicaSet", "name": "web-7f9c", "controller": True}
    document = {
        "metadata": {
            "name": "web", "namespace": "shop", "labels": {"pod-template-hash": "7f9c"},
            "ownerReferences": [owner],
        },
        "spec": {"nodeName": "n1", "containers": [container]},
        "status": {"containerStatuses": statuses},
    }  # fmt: skip
    return pod_of(msgspec.convert(document, Pod))


@pytest.mark.parametrize(
    ("pods", "cpu"),
    [
        ([], 500),
        # A new one, whose kubelet has not said anything.
        ([resized(None)], 500),
        ([resized("500m"), resized("498m")], 500),
        ([resized("250m"), resized("250m")], 250),
        ([resized("250m"), resized("500m")], 375),
        # One that kept its size because the API server refused the other one.
        ([resized(None, asked="250m"), resized(None)], 375),
    ],
)
def test_a_resize_counts_as_far_as_kubelets_have_carried_it_out(
    pods: list[PodState], cpu: int
) -> None:
    """Else the use of an app whose pods are still small would look low, and it would lose some."""
    entry = str(Entry("app", ("250m", "512Mi"), 500, 512, ("-", "-"), "payments/1"))
    (found,) = sized([app()], {"shop_web": entry}, pods_by_owner(pods))
    assert (found.cpu_request, found.memory_request) == (cpu, 512)


def test_while_a_resize_waits_the_node_has_no_more_room_than_before_or_after() -> None:
    pods = [resized("250m", asked="500m"), resized("500m", asked="250m")]
    found = pools_of_nodes([node("n1")], pods, {}, NOW)
    assert found["free_cores"]["", "general"] == 15.0


def test_pools_count_ready_and_booting_nodes_and_what_is_free() -> None:
    nodes = [
        node("n1"),
        node("n2"),
        node("n3", ready=False),
        node("lost", ready=False, created="2025-11-17T00:00:00Z"),
        node("drained", unschedulable=True, created="2025-11-17T00:00:00Z"),
    ]
    pods = [pod("1"), pod("2", node="n2"), pod("3", node="n3"), pod("4", phase="Succeeded")]
    terms = {"general": PoolTerms(quota=20, price_per_hour=0.4)}
    found = pools_of_nodes(nodes, pods, terms, NOW)
    values = {name: column["", "general"] for name, column in found.items()}
    assert values == {
        "ready": 2, "booting": 1, "free_cores": 31, "free_memory_gib": 126,
        "node_cores": 16, "node_memory_gib": 64, "quota": 20, "price_per_hour": 0.4,
    }  # fmt: skip


def test_a_pod_that_is_being_deleted_keeps_its_room_until_it_is_gone() -> None:
    leaving = pod("1", deleted=RECENT)
    found = pools_of_nodes([node("n1")], [leaving], {}, NOW)
    assert found["free_cores"]["", "general"] == 15.5
    assert pods_by_owner([leaving]) == {}


@pytest.mark.parametrize("nodes", [[], [node("n1", ready=False, created=OLD)]])
def test_a_pool_with_terms_and_without_nodes_is_published_as_empty(nodes: list[NodeState]) -> None:
    found = pools_of_nodes(nodes, [], {"general": PoolTerms(quota=20)}, NOW)
    (event,) = pools_of(found, stamp_of(1, 10, "test"))
    assert (event.pool, event.ready, event.quota) == ("general", 0, 20)
    assert (event.free_cores, event.node_cores) == (0.0, 0.0)


def test_a_pool_without_terms_has_no_quota() -> None:
    assert "quota" not in pools_of_nodes([node("n1")], [], {}, NOW)
