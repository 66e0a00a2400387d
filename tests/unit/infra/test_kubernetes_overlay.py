"""The overlay for a real cluster: one account with rights, to what it needs, in preview."""

from typing import Any

from services.actuator.kubernetes import STEPS
from services.collector.domains import KEY
from services.provisioner.kubernetes import PRIORITY_CLASS
from services.provisioner.settings import Settings as Provisioner
from tests.unit.infra.deploy_helpers import (
    deployed,
    of_kind,
    pod_of,
    settings_of,
    workloads,
)

OVERLAY = "overlays/kubernetes"
READS = ["get", "list", "watch"]


def test_only_pods_that_talk_to_the_api_server_have_a_token() -> None:
    tokens = {
        one["metadata"]["name"]: pod_of(one)["automountServiceAccountToken"]
        for one in workloads(OVERLAY)
    }
    expected = {"actuator", "collector", "provisioner"}
    assert {name for name, mounted in tokens.items() if mounted} == expected


def roles() -> list[dict[str, Any]]:
    """Those of actuator, collector and provisioner."""
    found = of_kind(OVERLAY, "ClusterRole")
    return sorted(found, key=lambda one: str(one["metadata"]["name"]))


def test_the_roles_read_and_write_scales_and_nothing_else() -> None:
    actuator, *readers = roles()
    rights = {
        resource: rule["verbs"] for rule in actuator["rules"] for resource in rule["resources"]
    }
    writes = {resource: verbs for resource, verbs in rights.items() if verbs != READS}
    scales = {"deployments/scale": ["patch"], "statefulsets/scale": ["patch"]}
    assert writes == {**scales, "events": ["create"]}
    assert "*" not in rights
    assert [one["metadata"]["name"] for one in readers] == ["hirl-collector", "hirl-provisioner"]
    for reader in readers:
        for rule in reader["rules"]:
            # The collector also says in our own resources what it made of them.
            ours = all(name.endswith("/status") for name in rule["resources"])
            assert set(rule["verbs"]) <= ({"patch"} if ours else set(READS))
            assert not ours or rule["apiGroups"] == ["hirl.dev"]
    for binding in of_kind(OVERLAY, "ClusterRoleBinding"):
        (subject,) = binding["subjects"]
        assert subject["namespace"] == "hirl"
        assert binding["roleRef"]["name"] == f"hirl-{subject['name']}"


def test_it_writes_to_kubernetes_and_stays_in_preview_until_told_otherwise() -> None:
    by_name = {one["metadata"]["name"]: one for one in workloads(OVERLAY)}
    kit, actuator = settings_of(deployed(OVERLAY, by_name["actuator"]))
    assert (actuator.target_kind, actuator.mode) == ("kubernetes", "preview")
    assert by_name["actuator"]["spec"]["replicas"] == 2
    # A withdrawal after a restart needs the time of two requests.
    assert 2 * actuator.timeout_seconds < kit.session_timeout_seconds
    _, soldier = settings_of(deployed(OVERLAY, by_name["soldier"]))
    assert not soldier.vertical


def test_the_second_lock_is_on_the_account_that_the_role_is_bound_to() -> None:
    (policy,) = of_kind(OVERLAY, "ValidatingAdmissionPolicy")
    (condition,) = policy["spec"]["matchConditions"]
    assert "'system:serviceaccount:hirl:actuator'" in condition["expression"]
    assert policy["spec"]["failurePolicy"] == "Fail"
    (binding,) = of_kind(OVERLAY, "ValidatingAdmissionPolicyBinding")
    assert binding["spec"] == {
        "policyName": policy["metadata"]["name"],
        "validationActions": ["Deny"],
    }
    role, *_ = roles()
    written = {r for rule in role["rules"] for r in rule["resources"] if r.endswith("/scale")}
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    assert set(rule["resources"]) == written


def test_the_actuators_steps_are_those_that_the_policy_admits() -> None:
    (policy,) = of_kind(OVERLAY, "ValidatingAdmissionPolicy")
    rules = {one["expression"] for one in policy["spec"]["validations"]}
    assert f"variables.after <= {STEPS.times} * variables.before + {STEPS.more}" in rules
    assert f"{STEPS.times} * variables.after >= variables.before" in rules


def test_the_provisioner_writes_in_its_own_namespace_only_and_is_in_preview() -> None:
    (role,) = of_kind("room", "Role")
    assert role["metadata"]["namespace"] == Provisioner().namespace != "hirl"
    assert all(rule["verbs"] == ["create", "patch"] for rule in role["rules"])
    (binding,) = of_kind("room", "RoleBinding")
    (subject,) = binding["subjects"]
    assert (subject["name"], subject["namespace"]) == ("provisioner", "hirl")
    by_name = {one["metadata"]["name"]: one for one in workloads(OVERLAY)}
    _, own = settings_of(deployed(OVERLAY, by_name["provisioner"]))
    assert own.mode == "preview"
    assert by_name["provisioner"]["spec"]["replicas"] == 1


def test_every_pod_takes_the_room_of_a_placeholder() -> None:
    (found,) = of_kind("room", "PriorityClass")
    assert found["metadata"]["name"] == PRIORITY_CLASS
    # Cluster Autoscaler makes no nodes for pods below -10.
    assert -10 <= found["value"] < 0
    assert found["preemptionPolicy"] == "Never"


def test_the_collector_writes_domains_to_one_object_that_every_service_reads() -> None:
    (role,) = of_kind(OVERLAY, "Role")
    (rule,) = role["rules"]
    (binding,) = of_kind(OVERLAY, "RoleBinding")
    assert (rule["resources"], rule["resourceNames"]) == (["configmaps"], ["hirl-domains"])
    assert rule["verbs"] == ["get", "patch"]
    assert [subject["name"] for subject in binding["subjects"]] == ["collector"]
    (stored,) = [
        one for one in of_kind(OVERLAY, "ConfigMap") if one["metadata"]["name"] == "hirl-domains"
    ]
    # An upgrade must leave what the collector has written.
    assert "data" not in stored
    for one in workloads(OVERLAY):
        kit, _ = settings_of(deployed(OVERLAY, one))
        (container,) = pod_of(one)["containers"]
        (mount,) = [m for m in container["volumeMounts"] if m["name"] == "domains"]
        assert kit.domains == f"{mount['mountPath']}/{KEY}"
