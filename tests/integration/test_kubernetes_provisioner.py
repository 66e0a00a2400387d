"""The whole provisioner between a real Kafka and a real API server, while the service, the broker
and the API server are killed: the newest request stands, each number is stored once, and what is
no longer valid is let go of."""

import json
import random
import time
from collections.abc import Callable, Iterator
from itertools import cycle, groupby
from pathlib import Path
from typing import Any, Final

import pytest

from schemas.capacity_requested import CapacityRequested, NodesByUrgency
from schemas.fields import Event
from schemas.pool_observed import PoolObserved
from services.devcluster.connect import Running
from services.lab import controlplane
from services.lab.controlplane import Lab, kubeconfig
from tests.integration.lab_helpers import Cluster, Kubectl, within
from tests.integration.service_helpers import ANSWER_S, Bus, Killer, ServiceProcess
from tests.kubernetes_helpers import running_loop
from tests.service_helpers import CLUSTER, time_of

_POOL: Final = CLUSTER.pool_names[0]
_ROOM: Final = f"/apis/apps/v1/namespaces/hirl-room/deployments/room-{_POOL}"
_ACCOUNT: Final = "/api/v1/namespaces/hirl/serviceaccounts/provisioner/token"
_USER: Final = "system:serviceaccount:hirl:provisioner"
_VALID: Final = 18


def observed(tick: int, pool: str = _POOL) -> PoolObserved:
    """A pool of four nodes of which the API server has none: none is occupied."""
    return PoolObserved(
        tick=tick, time=time_of(tick), pool=pool, ready=4, booting=0, quota=200,
        free_cores=0.0, free_memory_gib=0.0, node_cores=8.0, node_memory_gib=32.0,
    )  # fmt: skip


def requested(tick: int, nodes: int) -> CapacityRequested:
    return CapacityRequested(
        tick=tick, time=time_of(tick), pool=_POOL, epoch=tick, valid_until_tick=tick + _VALID,
        nodes=NodesByUrgency(critical=nodes), decision_id=f"{_POOL}/{tick}",
    )  # fmt: skip


class Provisioned:
    """The service, and the room it holds."""

    def __init__(self, cluster: Cluster, killer: Killer, bus: Bus) -> None:
        self.cluster, self.killer, self._bus = cluster, killer, bus

    def publish(self, *events: Event) -> None:
        self._bus.publish(*events)

    def holds(self, chunks: int) -> bool:
        """Whether it comes to hold so many chunks."""
        return within(ANSWER_S, lambda: self.chunks() == chunks)

    def chunks(self) -> int:
        """Held now; -1 before the first."""
        self.killer.service.check()
        found = self.cluster.run(self.cluster.api.get(_ROOM, dict[str, Any]))
        return -1 if found is None else int(found["spec"]["replicas"])

    def written(self) -> list[tuple[str, int]]:
        """Paths and replicas of what its account has stored, in order."""
        found = []
        for line in self.cluster.lab.audit_log.read_bytes().splitlines():
            record = json.loads(line)
            status = record.get("responseStatus", {}).get("code")
            if record["user"]["username"] == _USER and status in {200, 201}:
                replicas = record["responseObject"]["spec"]["replicas"]
                found.append((record["requestURI"].partition("?")[0], replicas))
        return found


@pytest.fixture
def provisioned(
    lab: Lab, start_kafka: Callable[..., Running], tmp_path: Path
) -> Iterator[Provisioned]:
    lab = controlplane.restart(Path(lab.home))
    for folder in ("room", "overlays/kubernetes"):
        Kubectl(lab.kubeconfig)("apply", "-k", f"infra/k8s/{folder}")
    kafka = start_kafka("killed")
    with running_loop() as run:
        cluster = Cluster(lab, run, "provisioned")
        token = cluster.post(_ACCOUNT, {"spec": {}})["status"]["token"]
        settings = {
            "HIRL_PROVISIONER_KUBECONFIG": str(kubeconfig(lab, token, tmp_path / "config")),
            "HIRL_PROVISIONER_MODE": "auto",
            "HIRL_PROVISIONER_RECONCILE_SECONDS": "0.5",
        }
        service = ServiceProcess("provisioner", kafka, tmp_path / "log", settings)
        bus = Bus(kafka)
        try:
            service.start()
            yield Provisioned(cluster, Killer(service, lab, random.Random(3)), bus)
        finally:
            service.stop()
            bus.close()
            cluster.close()


def test_the_newest_request_stands_whatever_dies_and_lets_go_after_its_validity(
    provisioned: Provisioned,
) -> None:
    kills = cycle(("service", "API server", "broker"))
    totals = [7, 9, 6, 12]
    for tick, total in enumerate(totals, start=1):
        provisioned.publish(observed(tick))
        time.sleep(0.5)
        provisioned.publish(requested(tick, total - 4))
        if tick > 1:
            provisioned.killer.kill(next(kills))
        assert provisioned.holds(total)
    # The service is away when the validity ends, and lets go when it comes back.
    provisioned.killer.service.stop()
    provisioned.publish(observed(len(totals) + _VALID + 1))
    provisioned.killer.service.start()
    assert provisioned.holds(0)

    written = provisioned.written()
    assert {path for path, _ in written} == {_ROOM}
    # Repeated writes are of the same number: nothing old came back.
    assert [replicas for replicas, _ in groupby(number for _, number in written)] == [*totals, 0]
    assert set(provisioned.killer.killed) == {"service", "API server", "broker"}
