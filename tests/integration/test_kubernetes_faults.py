"""Writes to a real API server under injected faults, other owners, webhooks and deletions."""

import base64
import ssl
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from services._kit.kubernetes.client import KubernetesApi
from services._kit.kubernetes.credentials import Access, Token, access_of
from services.actuator.kubernetes import KubernetesTarget
from services.actuator.target import Change, Numbers, Read, Reading, Write, Written
from services.lab.controlplane import Lab
from tests.integration.fault_proxy import FAULTS, FaultProxy
from tests.integration.lab_helpers import Cluster, Kubectl, within
from tests.kubernetes_helpers import deployment, running_loop
from tests.target_suite import answer, present, raising

_NUMBERS: Final = count()
_APPS, _TICKS = 8, 8
_HOOKS: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
_SCALED_OBJECTS: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "scaledobjects.keda.sh"},
    "spec": {
        "group": "keda.sh",
        "scope": "Namespaced",
        "names": {"plural": "scaledobjects", "kind": "ScaledObject"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


class Place:
    """A namespace on the real server."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.run = cluster, cluster.run
        self.domain = cluster.namespace
        self.app = f"{cluster.namespace}/web"

    def target(self) -> KubernetesTarget:
        return self.cluster.target()

    def made(self) -> int:
        return self.cluster.changes("web")

    def refusal(self, tick: int = 0) -> tuple[str, str]:
        """Answer and reason of a change of the app."""
        target = self.target()
        write = raising(self, present(self, target, tick), tick)
        found = self.run(target.carry_out(write))
        assert isinstance(found, Written)
        return found.answers[self.app], found.reasons.get(self.app, "")


@pytest.fixture
def place(lab: Lab) -> Iterator[Place]:
    with running_loop() as run:
        cluster = Cluster(lab, run, f"faults-{next(_NUMBERS)}")
        cluster.create(deployment("web", domain=cluster.namespace))
        yield Place(cluster)
        cluster.close()


def test_no_change_is_lost_or_doubled_behind_a_proxy_that_fails_most_writes(place: Place) -> None:
    cluster = place.cluster
    names = [f"app-{index}" for index in range(_APPS)]
    for name in names:
        cluster.create(deployment(name, 1, domain=place.domain))
    proxy = FaultProxy(cluster.lab, access_of(str(cluster.lab.kubeconfig)), seed=7)
    url = place.run(proxy.start())
    api = KubernetesApi(Access(url, Token("unused"), None), 5.0, 1000.0)
    target = KubernetesTarget(api, 5.0, 60.0, 4)
    for tick in range(_TICKS):
        found = place.run(target.carry_out(Read(domain=place.domain, tick=tick)))
        assert isinstance(found, Reading)
        assert found.apps is not None
        changes = []
        for name in names:
            now = found.apps[f"{cluster.namespace}/{name}"]
            before = Numbers(now.replicas, now.cpu_request, now.memory_request)
            changes.append(
                Change(
                    app=f"{cluster.namespace}/{name}",
                    replicas=now.replicas + 1,
                    cpu_request=now.cpu_request,
                    memory_request=now.memory_request,
                    before=before,
                    decision_id=f"{place.domain}/{tick}/3/heuristic/3",
                )
            )
        write = Write(domain=place.domain, tick=tick, changes=changes)
        done = place.run(target.carry_out(write))
        assert isinstance(done, Written)
        assert done.answered
        assert set(done.answers.values()) <= {"applied", "repeat"}
    place.run(target.close())
    place.run(proxy.close())
    assert {cluster.changes(name) for name in names} == {_TICKS}
    assert {cluster.stored(name)["spec"]["replicas"] for name in names} == {1 + _TICKS}
    assert set(proxy.suffered) == set(FAULTS)


def test_a_workload_of_keda_is_held(place: Place) -> None:
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    place.cluster.post(crds, _SCALED_OBJECTS)
    kubectl = Kubectl(place.cluster.lab.kubeconfig)
    kubectl("wait", "--for=condition=Established", "crd/scaledobjects.keda.sh")
    assert place.refusal(0)[0] == "applied"
    scaled = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": "rival"},
        "spec": {"scaleTargetRef": {"name": "web"}},
    }
    path = f"/apis/keda.sh/v1alpha1/namespaces/{place.cluster.namespace}/scaledobjects"
    place.cluster.post(path, scaled)
    assert place.refusal(1) == ("refused", "hold-second-owner: ScaledObject rival")
    assert place.made() == 1


def hook(place: Place, url: str, policy: str = "Fail") -> dict[str, Any]:
    """A webhook on every write of replicas in this namespace."""
    ca = Path(place.cluster.lab.authority).read_bytes()
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": place.cluster.namespace},
        "webhooks": [
            {
                "name": "deny.example.com",
                "clientConfig": {"url": url, "caBundle": base64.b64encode(ca).decode()},
                "rules": [
                    {
                        "apiGroups": ["apps"],
                        "apiVersions": ["v1"],
                        "operations": ["UPDATE"],
                        "resources": ["deployments/scale"],
                    }
                ],
                "namespaceSelector": {
                    "matchLabels": {"kubernetes.io/metadata.name": place.cluster.namespace}
                },
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": policy,
                "timeoutSeconds": 1,
            }
        ],
    }


def test_a_webhook_that_denies_is_an_answer_with_its_words(place: Place) -> None:
    async def deny(request: web.Request) -> web.Response:
        review = await request.json()
        status = {"message": "sales freeze"}
        response = {"uid": review["request"]["uid"], "allowed": False, "status": status}
        return web.json_response({**review, "response": response})

    app = web.Application()
    app.router.add_post("/", deny)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    keys = Path(place.cluster.lab.home) / "tls"
    tls.load_cert_chain(keys / "server.crt", keys / "server.key")
    server = TestServer(app, scheme="https", host="127.0.0.1")
    place.run(server.start_server(ssl=tls))
    place.cluster.post(_HOOKS, hook(place, str(server.make_url("/"))))
    ticks = count()
    assert within(30, lambda: place.refusal(next(ticks))[0] == "refused")
    made = place.made()
    assert "sales freeze" in place.refusal(next(ticks))[1]
    assert place.made() == made
    place.run(server.close())


def test_a_webhook_that_is_away_is_a_refusal_and_no_endless_retry(place: Place) -> None:
    place.cluster.post(_HOOKS, hook(place, "https://127.0.0.1:1/"))
    ticks = count()
    assert within(30, lambda: place.refusal(next(ticks))[0] == "refused")
    assert "failed calling webhook" in place.refusal(next(ticks))[1]


def test_a_namespace_that_is_deleted_under_way_leaves_nothing_to_change(place: Place) -> None:
    target = place.target()
    write = raising(place, present(place, target))
    cluster = place.cluster
    namespace = f"/api/v1/namespaces/{cluster.namespace}"
    assert place.run(cluster.api.request("DELETE", namespace)).status == 200
    # Nothing here plays the controller that empties it.
    assert place.run(cluster.api.request("DELETE", cluster.path("web"))).status == 200
    assert answer(place, target, write) == "unknown"
    found = place.run(place.target().carry_out(Read(domain=place.domain, tick=1)))
    assert isinstance(found, Reading)
    assert found.apps == {}
