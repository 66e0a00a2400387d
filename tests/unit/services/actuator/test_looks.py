"""The pods of resized workloads are looked at in turn, until all of them have the new size."""

import asyncio
from typing import Any

import msgspec
import pytest

from services._kit.kubernetes.client import Listing
from services._kit.kubernetes.objects import Container, Pod, Resources
from services._kit.kubernetes.sizes import Entry
from services.actuator.kubernetes_sizes import Sizes
from services.actuator.target import Present
from services.actuator.workloads import Workload

ENTRY = Entry("app", ("250m", "512Mi"), 500, 512, ("-", "-"), "payments/1")
APPS = 25


class Pods:
    """An API server with a pod per workload, all of one size."""

    def __init__(self) -> None:
        self.cpu, self.asked = "250m", list[str]()

    async def list(self, path: str, kind: Any, query: dict[str, str]) -> Listing[Pod]:
        assert (path, kind) == ("/api/v1/namespaces/shop/pods", Pod)
        name = query["labelSelector"].removeprefix("app=")
        self.asked.append(name)
        owner = {"kind": "ReplicaSet", "name": f"{name}-7f9c", "controller": True}
        meta = {
            "name": f"{name}-1", "namespace": "shop", "labels": {"pod-template-hash": "7f9c"},
            "ownerReferences": [owner],
        }  # fmt: skip
        asked, has = ({"requests": {"cpu": cpu, "memory": "512Mi"}} for cpu in ("500m", self.cpu))
        pod = {
            "metadata": meta,
            "spec": {"containers": [{"name": "app", "resources": asked}]},
            "status": {"containerStatuses": [{"name": "app", "resources": has}]},
        }
        return Listing([msgspec.convert(pod, Pod)], "1", 0)


def workload(number: int, entry: Entry | None = ENTRY) -> Workload:
    requests = {"cpu": "250m", "memory": "512Mi"}
    name = f"app-{number}"
    return Workload(
        path="", app=f"shop/{name}", kind="Deployment", namespace="shop", name=name, uid=name,
        version="1", manager="", container=Container("app", Resources(requests=requests)),
        entry=entry, pod_labels={"app": name},
        present=Present(
            replicas=1, cpu_request=500, memory_request=512, ready=1, starting=0, pending=0
        ),
    )  # fmt: skip


@pytest.fixture
def pods() -> Pods:
    return Pods()


def test_each_has_its_turn_and_none_is_looked_at_once_it_has_followed(pods: Pods) -> None:
    sizes, apps = Sizes(pods, "hirl/sizes", 5.0), [workload(n) for n in range(APPS)]  # type: ignore[arg-type]

    async def run() -> None:
        await sizes.look(apps)
        assert len(pods.asked) == 10
        for _ in range(2):
            await sizes.look(apps)
        assert set(pods.asked) == {one.name for one in apps}
        waiting = sizes.running(apps[0])
        assert waiting is not None
        assert (waiting.size, waiting.waiting) == ((250, 512), "1 of 1 pods have another size")
        pods.cpu = "500m"
        for _ in range(3):
            await sizes.look(apps)
        pods.asked.clear()
        await sizes.look(apps)
        assert pods.asked == []
        # Another decision about one of them: what was seen is of the one before.
        later = Entry("app", ENTRY.was, 600, 512, ENTRY.limits, "payments/2")
        assert sizes.running(workload(0, later)) is None
        await sizes.look([workload(0, later)])
        assert pods.asked == ["app-0"]

    asyncio.run(run())


def test_a_workload_that_was_not_resized_is_not_looked_at(pods: Pods) -> None:
    released = Entry("app", ("200m", "512Mi"), 500, 512, ("-", "-"), "payments/1")
    sizes = Sizes(pods, "hirl/sizes", 5.0)  # type: ignore[arg-type]
    asyncio.run(sizes.look([workload(0, None), workload(1, released)]))
    assert pods.asked == []
