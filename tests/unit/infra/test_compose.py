"""docker-compose.yml starts the same services as `hirl up`, with the least privileges."""

import re
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from services._kit.errors import BadSettings
from services.devcluster.request import Request
from services.devcluster.specs import DECIDING
from tests.unit.infra.deploy_helpers import (
    BESIDE_SIMULATED,
    COMPOSE,
    IMAGE,
    PORT,
    ROOT,
    SIMULATED_PORT,
    USER,
    Container,
    compose,
    composed,
    settings_of,
    start,
)

Seconds = Annotated[str, Meta(pattern=r"^\d+s$")]


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    """The part of the Compose specification that this file uses; unknown keys are errors."""


class Check(Strict):
    test: Annotated[list[str], Meta(min_length=2)] = []
    disable: bool = False
    interval: Seconds = "30s"
    timeout: Seconds = "30s"
    start_period: Seconds = "0s"
    retries: int = 3


class Awaited(Strict):
    condition: Literal["service_healthy", "service_completed_successfully", "service_started"]


class Build(Strict):
    context: str
    dockerfile: str


class Logging(Strict):
    driver: str
    options: dict[str, str]


class Service(Strict, kw_only=True):
    image: str
    build: Build | None = None
    pull_policy: Literal["never", "build", "always", "missing"] = "missing"
    command: list[str] = []
    environment: dict[str, str] = {}
    user: str = ""
    init: bool = False
    read_only: bool = False
    tmpfs: list[str] = []
    volumes: list[str] = []
    ports: list[str] = []
    depends_on: dict[str, Awaited] = {}
    restart: Annotated[str, Meta(pattern=r"^(no|always|unless-stopped|on-failure(:\d+)?)$")]
    stop_grace_period: Seconds = "10s"
    healthcheck: Check
    cap_drop: list[str]
    security_opt: list[str]
    pids_limit: int
    cpus: float
    mem_limit: Annotated[str, Meta(pattern=r"^\d+[mg]$")]
    logging: Logging


class File(Strict):
    name: str
    services: dict[str, Service]
    volumes: dict[str, None]


def parsed() -> File:
    standard: dict[str, Any] = {
        key: value for key, value in compose().items() if not key.startswith("x-")
    }
    return msgspec.convert(standard, File)


FILE = parsed()
OURS = [name for name, service in FILE.services.items() if service.image == IMAGE]


def test_every_service_and_no_other_runs_beside_kafka_topics_and_prometheus() -> None:
    assert sorted(FILE.services) == sorted([*BESIDE_SIMULATED, "kafka", "topics", "prometheus"])
    assert sorted(OURS) == sorted([*BESIDE_SIMULATED, "topics"])


@pytest.mark.parametrize("name", BESIDE_SIMULATED)
def test_a_service_starts_with_the_command_and_environment_of_its_container(name: str) -> None:
    kit = start(composed(name))
    assert (kit.metrics_host, kit.metrics_port) == ("0.0.0.0", PORT)  # noqa: S104
    assert kit.kafka_bootstrap == "kafka:9092"
    assert not kit.instance, "two containers of one instance would fence each other"


def test_a_misspelt_variable_is_refused() -> None:
    good = composed("soldier")
    bad = Container(good.name, good.command, good.environment | {"HIRL_METRIC_PORT": "1"})
    with pytest.raises(BadSettings, match="metric_port"):
        start(bad)


def test_addresses_are_names_and_ports_of_other_containers() -> None:
    cluster = f"http://simcluster:{SIMULATED_PORT}"
    assert composed("collector").environment["HIRL_COLLECTOR_URL"] == cluster
    assert composed("actuator").environment["HIRL_ACTUATOR_TARGET"] == cluster
    assert composed("simcluster").environment["HIRL_SIMCLUSTER_PORT"] == str(SIMULATED_PORT)
    assert "INSIDE://kafka:9092" in FILE.services["kafka"].environment["KAFKA_ADVERTISED_LISTENERS"]


def test_the_grace_period_fits_the_speed_as_it_does_in_hirl_up() -> None:
    environment = composed("soldier").environment
    wanted = Request(speed=float(environment["HIRL_SPEED"])).grace_s
    assert float(environment["HIRL_GRACE_SECONDS"]) == wanted


@pytest.mark.parametrize("name", BESIDE_SIMULATED)
def test_a_service_is_healthy_when_it_is_ready(name: str) -> None:
    port = [str(SIMULATED_PORT)] if name == "simcluster" else []
    assert FILE.services[name].healthcheck.test == ["CMD", "probe", "/readyz", *port]


