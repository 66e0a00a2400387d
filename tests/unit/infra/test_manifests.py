"""The manifests start what runs as local processes, with no rights, and agree with each other."""

from typing import Any

import pytest

from services._kit.settings import KitSettings
from services.admin.desired import services as principals
from services.cli.commands import COMMANDS
from tests.unit.infra.deploy_helpers import (
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
BY_DOMAIN = {"aggregator", "soldier", "actuator", "breaker"}
BY_CLUSTER = {"forecaster", "commander"}


def named(found: dict[str, Any]) -> str:
    return str(found["metadata"]["name"])


def deployment(folder: str, name: str) -> dict[str, Any]:
    (found,) = [one for one in workloads(folder) if named(one) == name]
    return found


def test_every_service_is_deployed_and_the_simulated_cluster_only_where_it_is_wanted() -> None:
    base = sorted(map(named, workloads("base")))
    assert base == [name for name in SERVICES if name != "simcluster"]
    assert sorted(map(named, workloads(SIMULATED))) == SERVICES


@pytest.mark.parametrize(
    ("folder", "name"),
    [("base", name) for name in SERVICES if name != "simcluster"]
    + [(SIMULATED, name) for name in SERVICES],
)
def test_a_service_starts_with_the_command_and_environment_of_its_pod(
    folder: str, name: str
) -> None:
    kit = start(deployed(folder, deployment(folder, name)))
    assert (kit.metrics_host, kit.metrics_port) == ("0.0.0.0", PORT)  # noqa: S104
    assert kit.kafka_security == "SASL_SSL"
    assert kit.kafka_user
    assert kit.kafka_password
    assert not kit.instance, "pods of a Deployment have no lasting names"
    pod = pod_of(deployment(folder, name))
    grace = pod.get("terminationGracePeriodSeconds", 30)
    assert grace > kit.drain_seconds + kit.session_timeout_seconds


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_container_may_do_nothing_that_it_need_not(folder: str) -> None:
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
            assert {"memory"} == container["resources"]["limits"].keys()
            assert container["image"] == IMAGE


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_mounted_exists_and_the_writable_places_are_bounded(folder: str) -> None:
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
def test_nobody_has_a_token_or_a_role(folder: str) -> None:
    accounts = of_kind(folder, "ServiceAccount")
    assert all(account["automountServiceAccountToken"] is False for account in accounts)
    used = {pod_of(workload)["serviceAccountName"] for workload in workloads(folder)}
    assert used == set(map(named, accounts))
    kinds = {found["kind"] for found in manifests(folder)}
    assert not kinds & {"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "Secret"}


@pytest.mark.parametrize("folder", ["base", SIMULATED])
def test_probes_ask_what_the_kit_answers_at_its_port(folder: str) -> None:
    for workload in workloads(folder):
        (container,) = pod_of(workload)["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        simulated = named(workload) == "simcluster"
        assert ports == ({"api": SIMULATED_PORT} if simulated else {"metrics": PORT})
        paths = {kind: container[kind]["httpGet"]["path"] for kind in container if "Probe" in kind}
        liveness = {} if simulated else {"livenessProbe": "/healthz"}
        assert paths == {"startupProbe": "/healthz", "readinessProbe": "/readyz", **liveness}
        for kind in paths:
            assert container[kind]["httpGet"]["port"] in ports


def test_a_service_is_given_up_later_than_it_calls_itself_stuck() -> None:
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
def test_everything_is_in_one_namespace_and_part_of_one_thing(folder: str) -> None:
    for found in manifests(folder):
        assert found["metadata"]["labels"]["app.kubernetes.io/part-of"] == "hirl-scale"
        if found["kind"] == "Namespace":
            assert named(found) == "hirl"
            enforced = found["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
            assert enforced == "restricted"
        else:
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


def test_what_has_one_state_for_the_cluster_has_one_process_that_is_never_doubled() -> None:
    for name in BY_CLUSTER | {"collector"}:
        spec = deployment(SIMULATED, name)["spec"]
        assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_what_is_shared_by_domain_is_replaced_one_by_one_and_protected_from_draining() -> None:
    for name in BY_DOMAIN:
        spec = deployment(SIMULATED, name)["spec"]
        assert spec["replicas"] == 2
        assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert {named(one) for one in of_kind("base", "PodDisruptionBudget")} == BY_DOMAIN


def test_scopes_are_those_of_the_handlers() -> None:
    from services._kit.handler import Handler
    from services.actuator.decide import ActuatorHandler
    from services.aggregator.decide import AggregatorHandler
    from services.breaker.decide import BreakerHandler
    from services.commander.decide import CommanderHandler
    from services.forecaster.decide import ForecasterHandler
    from services.soldier.decide import SoldierHandler

    handlers: list[type[Handler[Any]]] = [
        ActuatorHandler, AggregatorHandler, BreakerHandler, CommanderHandler, ForecasterHandler,
        SoldierHandler,
    ]  # fmt: skip
    assert {one.name for one in handlers if one.scope == "domain"} == BY_DOMAIN
    assert {one.name for one in handlers if one.scope == "cluster"} == BY_CLUSTER


def test_without_a_target_there_is_no_actuator_and_nothing_is_changed() -> None:
    actuator = deployment("base", "actuator")
    assert actuator["spec"]["replicas"] == 0
    assert deployed("base", actuator).environment["HIRL_ACTUATOR_MODE"] == "preview"


def test_a_world_that_died_is_not_started_again() -> None:
    job = deployment(SIMULATED, "simcluster")
    assert job["kind"] == "Job"
    assert job["spec"]["backoffLimit"] == 0
    assert pod_of(job)["restartPolicy"] == "Never"


def test_the_simulated_cluster_is_reached_by_who_measures_it_and_writes_to_it_only() -> None:
    (policy,) = of_kind(SIMULATED, "NetworkPolicy")
    (rule,) = policy["spec"]["ingress"]
    (origin,) = rule["from"]
    (match,) = origin["podSelector"]["matchExpressions"]
    assert match == {"key": NAME, "operator": "In", "values": ["collector", "actuator"]}


@pytest.mark.parametrize("folder", ["base", SIMULATED])
def test_each_service_has_the_credentials_of_its_own_name_at_kafka(folder: str) -> None:
    for workload in workloads(folder):
        (container,) = pod_of(workload)["containers"]
        secrets = {one["valueFrom"]["secretKeyRef"]["name"] for one in container["env"]}
        user = "provisioner" if named(workload) == "simcluster" else named(workload)
        assert secrets == {f"hirl-kafka-{user}"}
        assert user in principals()


def test_topics_are_made_by_a_command_that_exists_with_an_administrators_credentials() -> None:
    job = deployment("topics", "topics")
    (container,) = pod_of(job)["containers"]
    assert container["command"] == ["hirl", "topics", "apply", "--acls"]
    assert container["envFrom"] == [{"secretRef": {"name": "hirl-kafka-admin"}}]
    assert "topics apply" in COMMANDS
