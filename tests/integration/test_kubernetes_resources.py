"""Custom resources on a real API server: refused there, or told in their status."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from models.cluster.description import load_cluster
from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.scale_applied import Outcome, ScaleApplied
from services._kit.clock import SystemClock
from services.collector.custom_resources import CustomResources
from services.collector.domains import KEY, DomainStore
from services.collector.kubernetes import ClusterView
from services.lab.controlplane import Lab, kubeconfig
from tests.integration.lab_helpers import Cluster, Kubectl, within
from tests.kubernetes_helpers import deployment, running_loop

_SPACE = "profiled"
_ACCOUNT = "/api/v1/namespaces/hirl/serviceaccounts/collector/token"
_TTL_S = 12.0


class Watched:
    """A view of a cluster with our resources, as the collector's account has it."""

    def __init__(self, cluster: Cluster, account: Path, kubectl: Kubectl) -> None:
        self.cluster, self.run, self.kubectl = cluster, cluster.run, kubectl
        self.errors: Counter[str] = Counter()
        clock, client = SystemClock(), cluster.client
        self.account = client(account)
        self.store = DomainStore(self.account, clock, "hirl/hirl-domains", settle_s=0.5)
        own = CustomResources(self.account, clock, load_cluster(), self.failed, self.store)
        self.view = ClusterView(
            client(account), clock, self.failed, "pool", {}, _TTL_S, usage=False, own=own
        )

    def failed(self, question: str) -> None:
        self.errors[question] += 1

    def apply(self, manifest: dict[str, Any], *, check: bool = True) -> str:
        file = self.cluster.lab.kubeconfig.parent / "resource.json"
        file.write_text(json.dumps({"apiVersion": "hirl.dev/v1alpha1", **manifest}))
        return self.kubectl("apply", "-f", str(file), check=check)

    def profile(self, name: str, *, check: bool = True, **spec: Any) -> str:
        target = {"kind": "Deployment", "name": "web"}
        given = {"targetRef": target, "domain": "payments", "maxReplicas": 40, **spec}
        meta = {"name": name, "namespace": _SPACE}
        return self.apply({"kind": "WorkloadProfile", "metadata": meta, "spec": given}, check=check)

    def domain(self, name: str, **spec: Any) -> None:
        given = {"priority": "P0", "floorShare": 0.2, "pools": ["shared"], **spec}
        self.apply({"kind": "ScalingDomain", "metadata": {"name": name}, "spec": given})

    def stored(self) -> tuple[str, ...]:
        """Domains in the services' file; the collector goes on meanwhile."""
        self.work()
        words = ["-n", "hirl", "get", "configmap", "hirl-domains", "-o", "json"]
        text = json.loads(self.kubectl(*words)).get("data", {}).get(KEY, "{}")
        return tuple(one["name"] for one in yaml.safe_load(text).get("domains", ()))

    def work(self) -> None:
        self.run(self.view.samples())
        self.run(asyncio.sleep(0.1))

    def says(self, what: str, name: str, words: str) -> bool:
        """Whether `kubectl get` comes to show these words; the collector goes on meanwhile."""
        return self._shows(words, "get", what, name, "-o", "wide")

    def says_of(self, what: str, name: str, words: str) -> bool:
        """Whether `kubectl describe` does."""
        return self._shows(words, "describe", what, name)

    def _shows(self, words: str, *command: str) -> bool:
        def shown() -> bool:
            self.work()
            return words in self.kubectl("-n", _SPACE, *command)

        return within(30, shown)


