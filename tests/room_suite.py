"""What holding room on Kubernetes promises: one suite for a played API server and the real one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import pytest

from services._kit.clock import SystemClock
from services._kit.kubernetes.adoption import PLACEHOLDER
from services._kit.kubernetes.client import KubernetesApi
from services.provisioner.capacity import Hold, PoolHeld, PoolWanted
from services.provisioner.kubernetes import KubernetesCapacity
from services.provisioner.settings import Settings

LABEL = "karpenter.sh/nodepool"
Run = Callable[[Awaitable[Any]], Any]


class Place(Protocol):
    """An API server with pools of nodes."""

    namespace: str
    run: Run

    def api(self) -> KubernetesApi:
        """A client."""

    def create(self, path: str, body: dict[str, Any]) -> None:
        """Create an object as an administrator."""

    def stored(self, path: str) -> dict[str, Any] | None:
        """An object; None if there is none."""

    def replace_replicas(self, path: str, replicas: int) -> None:
        """Change a number as an administrator."""


class Held:
    """A pool in its place, and the provisioner's edge there."""

    def __init__(self, place: Place, pool: str, **settings: Any) -> None:
        self.place, self.pool = place, pool
        own: dict[str, Any] = {"namespace": place.namespace, "mode": "auto", **settings}
        self.capacity = KubernetesCapacity(place.api(), Settings(**own), SystemClock())

    def hold(self, nodes: int) -> PoolHeld:
        wanted = PoolWanted(nodes=nodes, node_cpu=8000, node_memory=32000)
        found = self.place.run(self.capacity.carry_out(Hold(pools={self.pool: wanted})))
        answer: PoolHeld = found.pools[self.pool]
        assert answer.problem == ""
        return answer

    def until(self, nodes: int, **expected: int) -> PoolHeld:
        """Hold until the watches have shown what is expected."""
        for _ in range(100):
            found = self.hold(nodes)
            if all(getattr(found, name) == value for name, value in expected.items()):
                return found
            self.place.run(asyncio.sleep(0.1))
        pytest.fail(f"expected {expected}, got {found}")

    def add_node(self, name: str, *, ready: bool = True, cordoned: bool = False) -> None:
        condition = {"type": "Ready", "status": str(ready), "reason": "Test"}
        body = {
            "metadata": {"name": f"{self.pool}-{name}", "labels": {LABEL: self.pool}},
            "spec": {"unschedulable": cordoned},
            "status": {"conditions": [condition]},
        }
        self.place.create("/api/v1/nodes", body)

    def add_pod(self, name: str, node: str, owner: str = "", **labels: str) -> None:
        meta: dict[str, Any] = {"name": f"{self.pool}-{name}", "labels": labels}
        if owner:
            own = {"apiVersion": "v1", "kind": owner, "name": "owner", "uid": f"uid-{name}"}
            meta["ownerReferences"] = [own]
        body = {
            "metadata": meta,
            "spec": {
                "nodeName": f"{self.pool}-{node}",
                "containers": [{"name": "app", "image": "app"}],
            },
        }
        self.place.create("/api/v1/namespaces/default/pods", body)

    @property
    def path(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.place.namespace}/deployments/room-{self.pool}"

    def stored(self) -> dict[str, Any] | None:
        return self.place.stored(self.path)

    def replicas(self) -> int:
        found = self.stored()
        assert found is not None
        return int(found["spec"]["replicas"])

    def close(self) -> None:
        self.place.run(self.capacity.close())


class RoomSuite:
    """Inherit it, with a fixture `held` that makes a `Held` of a pool of its own."""

    def test_what_is_missing_becomes_chunks_of_nearly_a_node(
        self, held: Callable[..., Held]
    ) -> None:
        pool = held()
        pool.hold(3)
        found = pool.stored()
        assert found is not None
        assert found["spec"]["replicas"] == 3
        spec = found["spec"]["template"]["spec"]
        assert spec["nodeSelector"] == {LABEL: pool.pool}
        assert spec["priorityClassName"] == "hirl-placeholder"
        requests = spec["containers"][0]["resources"]["requests"]
        assert requests == {"cpu": "6800m", "memory": "27200Mi"}

    def test_nodes_with_pods_of_others_need_no_chunk(self, held: Callable[..., Held]) -> None:
        pool = held()
        for name in ("a", "b"):
            pool.add_node(name)
        pool.until(3, ready=2, occupied=0)
        assert pool.replicas() == 3
        pool.add_pod("room", "a", **{PLACEHOLDER: pool.pool})
        pool.add_pod("web", "b")
        pool.until(3, occupied=1)
        assert pool.replicas() == 2

    def test_pods_that_every_node_has_leave_it_free(self, held: Callable[..., Held]) -> None:
        pool = held()
        for name, owner in (("a", "DaemonSet"), ("b", "Node"), ("c", "ReplicaSet")):
            pool.add_node(name)
            pool.add_pod(name, name, owner)
        pool.until(3, ready=3, occupied=1)
        assert pool.replicas() == 2

    def test_nodes_that_take_no_pods_do_not_count(self, held: Callable[..., Held]) -> None:
        pool = held()
        pool.add_node("booting", ready=False)
        pool.add_node("cordoned", cordoned=True)
        pool.add_node("good")
        pool.until(2, ready=1)

    def test_holding_the_same_again_writes_nothing(self, held: Callable[..., Held]) -> None:
        pool = held()
        pool.hold(2)
        before = pool.stored()
        pool.hold(2)
        after = pool.stored()
        assert before is not None
        assert after is not None
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]

    def test_what_somebody_changed_is_put_back(self, held: Callable[..., Held]) -> None:
        pool = held()
        pool.hold(2)
        pool.place.replace_replicas(pool.path, 9)
        pool.hold(2)
        assert pool.replicas() == 2

    def test_it_lets_go_to_zero(self, held: Callable[..., Held]) -> None:
        pool = held()
        pool.hold(2)
        pool.hold(0)
        assert pool.replicas() == 0

    def test_preview_asks_and_stores_nothing(self, held: Callable[..., Held]) -> None:
        pool = held(mode="preview")
        assert pool.hold(2).chunks == 2
        assert pool.stored() is None

    def test_a_buffer_has_the_chunks_as_its_replicas(self, held: Callable[..., Held]) -> None:
        pool = held(room="buffers")
        pool.hold(4)
        folder = f"namespaces/{pool.place.namespace}"
        buffer = pool.place.stored(
            f"/apis/autoscaling.x-k8s.io/v1beta1/{folder}/capacitybuffers/room-{pool.pool}"
        )
        template = pool.place.stored(f"/api/v1/{folder}/podtemplates/room-{pool.pool}")
        assert buffer is not None
        assert template is not None
        assert buffer["spec"]["replicas"] == 4
        assert buffer["spec"]["podTemplateRef"] == {"name": template["metadata"]["name"]}
        assert pool.stored() is None, "no placeholders beside a buffer"
