"""A profile takes effect, or its status says what to do."""

from typing import Any

import msgspec
import pytest

from models.cluster.description import load_cluster
from services._kit.kubernetes.adoption import DOMAIN, MANAGED
from services._kit.kubernetes.objects import WorkloadObject
from services.collector.profiles import (
    ScalingDomain,
    Verdict,
    WorkloadProfile,
    applied,
    judge_domain,
    judge_profiles,
)
from services.collector.workloads import App, app_of
from tests.kubernetes_helpers import deployment

DOMAINS = ("payments", "fraud")
CLUSTER = load_cluster()


def app(name: str = "web", *, managed: bool = True, **annotations: str) -> App:
    manifest = deployment(name, managed=managed)
    manifest["metadata"]["annotations"] |= annotations
    return app_of(msgspec.convert(manifest, WorkloadObject), "deployments", "Deployment")


def profile(
    name: str = "web", target: str = "web", made: str = "1", **spec: Any
) -> WorkloadProfile:
    meta = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "creationTimestamp": made}
    reference = {"kind": "Deployment", "name": target}
    given = {"targetRef": reference, "domain": "payments", "maxReplicas": 40, **spec}
    return msgspec.convert({"metadata": meta, "spec": given}, WorkloadProfile)


def judge(*profiles: WorkloadProfile, apps: tuple[App, ...] = ()) -> dict[str, Verdict]:
    found = judge_profiles(profiles, {one.key: one for one in apps or (app(),)}, DOMAINS)
    return {uid.removeprefix("uid-"): verdict for uid, verdict in found.items()}


def test_a_profile_declares_its_fields() -> None:
    spec: dict[str, Any] = {
        "minReplicas": 3,
        "slo": {"latencySeconds": 0.25},
        "mode": "auto",
        "paused": "scale-in",
    }
    verdict = judge(profile(**spec, tier=1, saturation=0.7, requestMix={"web": 1.0}))["web"]
    assert (verdict.accepted, verdict.reason) == (True, "InEffect")
    (declared,) = [one.declared for one in applied([app()], [verdict])]
    assert (declared.min_replicas, declared.max_replicas) == (3, 40)
    assert (declared.latency_target_s, declared.mode, declared.pause) == (0.25, "auto", "scale-in")
    assert (declared.tier, declared.saturation, declared.request_mix.web) == (1, 0.7, 1.0)


def test_what_a_profile_leaves_out_stays_as_annotations_have_it() -> None:
    given: dict[str, Any] = {
        "hirl.dev/latency-target-seconds": "0.5",
        "hirl.dev/mode": "canary",
        "hirl.dev/min-replicas": "5",
    }
    annotated = app(**given)
    declared = judge(profile(), apps=(annotated,))["web"].declared
    assert declared is not None
    assert (declared.latency_target_s, declared.mode, declared.max_replicas) == (0.5, "canary", 40)
    assert declared.min_replicas == 5


def test_bounds_that_cross_those_of_the_annotations_are_refused() -> None:
    annotated: dict[str, Any] = {"hirl.dev/min-replicas": "50"}
    verdict = judge(profile(), apps=(app(**annotated),))["web"]
    assert (verdict.accepted, verdict.reason, verdict.declared) == (False, "BoundsCross", None)


@pytest.mark.parametrize("other", [{"managed": False}, {"hirl.dev/min-replicas": "few"}])
def test_a_profile_does_not_adopt_its_workload(other: dict[str, Any]) -> None:
    verdict = judge(profile(mode="auto"), apps=(app(**other),))["web"]
    assert verdict.declared is not None
    assert verdict.declared.mode == "preview"
    assert MANAGED in verdict.message


def test_an_unknown_domain_is_named_beside_those_that_there_are() -> None:
    verdict = judge(profile(domain="paymnts"))["web"]
    assert verdict[:2] == (False, "UnknownDomain")
    assert verdict.message == "no domain is called paymnts; there are payments, fraud"


def test_of_two_profiles_with_one_target_the_older_one_counts() -> None:
    verdicts = judge(profile("new", made="2"), profile("old", made="1"))
    assert (verdicts["old"].accepted, verdicts["new"].accepted) == (True, False)
    assert verdicts["new"].reason == "Conflict"
    assert "profile old is older" in verdicts["new"].message


def test_a_target_without_the_label_comes_with_the_command_that_labels_it() -> None:
    missing = judge(profile(target="gone"))["web"]
    assert missing[:2] == (False, "TargetNotFound")
    assert f"kubectl label deployment gone -n shop --overwrite {DOMAIN}=payments" in missing.message
    other = judge(profile(domain="fraud"))["web"]
    assert other[:2] == (False, "DomainDiffers")
    assert f"{DOMAIN}=payments" in other.message


def domain(name: str, **spec: Any) -> ScalingDomain:
    given = {"priority": "P0", "floorShare": 0.2, "pools": ["general"], **spec}
    return msgspec.convert({"metadata": {"name": name}, "spec": given}, ScalingDomain)


def test_a_domain_like_that_of_the_cluster_file_is_in_effect() -> None:
    present = CLUSTER.domains[0]
    spec = {
        "priority": present.priority, "floorShare": present.floor_share, "pools": [*present.pools],
        "tiers": [*present.tiers], "slo": {"kind": present.slo.kind},
    }  # fmt: skip
    assert judge_domain(domain(present.name, **spec), CLUSTER).accepted
    verdict = judge_domain(domain(present.name, **{**spec, "priority": "P3"}), CLUSTER)
    assert verdict[:2] == (False, "DiffersFromClusterFile")
    assert f"priority is {present.priority} there" in verdict.message


def test_a_domain_that_the_services_do_not_know_is_not_in_effect() -> None:
    assert judge_domain(domain("search"), CLUSTER)[:2] == (False, "UnknownDomain")
