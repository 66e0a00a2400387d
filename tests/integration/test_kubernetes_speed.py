"""How long changes take on a real API server, by how many are written at the same time.

`make lab` plays it with 1,550 Deployments and logs the figures; here it only has to work.
"""

import asyncio
import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from services._kit.kubernetes.client import Answer, KubernetesApi, encoded
from services._kit.kubernetes.credentials import access_of
from services.actuator.kubernetes import KubernetesTarget
from services.actuator.target import Change, Numbers, Read, Reading, Write, Written
from services.lab import controlplane
from services.lab.controlplane import Lab, kubeconfig
from tests.integration.lab_helpers import Cluster, Kubectl
from tests.kubernetes_helpers import deployment, running_loop

log = logging.getLogger(__name__)

_APPS: Final = int(os.environ.get("HIRL_LAB_APPS", "20"))
_SAMPLE: Final = 300
"""Changes per round: about what a flash sale asks for at once."""
_ACCOUNT: Final = "/api/v1/namespaces/hirl/serviceaccounts/actuator/token"


class Timed(KubernetesApi):
    """Notes how long each patch took."""

    def __init__(self, *parameters: Any) -> None:
        super().__init__(*parameters)
        self.took: list[float] = []

    async def request(self, method: str, *words: Any, **options: Any) -> Answer:
        began = time.monotonic()
        found = await super().request(method, *words, **options)
        if method == "PATCH":
            self.took.append(time.monotonic() - began)
        return found


@pytest.fixture(scope="module")
def many(lab: Lab) -> Iterator[Cluster]:
    lab = controlplane.restart(Path(lab.home))
    Kubectl(lab.kubeconfig)("apply", "-k", "infra/k8s/overlays/kubernetes")
    with running_loop() as run:
        cluster = Cluster(lab, run, "many")
        run(_fill(cluster))
        yield cluster
        cluster.close()


async def _fill(cluster: Cluster) -> None:
    slots, path = asyncio.Semaphore(16), f"/apis/apps/v1/namespaces/{cluster.namespace}/deployments"

    async def post(number: int) -> None:
        manifest = deployment(f"app-{number}", domain="many")
        manifest["metadata"]["namespace"] = cluster.namespace
        headers = {"Content-Type": "application/json"}
        async with slots:
            found = await cluster.api.request("POST", path, None, encoded(manifest), headers)
            assert found.status == 201, found.message

    await asyncio.gather(*(post(number) for number in range(_APPS)))


def _raise(found: Reading, tick: int) -> Write:
    assert found.apps is not None
    changes = [
        Change(
            app=app,
            replicas=now.replicas + 1,
            cpu_request=now.cpu_request,
            memory_request=now.memory_request,
            before=Numbers(now.replicas, now.cpu_request, now.memory_request),
            decision_id=f"many/{tick}/1/heuristic/2",
        )
        for app, now in sorted(found.apps.items())[:_SAMPLE]
    ]
    return Write(domain="many", tick=tick, changes=changes)


@pytest.mark.parametrize("concurrency", [1, 4, 8, 16])
def test_changes_of_many_apps_are_all_made(many: Cluster, tmp_path: Path, concurrency: int) -> None:
    token = many.post(_ACCOUNT, {"spec": {}})["status"]["token"]
    access = access_of(str(kubeconfig(many.lab, token, tmp_path / "config")))
    api = Timed(access, 10.0, 1e6)
    target = KubernetesTarget(api, 10.0, 240.0, concurrency)
    began = time.monotonic()
    found = many.run(target.carry_out(Read(domain="many", tick=concurrency)))
    read_s = time.monotonic() - began
    write = _raise(found, concurrency)
    began, cpu = time.monotonic(), time.process_time()
    written: Written = many.run(target.carry_out(write))
    took, used = time.monotonic() - began, time.process_time() - cpu
    many.run(target.close())
    assert set(written.answers.values()) == {"applied"}
    assert len(written.answers) == len(write.changes)
    log.info(
        "%d Deployments read in %.2f s; %d changes, %d at a time: %.2f s, %.0f a second, %.2f CPU s"
        " of ours; a patch p50 %.0f ms, p99 %.0f ms",
        _APPS, read_s, len(write.changes), concurrency, took, len(write.changes) / took, used,
        *(1000 * np.quantile(api.took, share) for share in (0.5, 0.99)),
    )  # fmt: skip