def test_the_cluster_starts_after_all_services_are_ready_for_its_first_tick() -> None:
    awaited = FILE.services["simcluster"].depends_on
    assert sorted(awaited) == sorted(DECIDING)
    assert {one.condition for one in awaited.values()} == {"service_healthy"}
    assert [*FILE.services["collector"].depends_on] == ["simcluster"]
    for name in DECIDING:
        topics = FILE.services[name].depends_on["topics"]
        assert topics.condition == "service_completed_successfully"


def test_every_dependency_exists_and_can_reach_its_condition() -> None:
    for service in FILE.services.values():
        for name, awaited in service.depends_on.items():
            other = FILE.services[name]
            if awaited.condition == "service_healthy":
                assert other.healthcheck.test
            else:
                assert other.restart.startswith("on-failure")


def test_a_check_costs_little_and_outlasts_a_start_on_a_busy_machine() -> None:
    for name in BESIDE_SIMULATED:
        check = FILE.services[name].healthcheck
        assert check.interval == "10s"
        # A failure in this time does not count, a success does.
        assert int(check.start_period.removesuffix("s")) >= 300


def test_the_image_is_built_where_it_is_missing_and_never_pulled() -> None:
    # With `build` it would be built at every start, which needs a network.
    assert {FILE.services[name].pull_policy for name in OURS} == {"never"}
    assert [name for name in OURS if FILE.services[name].build is not None] == ["topics"]


def test_the_collector_stays_after_the_scenario_like_the_cluster_does() -> None:
    for name in ("collector", "simcluster"):
        assert settings_of(composed(name))[1].linger_seconds < 0


def test_only_the_simulated_cluster_is_never_restarted() -> None:
    ends = {name: service.restart for name, service in FILE.services.items()}
    assert ends.pop("simcluster") == "no"
    assert ends.pop("topics") == "on-failure:5"
    assert set(ends.values()) == {"unless-stopped"}


@pytest.mark.parametrize("name", [*FILE.services])
def test_a_container_has_no_capabilities_and_bounded_resources(name: str) -> None:
    service = FILE.services[name]
    assert service.cap_drop == ["ALL"]
    assert service.security_opt == ["no-new-privileges:true"]
    assert 0 < service.cpus <= 2
    assert ":" in service.image, "a tag"
    assert not service.image.endswith(":latest")
    # Kafka's own start script writes into its image.
    assert service.read_only or name == "kafka"


@pytest.mark.parametrize("name", OURS)
def test_our_containers_can_write_only_to_tmp_and_the_kernel_cache(name: str) -> None:
    service = FILE.services[name]
    assert service.user == f"{USER}:{USER}"
    assert service.tmpfs == ["/tmp"]  # noqa: S108
    assert service.volumes == ["kernels:/var/cache/hirl"]


def test_ports_are_published_on_loopback_only() -> None:
    published = [port for service in FILE.services.values() for port in service.ports]
    assert len(published) == 3
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_named_volumes_are_declared_and_all_are_used() -> None:
    mounts = [mount.split(":")[0] for one in FILE.services.values() for mount in one.volumes]
    assert {mount for mount in mounts if not mount.startswith(".")} == set(FILE.volumes)
    assert all((ROOT / mount).is_dir() for mount in mounts if mount.startswith("."))


def test_containers_get_more_time_to_stop_than_a_service_needs_to_drain() -> None:
    for name in BESIDE_SIMULATED:
        grace = int(FILE.services[name].stop_grace_period.removesuffix("s"))
        assert grace > settings_of(composed(name))[0].drain_seconds


def test_the_broker_has_the_version_and_settings_of_the_embedded_one() -> None:
    kafka = FILE.services["kafka"]
    pom = (ROOT / "infra/kafka/pom.xml").read_text()
    assert f"<kafka.version>{kafka.image.removeprefix('apache/kafka:')}</kafka.version>" in pom
    embedded = (ROOT / "infra/kafka/broker.properties").read_text()
    settings = dict(re.findall(r"^([\w.]+)=(.*)$", embedded, re.MULTILINE))
    same = 0
    for variable, value in kafka.environment.items():
        name = variable.removeprefix("KAFKA_").lower().replace("_", ".")
        template = settings.get(name, "@").replace("@REPLICATION@", "1").replace("@IN_SYNC@", "1")
        if "@" not in template:
            assert value == template, name
            same += 1
    # Guards against a pattern that finds nothing to compare.
    assert same >= 14


def test_every_variable_has_a_default() -> None:
    assert "${" not in str(compose())
    # Guards against a file without variables, in which the line above is always true.
    assert COMPOSE.read_text().count("${") >= 7
