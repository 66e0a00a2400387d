"""`hirl state` on a real broker: who may look, who may order, and what is written."""

from uuid import uuid4

import numpy as np
import pytest

from models.cluster.arrays import F32
from models.inputs.errors import InputError
from schemas.state_reset import StateReset
from schemas.topics import state_topic
from services._kit.kafka_python import KafkaProducer
from services._kit.state_codec import encode
from services._kit.state_records import state_records
from services.admin.reader import TopicReader
from services.admin.states import order_reset, read_state
from services.cli.main import run
from services.devcluster.connect import Running
from services.forecaster.progress import no_minutes

SERVICE = "soldier"


def save(kafka: Running, key: str, rps: F32) -> bytes:
    """Save a state as its service does."""
    data = encode(no_minutes(5)._replace(rps=rps))
    producer = KafkaProducer(**kafka.options())
    for name, record in state_records(key, data).items():
        sent = producer.send(
            state_topic(SERVICE), record.value, key=name.encode(), headers=list(record.headers)
        )
        sent.get(timeout=30)
    producer.close()
    return data


DEFLATED = np.ones((5, 20_000), np.float32)
IN_PARTS = np.random.default_rng(0).random((5, 200_000), np.float32)


@pytest.mark.parametrize(("rps", "parts"), [(DEFLATED, 1), (IN_PARTS, 4)])
def test_a_saved_state_is_shown_and_its_reset_ordered(
    kafka: Running, capsys: pytest.CaptureFixture[str], rps: F32, parts: int
) -> None:
    key = f"domain-{uuid4().hex[:8]}"
    data = save(kafka, key, rps)
    assert len(state_records(key, data)) == parts
    assert run(["state", "show", SERVICE, key, "--bootstrap", kafka.bootstrap]) == 0
    shown = capsys.readouterr().out
    assert f"{len(data):,} bytes" in shown
    assert f'rps: {{"array":"float32 {rps.shape}"' in shown
    order = ["state", "reset", SERVICE, key, "--reason", "a test", "--bootstrap", kafka.bootstrap]
    assert run(order) == 0
    with TopicReader(kafka.options()) as reader:
        orders = [one for one in reader.read_all(StateReset) if one.key == key]
    assert [(one.service, one.reason) for one in orders] == [(SERVICE, "a test")]
    assert orders[0].issued_by.endswith("(not authenticated)")


def test_a_state_that_does_not_exist_is_neither_shown_nor_reset(
    kafka: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--bootstrap", kafka.bootstrap]
    assert run(["state", "show", SERVICE, "nowhere", *at]) == 2
    assert run(["state", "reset", SERVICE, "nowhere", "--reason", "a test", *at]) == 2
    assert "no saved state of nowhere" in capsys.readouterr().err


def test_only_the_operator_may_order_a_reset(secure_kafka: Running) -> None:
    key = f"domain-{uuid4().hex[:8]}"
    data = save(secure_kafka, key, DEFLATED)
    operator = secure_kafka.options("operator")
    assert read_state(operator, SERVICE, key) == data
    order = order_reset(operator, SERVICE, key, "a test", 1.79e9)
    assert order.issued_by == "operator"
    with pytest.raises(InputError, match="cannot write"):
        order_reset(secure_kafka.options(SERVICE), SERVICE, key, "not allowed", 1.79e9)
