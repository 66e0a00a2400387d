"""A secured broker refuses what schemas/topics.py does not allow."""

import asyncio
import stat

import pytest
from kafka.errors import GroupAuthorizationFailedError, TopicAuthorizationFailedError

from models.inputs.errors import InputError
from schemas.codec import Record
from schemas.topics import app_id
from services._kit.kafka import KafkaWriter
from services._kit.kafka_python import KafkaConsumer, KafkaProducer
from services._kit.settings import load
from services._kit.state_records import StateRecord
from services._kit.transactions import NoTransactions
from services.admin import broker, client, credentials, reconcile
from services.admin.credentials import read_credentials
from services.admin.desired import Permission
from services.devcluster.connect import Running
from services.devcluster.kafka import security
from services.devcluster.kafka.security import credentials_file
from services.devcluster.kafka.storage import log_file
from tests.kit_example_helpers import ExampleSettings

BUDGETS = "hirl.budget-granted.v1"
APPLIED = "hirl.scale-applied.v1"
WAIT_S = 10


def _send(kafka: Running, user: str, topic: str) -> int:
    # Not `with`: closing would wait for records that the broker has refused.
    producer = KafkaProducer(**kafka.options(user), acks="all", max_block_ms=10_000)
    try:
        return int(producer.send(topic, key=b"payments", value=b"{}").get(WAIT_S).offset)
    finally:
        producer.close(timeout=1)


@pytest.mark.parametrize(("user", "topic"), [("commander", BUDGETS), ("actuator", APPLIED)])
def test_the_producer_of_a_topic_may_write_to_it(
    secure_kafka: Running, user: str, topic: str
) -> None:
    assert _send(secure_kafka, user, topic) >= 0


@pytest.mark.parametrize(
    ("user", "topic"), [("soldier", BUDGETS), ("operator", BUDGETS), ("commander", APPLIED)]
)
def test_the_broker_refuses_all_other_writers(secure_kafka: Running, user: str, topic: str) -> None:
    with pytest.raises(TopicAuthorizationFailedError):
        _send(secure_kafka, user, topic)


def test_a_consumer_reads_in_its_own_group_and_in_no_other(secure_kafka: Running) -> None:
    _send(secure_kafka, "commander", BUDGETS)
    options = {"auto_offset_reset": "earliest", "consumer_timeout_ms": WAIT_S * 1000}
    own = secure_kafka.options("soldier") | options
    with KafkaConsumer(BUDGETS, **own, group_id=app_id("soldier")) as consumer:
        # Other tests write to the same broker.
        assert any(record.key == b"payments" for record in consumer)
    with (
        KafkaConsumer(BUDGETS, **own, group_id=app_id("actuator")) as consumer,
        pytest.raises(GroupAuthorizationFailedError),
    ):
        next(consumer)


async def _commit(kafka: Running, user: str, service: str, topic: str) -> None:
    settings, _ = load(user, ExampleSettings, read_credentials(credentials_file(kafka.home, user)))
    writer = KafkaWriter(service, settings, by_domain=False)
    await writer.start()
    try:
        await writer.own([0])
        record = Record(topic, b"payments", b"{}", ())
        await writer.commit([record], {"cluster": StateRecord(b"{}")}, None)
    finally:
        await writer.stop()


def test_a_service_commits_under_its_own_transactional_ids(secure_kafka: Running) -> None:
    asyncio.run(_commit(secure_kafka, "commander", "commander", BUDGETS))


def test_no_service_can_fence_another_one(secure_kafka: Running) -> None:
    with pytest.raises(NoTransactions, match=r"hirl-commander-cluster: run `hirl topics apply"):
        asyncio.run(_commit(secure_kafka, "soldier", "commander", BUDGETS))


def test_no_service_may_create_topics(secure_kafka: Running) -> None:
    admin = client.admin(secure_kafka.options("commander"))
    try:
        with pytest.raises(TopicAuthorizationFailedError):
            admin.create_topics({f"{app_id('commander')}-changelog": {"num_partitions": 1}})
    finally:
        admin.close()


def test_a_wrong_password_is_refused(secure_kafka: Running) -> None:
    wrong = secure_kafka.options("commander") | {"sasl_plain_password": "guessed"}
    with pytest.raises(InputError, match="is the password right"):
        client.admin(wrong, timeout_ms=2_000)
    # From the broker's log: the client only sees a closed connection.
    log = log_file(secure_kafka.home, secure_kafka.cluster.nodes[0]).read_text()
    assert "invalid credentials with SASL mechanism SCRAM-SHA-512" in log


def test_a_connection_without_tls_is_refused(secure_kafka: Running) -> None:
    with pytest.raises(InputError):
        client.admin(credentials.options(secure_kafka.bootstrap), timeout_ms=1_000)


def test_secrets_are_readable_by_their_owner_only(secure_kafka: Running) -> None:
    files = [security.credentials_file(secure_kafka.home, user) for user in security.users()]
    files += [security.key_store_file(secure_kafka.home), secure_kafka.home / "tls" / "ca.key"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_an_unexpected_permission_is_reported_and_kept(secure_kafka: Running) -> None:
    planted = Permission("soldier", "WRITE", "topic", BUDGETS)
    admin = client.admin(secure_kafka.options())
    try:
        assert reconcile.compare(admin, acls=True).differences == []
        broker.grant(admin, [planted])
        # apply doesn't remove it: it may be intended.
        (difference,) = reconcile.apply_to(admin, acls=True).differences
        assert difference.subject == f"acl {planted}"
    finally:
        admin.delete_acls([broker._acl(planted)])
        admin.close()
