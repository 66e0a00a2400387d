"""Compare a broker's topics and ACLs with the desired ones, and fix what can be fixed."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from models.inputs.errors import InputError
from schemas.topics import app_id
from services._kit.kafka_python import KafkaAdminClient
from services.admin import broker, client
from services.admin.broker import PREFIX, ActualTopic
from services.admin.desired import (
    DesiredTopic,
    Permission,
    Resource,
    desired_permissions,
    desired_topics,
    services,
)

MOST_COPIES: Final = 3
"""Default replication, if there are as many brokers."""
MISSING: Final = "missing"
"""Text of a difference that is fixed by creating its subject."""
_IN_SYNC: Final = "min.insync.replicas"
_SETTLE_S: Final = 10.0
"""A difference that is left after this long is reported: it is not a broker that lags behind."""
_POLL_S: Final = 0.1
_DESCRIBE: Final = frozenset({"DESCRIBE", "DESCRIBE_CONFIGS"})
_HARMLESS: Final[dict[Resource, frozenset[str]]] = {
    "topic": _DESCRIBE | {"READ"},
    "transactional-id": _DESCRIBE,
    # Whoever may read as a group may move its offsets: the service would skip records.
    "group": _DESCRIBE,
}
"""Other systems may subscribe. Only permissions that let them write or change are reported."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One difference between the broker and the desired state."""

    subject: str
    text: str
    mendable: bool
    """Whether `hirl topics apply` fixes it."""

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}"


class ReconcileOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a comparison or a fix; `--json` writes it."""

    topics: int
    permissions: int
    mended: list[Difference]
    differences: list[Difference]
    """What still differs after fixing."""


@contextmanager
def connection(options: dict[str, Any]) -> Iterator[KafkaAdminClient]:
    """An administrator's connection, closed at the end of the block."""
    admin = client.admin(options)
    try:
        yield admin
    finally:
        admin.close()


def apply_to(
    admin: KafkaAdminClient, replication: int | None = None, *, acls: bool = False
) -> ReconcileOutcome:
    """Fix what can be fixed, then compare again: the outcome is what the broker has."""
    topics = _desired(admin, replication)
    before = compare(admin, replication, acls=acls)
    actual = broker.read_topics(admin)
    broker.create_topics(admin, [topic for topic in topics if topic.name not in actual])
    changes = {
        topic.name: configs_to_set(topic, actual[topic.name])
        for topic in topics
        if topic.name in actual
    }
    broker.set_configs(admin, {name: change for name, change in changes.items() if change})
    if acls:
        present = broker.read_permissions(admin)
        broker.grant(admin, missing_permissions(desired_permissions(), present))
    # What was fixed is what no longer differs, so the report shows facts and not intentions.
    after = _settled(admin, replication, acls=acls)
    mended = [one for one in before.differences if one not in after.differences]
    return msgspec.structs.replace(after, mended=mended)


def compare(
    admin: KafkaAdminClient, replication: int | None = None, *, acls: bool = False
) -> ReconcileOutcome:
    """Compare without changing anything."""
    topics = _desired(admin, replication)
    differences = list(topic_differences(topics, broker.read_topics(admin)))
    permissions = desired_permissions() if acls else ()
    if acls:
        differences += permission_differences(permissions, broker.read_permissions(admin))
    return ReconcileOutcome(
        topics=len(topics),
        permissions=len(permissions),
        mended=[],
        differences=differences,
    )


def topic_differences(
    desired: Sequence[DesiredTopic], actual: Mapping[str, ActualTopic]
) -> Iterator[Difference]:
    """Topics that are missing or have other settings."""
    for topic in desired:
        present = actual.get(topic.name)
        if present is None:
            yield Difference(subject=topic.name, text=MISSING, mendable=True)
            continue
        yield from _shape_differences(topic, present)
        for name, value in configs_to_set(topic, present).items():
            text = f"{name} is {present.configs.get(name, 'not set')}, expected {value}"
            yield Difference(subject=topic.name, text=text, mendable=True)


