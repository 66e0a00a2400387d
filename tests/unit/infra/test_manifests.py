"""The manifests start every service with the least privileges, and agree with each other."""

from typing import Any

import pytest

from services._kit.settings import KitSettings
from services.admin.desired import services as principals
from services.cli.commands import COMMANDS
from tests.unit.infra.deploy_helpers import (
    BESIDE_SIMULATED,
    IMAGE,
    PORT,
    SERVICES,
    SIMULATED_PORT,
    USER,
    deployed,
    manifests,
    of_kind,
    pod_of,
    start,
    workloads,
)

NAME = "app.kubernetes.io/name"
FOLDERS = ["base", "overlays/simulated", "topics"]
SIMULATED = "overlays/simulated"
# Scopes of the handlers; a test below compares them with the code.
BY_DOMAIN = {"aggregator", "soldier", "actuator", "breaker"}
BY_CLUSTER = {"forecaster", "commander", "provisioner"}


def named(found: dict[str, Any]) -> str:
    return str(found["metadata"]["name"])


def deployment(folder: str, name: str) -> dict[str, Any]:
    (found,) = [one for one in workloads(folder) if named(one) == name]
    return found


def test_the_base_has_every_service_and_only_the_overlay_has_the_simulated_cluster() -> None:
    base = sorted(map(named, workloads("base")))
    assert base == [name for name in SERVICES if name != "simcluster"]
    assert sorted(map(named, workloads(SIMULATED))) == SERVICES


