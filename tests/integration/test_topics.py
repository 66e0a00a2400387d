"""`hirl topics apply` and `check` on a real broker."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka.admin import ConfigResource, ConfigResourceType
from typer.testing import CliRunner

from schemas.topics import DOMAIN_PARTITIONS, TOPICS
from services._kit.kafka_python import KafkaAdminClient
from services.admin import broker, client, reconcile
from services.admin.desired import STATEFUL, Permission, desired_permissions, desired_topics
from services.admin.reconcile import permission_differences
from services.cli.bus.topics import EXIT_DIFFERENT
from services.cli.main import app_of
from services.devcluster.connect import Running


@pytest.fixture
def admin(kafka: Running) -> Iterator[KafkaAdminClient]:
    connection = client.admin(kafka.options())
    yield connection
    connection.close()


def _hirl_topics(kafka: Running, *arguments: str) -> tuple[int, list[str]]:
    result = CliRunner().invoke(
        app_of(lambda name: name.startswith("topics")),
        ["topics", *arguments, "--bootstrap", kafka.bootstrap],
    )
    return result.exit_code, result.output.splitlines()


def _wait_for_partitions(admin: KafkaAdminClient, name: str, partitions: int | None) -> None:
    """A broker lags behind its controller; None waits until the topic is gone."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        topic = broker.read_topics(admin).get(name)
        if (topic.partitions if topic else None) == partitions:
            return
        time.sleep(0.1)
    pytest.fail(f"{name} does not have {partitions} partitions")


def test_applied_topics_have_no_differences(kafka: Running, tmp_path: Path) -> None:
    figures = tmp_path / "check.json"
    count = len(TOPICS) + len(STATEFUL)
    result = _hirl_topics(kafka, "check", "--json", str(figures))
    assert result == (0, [f"{count} topics: 0 difference(s)"])
    assert json.loads(figures.read_text())["differences"] == []


def test_topics_on_the_broker_have_the_desired_settings(admin: KafkaAdminClient) -> None:
    found = broker.read_topics(admin)
    budgets = found["hirl.budget-granted.v1"]
    assert budgets.partitions == DOMAIN_PARTITIONS
    assert budgets.configs["cleanup.policy"] == "compact"
    assert budgets.configs["max.message.bytes"] == "1048576"
    assert found["hirl.scale-applied.v1"].configs["retention.ms"] == str(30 * 24 * 3_600_000)
    assert found["hirl.state-soldier.v1"].configs["cleanup.policy"] == "compact"


def test_drift_is_reported_line_by_line_and_fixed(kafka: Running, admin: KafkaAdminClient) -> None:
    applied = ConfigResource(
        ConfigResourceType.TOPIC, "hirl.scale-applied.v1", {"retention.ms": "1000"}
    )
    admin.alter_configs([applied])
    admin.delete_topics(["hirl.rejected.v1"])
    _wait_for_partitions(admin, "hirl.rejected.v1", None)
    drift = [
        "hirl.scale-applied.v1: retention.ms is 1000, expected 2592000000",
        "hirl.rejected.v1: missing",
    ]

    code, lines = _hirl_topics(kafka, "check")
    assert code == EXIT_DIFFERENT
    assert lines[:-1] == [f"differs  {line}" for line in drift]
    code, lines = _hirl_topics(kafka, "apply")
    assert code == 0
    assert lines[:-1] == [f"fixed    {drift[0]}", "created  hirl.rejected.v1"]
    assert _hirl_topics(kafka, "check")[0] == 0


def test_another_number_of_partitions_is_reported_and_left_alone(admin: KafkaAdminClient) -> None:
    name = "hirl.demand-forecast.v1"
    wanted = next(topic for topic in desired_topics(1) if topic.name == name)
    # Partitions can't be removed, so create the topic again with fewer.
    admin.delete_topics([name])
    _wait_for_partitions(admin, name, None)
    admin.create_topics({name: {"num_partitions": 2, "configs": wanted.configs}})
    _wait_for_partitions(admin, name, 2)
    try:
        outcome = reconcile.apply_to(admin)
        (difference,) = outcome.differences
        assert str(difference).startswith(f"{name}: 2 partition(s), expected {DOMAIN_PARTITIONS}")
        assert broker.read_topics(admin)[name].partitions == 2
    finally:
        admin.delete_topics([name])
        _wait_for_partitions(admin, name, None)
        assert reconcile.apply_to(admin).differences == []


def test_with_three_copies_two_must_have_a_record() -> None:
    assert {topic.configs["min.insync.replicas"] for topic in desired_topics(3)} == {"2"}
    assert {topic.configs["min.insync.replicas"] for topic in desired_topics(1)} == {"1"}


def test_only_the_commander_writes_budgets_and_only_the_actuator_writes_applied() -> None:
    writers = {
        (one.name, one.user) for one in desired_permissions() if one[1:3] == ("WRITE", "topic")
    }
    assert {user for name, user in writers if name == "hirl.budget-granted.v1"} == {"commander"}
    assert {user for name, user in writers if name == "hirl.scale-applied.v1"} == {"actuator"}
    assert not any(
        one.pattern == "prefixed" and "hirl.".startswith(one.name) for one in desired_permissions()
    )


@pytest.mark.parametrize(
    "surplus",
    [
        Permission("soldier", "WRITE", "topic", "hirl.budget-granted.v1"),
        Permission("*", "ALL", "topic", "*"),
        Permission("stranger", "ALTER", "topic", "hi", "prefixed"),
        Permission("commander", "DENY WRITE", "topic", "hirl.budget-granted.v1"),
        Permission("forecaster", "WRITE", "transactional-id", "hirl-commander-cluster"),
        Permission("stranger", "ALL", "transactional-id", "h", "prefixed"),
        # With it the offsets of the actuator can be moved past plans.
        Permission("soldier", "READ", "group", "hirl-actuator"),
        Permission("finance", "READ", "group", "*"),
        Permission("finance", "READ", "group", "hirl-", "prefixed"),
    ],
)
def test_an_unexpected_permission_to_write_is_a_difference(surplus: Permission) -> None:
    wanted = desired_permissions()
    (difference,) = permission_differences(wanted, [*wanted, surplus])
    assert not difference.mendable


def test_other_systems_may_subscribe() -> None:
    wanted = desired_permissions()
    subscriber = Permission("finance", "READ", "topic", "hirl.budget-granted.v1")
    group = Permission("finance", "READ", "group", "hirl-finance", "prefixed")
    elsewhere = Permission("finance", "WRITE", "topic", "finance.bills")
    assert list(permission_differences(wanted, [*wanted, subscriber, group, elsewhere])) == []