@pytest.fixture(scope="module")
def watched(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    kubectl = Kubectl(lab.kubeconfig)
    kubectl("apply", "--server-side", "-k", "infra/k8s/crds")
    kubectl("wait", "--for=condition=established", "crd", "--all", "--timeout=60s")
    kubectl("apply", "-k", "infra/k8s/overlays/kubernetes")
    with running_loop() as run:
        cluster = Cluster(lab, run, _SPACE)
        cluster.create(deployment("web"))
        token = cluster.post(_ACCOUNT, {"spec": {}})["status"]["token"]
        account = kubeconfig(lab, token, tmp_path_factory.mktemp("account") / "config")
        made = Watched(cluster, account, kubectl)
        run(made.view.start())
        yield made
        run(made.view.close())
        kubectl("delete", "crd", "scalingdomains.hirl.dev", "workloadprofiles.hirl.dev")
        cluster.close()


def audit(outcome: Outcome, reason: str, replicas: int) -> ScaleApplied:
    return ScaleApplied(
        tick=6, time="2026-11-19T00:01:00Z", domain="payments", epoch=3,
        decision_id="payments/7/3/heuristic/2", apps=[f"{_SPACE}/web"], outcomes=[outcome],
        reasons=[reason], replicas=[replicas], cpu_request=[250], memory_request=[512],
        replicas_before=[4],
    )  # fmt: skip


@pytest.fixture(autouse=True)
def no_domains(watched: Watched) -> None:
    """Those of the cluster file."""
    watched.kubectl("delete", "sd", "--all")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"minReplicas": -3}, "spec.minReplicas in body should be greater than or equal to 1"),
        ({"minReplicas": 50}, "minReplicas must not be above maxReplicas"),
        ({"requestMix": {"api": 0.5}}, "must sum to 1"),
        ({"requestMix": {"rpc": 1.0}}, "request types are api, web, batch, stream and event"),
        ({"mode": "on"}, 'supported values: "off", "preview", "canary", "auto"'),
        ({"domain": ""}, "spec.domain"),
        ({"saturation": 0}, "spec.saturation: Invalid value: 0: must be at least 0.05"),
        ({"slo": {"latencySeconds": 0}}, "must be at least 0.001"),
        ({"saturation": -0.5}, "must be at least 0.05"),
        ({"targetRef": {"kind": "DaemonSet", "name": "web"}}, '"Deployment", "StatefulSet"'),
        ({"bounds": 3}, "unknown field"),
    ],
)
def test_the_api_server_refuses_a_profile_that_makes_no_sense(
    watched: Watched, spec: dict[str, Any], words: str
) -> None:
    assert words in watched.profile("refused", check=False, **spec)


@pytest.mark.parametrize(
    ("name", "spec", "words"),
    [
        ("payments", {"floorShare": 1.5}, "less than or equal to 1"),
        ("payments", {"priority": "P9"}, '"P0", "P1", "P2", "P3"'),
        ("payments", {"pools": []}, "should have at least 1 items"),
        ("payments", {"pools": ["a", "a"]}, "Duplicate value"),
        ("cluster", {}, "is not 'cluster'"),
    ],
)
def test_the_api_server_refuses_a_domain_that_makes_no_sense(
    watched: Watched, name: str, spec: dict[str, Any], words: str
) -> None:
    given = {"priority": "P0", "floorShare": 0.2, "pools": ["general"], **spec}
    manifest = {"kind": "ScalingDomain", "metadata": {"name": name}, "spec": given}
    assert words in watched.apply(manifest, check=False)


def test_a_profile_becomes_a_declaration_and_its_status_says_so(watched: Watched) -> None:
    watched.profile("web", minReplicas=3, slo={"latencySeconds": 0.25})
    assert watched.says("wp", "web", "InEffect")
    (declared,) = [one for one in watched.view.declared() or () if one.app == f"{_SPACE}/web"]
    assert (declared.min_replicas, declared.max_replicas) == (3, 40)
    assert declared.latency_target_s == 0.25
    assert "does not change" in watched.profile(
        "web", check=False, targetRef={"kind": "Deployment", "name": "api"}
    )


def test_a_profile_shows_what_it_is_sized_by_and_the_last_decision(watched: Watched) -> None:
    watched.profile("web")
    assert watched.says_of("wp", "web", "Utilisation:")
    held = audit("held", "hold-paused", 4)
    watched.view.learn(held)
    assert watched.says("wp", "web", "hold-paused")
    watched.view.learn(msgspec.structs.replace(audit("applied", "demand", 6), tick=7))
    assert watched.says_of("wp", "web", "payments/7/3/heuristic/2")
    described = watched.kubectl("-n", _SPACE, "get", "wp", "web", "-o", "json")
    decision = json.loads(described)["status"]["lastDecision"]
    assert (decision["outcome"], decision["reason"]) == ("applied", "demand")
    assert (decision["replicasBefore"], decision["replicas"]) == (4, 6)