@pytest.mark.parametrize(
    ("folder", "name"),
    [("base", name) for name in BESIDE_SIMULATED if name != "simcluster"]
    + [(SIMULATED, name) for name in BESIDE_SIMULATED],
)
def test_a_service_starts_with_the_command_and_environment_of_its_pod(
    folder: str, name: str
) -> None:
    kit = start(deployed(folder, deployment(folder, name)))
    assert (kit.metrics_host, kit.metrics_port) == ("0.0.0.0", PORT)  # noqa: S104
    assert kit.kafka_security == "SASL_SSL"
    assert kit.kafka_user
    assert kit.kafka_password
    assert not kit.instance, "pods of a Deployment have no stable names"
    pod = pod_of(deployment(folder, name))
    grace = pod.get("terminationGracePeriodSeconds", 30)
    assert grace > kit.drain_seconds + kit.session_timeout_seconds


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_container_has_the_least_privileges(folder: str) -> None:
    for workload in workloads(folder):
        pod = pod_of(workload)
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"cpu", "memory"} == container["resources"]["requests"].keys()
            # No CPU limit: a throttled decision is late.
            assert {"memory"} == container["resources"]["limits"].keys()
            assert container["image"] == IMAGE


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_mount_has_a_volume_and_writable_volumes_are_bounded(folder: str) -> None:
    for workload in workloads(folder):
        pod = pod_of(workload)
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        (container,) = pod["containers"]
        mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
        assert mounts.keys() == volumes.keys()
        assert mounts["tmp"]["mountPath"] == "/tmp"  # noqa: S108
        assert mounts["kernels"]["mountPath"] == "/var/cache/hirl"
        for name, volume in volumes.items():
            writable = "emptyDir" in volume
            assert writable == (name in {"tmp", "kernels"}) == (not mounts[name].get("readOnly"))
            if writable:
                assert volume["emptyDir"]["sizeLimit"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_workload_has_a_token_or_a_role(folder: str) -> None:
    accounts = of_kind(folder, "ServiceAccount")
    assert all(account["automountServiceAccountToken"] is False for account in accounts)
    used = {pod_of(workload)["serviceAccountName"] for workload in workloads(folder)}
    assert used == set(map(named, accounts))
    kinds = {found["kind"] for found in manifests(folder)}
    assert not kinds & {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "Secret"}


@pytest.mark.parametrize("folder", ["base", SIMULATED])
def test_probes_use_the_paths_and_the_port_of_the_kit(folder: str) -> None:
    for workload in workloads(folder):
        (container,) = pod_of(workload)["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        simulated = named(workload) == "simcluster"
        assert ports == ({"api": SIMULATED_PORT} if simulated else {"metrics": PORT})
        paths = {kind: container[kind]["httpGet"]["path"] for kind in container if "Probe" in kind}
        # The simulated cluster must not be restarted, so it has no liveness probe.
        liveness = {} if simulated else {"livenessProbe": "/healthz"}
        assert paths == {"startupProbe": "/healthz", "readinessProbe": "/readyz", **liveness}
        for kind in paths:
            assert container[kind]["httpGet"]["port"] in ports


def test_the_liveness_probe_is_at_least_as_patient_as_the_kits_silence_limit() -> None:
    for workload in of_kind("base", "Deployment"):
        (container,) = pod_of(workload)["containers"]
        probe = container["livenessProbe"]
        assert probe["periodSeconds"] * probe["failureThreshold"] >= KitSettings().silence_seconds


@pytest.mark.parametrize("folder", ["base", SIMULATED])
def test_names_and_labels_agree(folder: str) -> None:
    pods = {
        named(workload): workload["spec"]["template"]["metadata"]["labels"]
        for workload in workloads(folder)
    }
    for workload in of_kind(folder, "Deployment"):
        selected = workload["spec"]["selector"]["matchLabels"]
        assert selected == {NAME: named(workload)}
        assert selected.items() <= pods[named(workload)].items()
    for service in of_kind(folder, "Service"):
        assert service["spec"]["selector"] == {NAME: named(service)}
        assert service["spec"]["selector"].items() <= pods[named(service)].items()
        (port,) = service["spec"]["ports"]
        (container,) = pod_of(deployment(folder, named(service)))["containers"]
        assert port["targetPort"] in {one["name"] for one in container["ports"]}
    for budget in of_kind(folder, "PodDisruptionBudget"):
        assert budget["spec"]["selector"]["matchLabels"] == {NAME: named(budget)}
    assert {named(one) for one in of_kind(folder, "Service")} == pods.keys()


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_object_is_in_the_namespace_and_labelled_as_part_of_hirl(folder: str) -> None:
    for found in manifests(folder):
        assert found["metadata"]["labels"]["app.kubernetes.io/part-of"] == "hirl-scale"
        if found["kind"] == "Namespace":
            assert named(found) == "hirl"
            enforced = found["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
            assert enforced == "restricted"
        elif found["kind"] != "PriorityClass":
            assert found["metadata"]["namespace"] == "hirl"


@pytest.mark.parametrize("folder", ["base", SIMULATED])
def test_every_service_can_be_scraped(folder: str) -> None:
    for service in of_kind(folder, "Service"):
        if named(service) != "simcluster":
            assert service["metadata"]["annotations"] == {
                "prometheus.io/scrape": "true",
                "prometheus.io/port": str(PORT),
                "prometheus.io/path": "/metrics",
            }


def test_services_with_one_state_for_the_cluster_have_one_process_even_in_a_rollout() -> None:
    for name in BY_CLUSTER | {"collector"}:
        spec = deployment(SIMULATED, name)["spec"]
        # The provisioner needs a real cluster, whose overlay starts it.
        count = 0 if name == "provisioner" else 1
        assert (spec["replicas"], spec["strategy"]) == (count, {"type": "Recreate"})


def test_services_by_domain_are_replaced_one_by_one_and_have_disruption_budgets() -> None:
    for name in BY_DOMAIN:
        spec = deployment(SIMULATED, name)["spec"]
        assert spec["replicas"] == 2
        assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert {named(one) for one in of_kind("base", "PodDisruptionBudget")} == BY_DOMAIN


def test_pods_of_ours_go_first_and_apart() -> None:
    (priority,) = of_kind("base", "PriorityClass")
    assert priority["value"] > 0
    for workload in of_kind("base", "Deployment"):
        pod = pod_of(workload)
        assert pod["priorityClassName"] == named(priority)
        spread = pod.get("topologySpreadConstraints", [])
        assert bool(spread) == (named(workload) in BY_DOMAIN)
        for one in spread:
            # A cluster of one node or one zone must still run them.
            assert one["whenUnsatisfiable"] == "ScheduleAnyway"
            assert one["labelSelector"]["matchLabels"] == {NAME: named(workload)}


def test_scopes_are_those_of_the_handlers() -> None:
    from services._kit.handler import Handler
    from services.actuator.decide import ActuatorHandler
    from services.aggregator.decide import AggregatorHandler
    from services.breaker.decide import BreakerHandler
    from services.commander.decide import CommanderHandler
    from services.forecaster.decide import ForecasterHandler
    from services.provisioner.decide import ProvisionerHandler
    from services.soldier.decide import SoldierHandler

    handlers: list[type[Handler[Any]]] = [
        ActuatorHandler, AggregatorHandler, BreakerHandler, CommanderHandler, ForecasterHandler,
        ProvisionerHandler, SoldierHandler,
    ]  # fmt: skip
    assert {one.name for one in handlers if one.scope == "domain"} == BY_DOMAIN
    assert {one.name for one in handlers if one.scope == "cluster"} == BY_CLUSTER


def test_the_base_runs_no_actuator_and_its_mode_is_preview() -> None:
    actuator = deployment("base", "actuator")
    assert actuator["spec"]["replicas"] == 0
    assert deployed("base", actuator).environment["HIRL_ACTUATOR_MODE"] == "preview"


def test_the_simulated_cluster_is_never_restarted() -> None:
    job = deployment(SIMULATED, "simcluster")
    assert job["kind"] == "Job"
    assert job["spec"]["backoffLimit"] == 0
    assert pod_of(job)["restartPolicy"] == "Never"


def test_only_the_collector_and_the_actuator_can_reach_the_simulated_cluster() -> None:
    policies = {named(one): one["spec"] for one in of_kind(SIMULATED, "NetworkPolicy")}
    (rule,) = policies["simcluster"]["ingress"]
    (origin,) = rule["from"]
    (match,) = origin["podSelector"]["matchExpressions"]
    assert match == {"key": NAME, "operator": "In", "values": ["collector", "actuator"]}


def test_pods_reach_only_dns_and_kafka_and_the_collector_prometheus() -> None:
    policies = {named(one): one["spec"] for one in of_kind("base", "NetworkPolicy")}
    assert policies["deny-all"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    reached = {
        name: {port["port"] for rule in spec.get("egress", ()) for port in rule["ports"]}
        for name, spec in policies.items()
    }
    settings = deployed("base", deployment("base", "collector")).environment
    kafka = int(settings["HIRL_KAFKA_BOOTSTRAP"].rpartition(":")[2])
    prometheus = int(settings["HIRL_COLLECTOR_URL"].rpartition(":")[2])
    assert reached["bus"] == {53, kafka}
    assert reached["collector"] == {prometheus}
    (scraped,) = policies["metrics"]["ingress"]
    assert [port["port"] for port in scraped["ports"]] == [PORT]
    # Every rule names who is at the other end: an empty selector would be everybody.
    for spec in policies.values():
        for rule in (*spec.get("egress", ()), *spec.get("ingress", ())):
            assert rule.get("to") or rule.get("from")


@pytest.mark.parametrize("folder", ["base", SIMULATED])
def test_each_service_has_its_own_kafka_credentials(folder: str) -> None:
    for workload in workloads(folder):
        (container,) = pod_of(workload)["containers"]
        secrets = {one["valueFrom"]["secretKeyRef"]["name"] for one in container["env"]}
        user = "provisioner" if named(workload) == "simcluster" else named(workload)
        assert f"hirl-kafka-{user}" in secrets
        assert user in principals()
        # Its own besides, such as the token of a metric source, but nobody else's.
        assert all(name.endswith(f"-{user}") for name in secrets)


def test_the_topics_job_runs_an_existing_command_with_admin_credentials() -> None:
    job = deployment("topics", "topics")
    (container,) = pod_of(job)["containers"]
    assert container["command"] == ["hirl", "topics", "apply", "--acls"]
    assert container["envFrom"] == [{"secretRef": {"name": "hirl-kafka-admin"}}]
    assert "topics apply" in COMMANDS
