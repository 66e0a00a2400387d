"""Who may do what on the bus, derived from schemas/topics.py.

Kafka lets who may READ or WRITE a topic DESCRIBE it, and who may READ a group describe it.
"""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from schemas.topics import ANY, TOPICS, Topic, state_topic
from services.admin.desired import STATEFUL

Resource = Literal["topic", "group", "cluster"]
Pattern = Literal["literal", "prefixed"]

CLUSTER_NAME: Final = "kafka-cluster"
"""Kafka's own name for the one resource that stands for the whole cluster."""


class Permission(NamedTuple):
    """One thing that one service may do."""

    user: str
    operation: str
    resource: Resource
    name: str
    pattern: Pattern = "literal"

    def __str__(self) -> str:
        star = "*" if self.pattern == "prefixed" else ""
        return f"{self.user} {self.operation} {self.resource} {self.name}{star}"


def app_id(service: str) -> str:
    """A service's consumer group and Faust app, which makes no topics of its own."""
    return f"hirl-{service}"


def services() -> tuple[str, ...]:
    """Everyone who reads or writes a topic."""
    named = {name for topic in TOPICS for name in (*topic.producers, *topic.consumers)}
    return tuple(sorted(named - {ANY}))


def permissions() -> tuple[Permission, ...]:
    """All that is needed, and no more."""
    return tuple(one for service in services() for one in _of_service(service))


def _of_service(service: str) -> Iterator[Permission]:
    for topic in TOPICS:
        yield from _of_topic(service, topic)
    if service in STATEFUL:
        yield Permission(service, "READ", "topic", state_topic(service))
        yield Permission(service, "WRITE", "topic", state_topic(service))
    # Producers that never write a record twice; brokers from 3.0 on ask for no more than WRITE.
    yield Permission(service, "IDEMPOTENT_WRITE", "cluster", CLUSTER_NAME)
    if any(service in topic.consumers for topic in TOPICS):
        yield Permission(service, "READ", "group", app_id(service), "prefixed")


def _of_topic(service: str, topic: Topic) -> Iterator[Permission]:
    if service in topic.producers or ANY in topic.producers:
        yield Permission(service, "WRITE", "topic", topic.name)
    if service in topic.consumers or ANY in topic.consumers:
        yield Permission(service, "READ", "topic", topic.name)
