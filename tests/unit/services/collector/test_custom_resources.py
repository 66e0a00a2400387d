"""What the statuses of custom resources say, on an API server that takes everything."""

import asyncio
from typing import Any

import msgspec
import pytest

from models.cluster.description import load_cluster
from schemas.scale_applied import ScaleApplied
from services._kit.clock import ManualClock
from services._kit.kubernetes.client import Answer
from services._kit.kubernetes.objects import WorkloadObject
from services.collector.custom_resources import CustomResources
from services.collector.profiles import WorkloadProfile
from services.collector.workloads import app_of
from tests.kubernetes_helpers import deployment
from tests.service_helpers import time_of


class Server:
    """It keeps the status that merge patches make."""

    def __init__(self) -> None:
        self.status: dict[str, Any] = {}

    async def request(self, method: str, path: str, query: Any, body: bytes, _: Any) -> Answer:
        assert (method, query) == ("PATCH", {"fieldManager": "hirl-collector"})
        assert path.endswith("/status")
        for name, value in msgspec.json.decode(body)["status"].items():
            self.status[name] = value
            if value is None:
                del self.status[name]
        return Answer(200, b"{}")


def tell(server: Server, *events: ScaleApplied) -> None:
    """A collector starts, and writes the status of a profile."""
    cluster = load_cluster()
    api: Any = server
    own = CustomResources(api, ManualClock(1000.0), cluster, pytest.fail)
    spec = {"targetRef": {"kind": "Deployment", "name": "web"}, "domain": "payments"}
    meta = {"name": "web", "namespace": "shop", "uid": "uid"}
    profile = {"metadata": meta, "spec": spec, "status": server.status}
    own._profiles.objects["uid"] = msgspec.convert(profile, WorkloadProfile)
    workload = msgspec.convert(deployment("web"), WorkloadObject)
    for event in events:
        own.learn(event)

    async def report() -> None:
        own.report(own.declare([app_of(workload, "deployments", "Deployment")]))
        assert own._reporting is not None
        await own._reporting

    asyncio.run(report())


def test_the_last_decision_stays_in_the_status_over_a_restart() -> None:
    server = Server()
    tell(server)
    assert "lastDecision" not in server.status
    tell(server, ScaleApplied(
        tick=1, time=time_of(1), domain="payments", epoch=3, decision_id="payments/1",
        apps=["shop/web"], outcomes=["applied"], reasons=["demand"], replicas=[6],
        cpu_request=[250], memory_request=[512], replicas_before=[4],
    ))  # fmt: skip
    assert server.status["lastDecision"]["reason"] == "demand"
    tell(server)
    assert server.status["lastDecision"]["reason"] == "demand"
    server.status["app"] = "shop/api"
    tell(server)
    assert "lastDecision" not in server.status