def test_a_second_profile_and_an_unknown_domain_are_refused_by_status(watched: Watched) -> None:
    watched.profile("web")
    assert watched.says("wp", "web", "InEffect")
    watched.profile("web-again", maxReplicas=400)
    assert watched.says("wp", "web-again", "profile web is older and has the same target")
    watched.profile("typo", domain="paymnts", targetRef={"kind": "Deployment", "name": "other"})
    assert watched.says("wp", "typo", "no domain is called paymnts")
    (declared,) = [one for one in watched.view.declared() or () if one.app == f"{_SPACE}/web"]
    assert declared.max_replicas == 40
    assert watched.errors == {}


def test_the_collectors_account_writes_the_status_and_nothing_else(watched: Watched) -> None:
    watched.profile("web")
    path = f"/apis/hirl.dev/v1alpha1/namespaces/{_SPACE}/workloadprofiles/web"
    headers = {"Content-Type": "application/merge-patch+json"}
    ours = "/api/v1/namespaces/hirl/configmaps"
    for method, where in (
        ("PATCH", path),
        ("DELETE", path),
        ("PATCH", "/api/v1/nodes/n/status"),
        ("PATCH", f"{ours}/hirl-settings"),
        ("DELETE", f"{ours}/hirl-domains"),
        ("POST", ours),
        ("PATCH", "/apis/apps/v1/namespaces/hirl/deployments/soldier"),
    ):
        request = watched.account.request(method, where, None, b"{}", headers)
        assert watched.run(request).status == 403, where


def test_a_profile_that_is_deleted_leaves_the_annotations(watched: Watched) -> None:
    watched.profile("web")
    assert watched.says("wp", "web", "InEffect")
    watched.kubectl("-n", _SPACE, "delete", "wp", "--all")

    def bounds() -> list[int | None]:
        watched.run(asyncio.sleep(0.1))
        # Other tests leave apps of theirs on this API server.
        declared = watched.view.declared() or ()
        return [one.max_replicas for one in declared if one.app == f"{_SPACE}/web"]

    assert within(30, lambda: bounds() == [None])


def test_a_domain_shows_its_budget_and_its_breaker(watched: Watched) -> None:
    watched.domain("payments")
    stamp: dict[str, Any] = {"tick": 6, "time": "2026-11-19T00:01:00Z"}
    budget = BudgetGranted(
        **stamp, domain="payments", epoch=3, valid_until_tick=24, share=0.314, reserve_share=0.1,
        cores=100.0, memory_gib=400.0, urgency=0.5, reasons=["forecast load"],
    )  # fmt: skip
    breaker = BreakerChanged(**stamp, scope="payments", state="half-open", since_tick=5)
    for event in (budget, breaker):
        watched.view.learn(event)
    assert watched.says("sd", "payments", "31.4%")
    assert watched.says("sd", "payments", "half-open")


def test_domains_are_stored_for_the_services_and_are_the_only_ones(watched: Watched) -> None:
    watched.domain("payments")
    watched.domain("reports", priority="P3")
    assert watched.says("sd", "reports", "True")
    assert within(30, lambda: watched.stored() == ("payments", "reports"))
    assert watched.says_of("sd", "reports", "services start with it within two minutes")
    # A domain that the file has and no resource is none any more.
    watched.profile("web", domain="fraud")
    assert watched.says("wp", "web", "no domain is called fraud; there are payments, reports")
    # Applying the manifests again, as an upgrade does, leaves what is stored.
    watched.kubectl("apply", "-k", "infra/k8s/overlays/kubernetes")
    assert watched.stored() == ("payments", "reports")


def test_a_domain_that_is_refused_changes_nothing_until_it_is_mended(watched: Watched) -> None:
    watched.domain("payments")
    assert within(30, lambda: watched.stored() == ("payments",))
    watched.domain("typo", pools=["nowhere"])
    assert watched.says_of("sd", "typo", "spec.pools: expected one of")
    assert watched.says_of("sd", "payments", "services keep their domains until typo can be")
    watched.domain("typo", pools=["shared"], floorShare=0.9)
    assert watched.says_of("sd", "payments", "expected floor_share to sum to at most 1, got 1.1")
    assert watched.stored() == ("payments",)
    watched.domain("typo", pools=["shared"])
    assert within(30, lambda: watched.stored() == ("payments", "typo"))


def test_without_domains_the_file_of_the_services_counts_again(watched: Watched) -> None:
    watched.domain("reports")
    assert within(30, lambda: watched.stored() == ("reports",))
    watched.kubectl("delete", "sd", "--all")
    assert within(30, lambda: watched.stored() == ())