def configs_to_set(topic: DesiredTopic, present: ActualTopic) -> dict[str, str]:
    """The desired values of settings that differ."""
    return {
        name: value
        for name, value in topic.configs.items()
        if present.configs.get(name) != value
        # With fewer copies than must be in sync, every write would be refused.
        and not (name == _IN_SYNC and int(value) > present.replication)
    }


def missing_permissions(
    desired: Sequence[Permission], actual: Sequence[Permission]
) -> list[Permission]:
    """Desired permissions that the broker lacks."""
    present = set(actual)
    return [permission for permission in desired if permission not in present]


def permission_differences(
    desired: Sequence[Permission], actual: Sequence[Permission]
) -> Iterator[Difference]:
    """Missing permissions, and unexpected ones that reach our topics or services."""
    for permission in missing_permissions(desired, actual):
        yield Difference(subject=f"acl {permission}", text=MISSING, mendable=True)
    for permission in sorted(set(actual) - set(desired)):
        if reaches_ours(permission) and permission.operation not in _HARMLESS[permission.resource]:
            # Not fixed: it may be intended, and revoking it could stop another system.
            text = "not expected; remove it with Kafka's own tools if it is not intended"
            yield Difference(subject=f"acl {permission}", text=text, mendable=False)


def reaches_ours(permission: Permission) -> bool:
    """Whether it covers a topic of the bus, or a transactional id or the group of a service."""
    name = permission.name
    # In a literal ACL, `*` is Kafka's wildcard for all resources.
    if permission.pattern == "literal" and name == "*":
        return permission.resource in _HARMLESS
    if permission.resource == "group":
        # By their names: groups of subscribers may begin like ours.
        groups = map(app_id, services())
        literal = permission.pattern == "literal"
        return any(group == name if literal else group.startswith(name) for group in groups)
    prefix = {"topic": PREFIX, "transactional-id": app_id("")}.get(permission.resource)
    if prefix is None:
        return False
    # A prefix that is shorter than ours covers our topics, too.
    shorter = permission.pattern == "prefixed" and prefix.startswith(name)
    return name.startswith(prefix) or shorter


def _shape_differences(topic: DesiredTopic, present: ActualTopic) -> Iterator[Difference]:
    if present.partitions != topic.partitions:
        # Partitions can't even be added: keys would move to other partitions, which breaks the
        # order of a domain's events and separates the domain from its state.
        text = (
            f"{present.partitions} partition(s), expected {topic.partitions}; "
            "stop the services, delete the topic and apply again"
        )
        yield Difference(subject=topic.name, text=text, mendable=False)
    if present.replication != topic.replication:
        text = (
            f"replication {present.replication}, expected {topic.replication}; "
            "change it with Kafka's own reassignment tool"
        )
        yield Difference(subject=topic.name, text=text, mendable=False)


def _settled(admin: KafkaAdminClient, replication: int | None, *, acls: bool) -> ReconcileOutcome:
    """Compare until nothing mendable is left: a broker lags behind its controller for a moment."""
    deadline = time.monotonic() + _SETTLE_S
    while True:
        outcome = compare(admin, replication, acls=acls)
        waiting = any(difference.mendable for difference in outcome.differences)
        if not waiting or time.monotonic() > deadline:
            return outcome
        time.sleep(_POLL_S)


def _desired(admin: KafkaAdminClient, replication: int | None) -> tuple[DesiredTopic, ...]:
    brokers = broker.broker_count(admin)
    # A broker holds at most one copy of a partition.
    if replication is not None and replication > brokers:
        there = "there is 1" if brokers == 1 else f"there are {brokers}"
        raise InputError(f"replication: {replication} copies need {replication} brokers, {there}")
    return desired_topics(replication or min(MOST_COPIES, brokers))
