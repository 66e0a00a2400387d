"""Orders of operators on a real, secured Kafka: issued, listed, lifted and audited."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from models.inputs.errors import InputError
from schemas.app_declared import AppDeclared
from schemas.codec import encode
from schemas.fields import Event
from schemas.override_issued import OverrideIssued
from schemas.scale_applied import ScaleApplied
from services._kit.clock import rfc3339
from services._kit.kafka_python import KafkaProducer
from services.admin.orders import publish
from services.cli.main import EXIT_BAD_INPUT, run
from services.devcluster.connect import Running
from services.devcluster.kafka.security import credentials_file

DOMAIN = "orders-test"
Call = Callable[..., int]


def send(kafka: Running, user: str, *events: Event) -> None:
    producer = KafkaProducer(**kafka.options(user), acks="all", max_block_ms=10_000)
    for event in events:
        for one in encode(event, user):
            sent = producer.send(one.topic, key=one.key, value=one.value, headers=list(one.headers))
            sent.get(10)
    producer.close(timeout=1)


@pytest.fixture
def call(secure_kafka: Running) -> Call:
    def as_user(*words: str, user: str = "operator") -> int:
        file = credentials_file(secure_kafka.home, user)
        return run([*words, "--credentials", str(file)])

    return as_user


def listed(call: Call, tmp_path: Path, *words: str) -> Any:
    file = tmp_path / "found.json"
    assert call("override", *words, "--json", str(file)) == 0
    return json.loads(file.read_text())


def test_an_order_is_issued_listed_audited_and_lifted_by_its_authenticated_author(
    secure_kafka: Running, call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    apps = [AppDeclared(app=f"{DOMAIN}-{n}", domain=DOMAIN, ordinal=n) for n in range(3)]
    send(secure_kafka, "collector", *apps)
    order = ("override", "pause", "--domain", DOMAIN, "--reason", "a test", "--for", "1h")
    assert call(*order, "--preview") == 0
    assert "would order: pause all for domain orders-test (3 apps)" in capsys.readouterr().out
    assert not listed(call, tmp_path, "list")["in_force"]
    assert call(*order) == 0
    floor = ("override", "floor", "2", "--domain", DOMAIN, "--reason", "a test")
    assert call(*floor) == 0
    (first, second) = listed(call, tmp_path, "list")["in_force"]
    assert {first["order"], second["order"]} == {"pause", "floor"}
    assert (first["issued_by"], first["authenticated"]) == ("operator", True)
    pause = first if first["order"] == "pause" else second
    send(secure_kafka, "actuator", _applied(pause["order_id"]))
    found = listed(call, tmp_path, "history")
    held = [one["held"] for one in found if one["order"]["order_id"] == pause["order_id"]]
    assert held == [1]
    assert call("override", "resume", "--domain", DOMAIN, "--reason", "done") == 0
    assert [one["order"] for one in listed(call, tmp_path, "list")["in_force"]] == ["floor"]
    assert call("override", "lift", "--domain", DOMAIN, "--reason", "done") == 0
    assert not listed(call, tmp_path, "list")["in_force"]


def test_other_principals_may_neither_issue_orders_nor_read_what_they_touch(
    secure_kafka: Running, call: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    send(secure_kafka, "collector", AppDeclared(app="other-0", domain="other", ordinal=0))
    words = ("override", "freeze", "--domain", "other", "--reason", "a test")
    assert call(*words, user="actuator") == EXIT_BAD_INPUT
    assert "may not read" in capsys.readouterr().err
    order = OverrideIssued(scope="other", kind="domain", order="freeze", pause="all")
    with pytest.raises(InputError, match="was not sent"):
        publish(secure_kafka.options("actuator"), [order])


def _applied(order_id: str) -> ScaleApplied:
    return ScaleApplied(
        tick=1, time=rfc3339(time.time()), domain=DOMAIN, decision_id="d", epoch=1,
        apps=[f"{DOMAIN}-0"], outcomes=["held"], reasons=["paused"], replicas=[1],
        cpu_request=[1], memory_request=[1], replicas_before=[1], orders=[order_id],
    )  # fmt: skip
