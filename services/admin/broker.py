"""Read and write a broker's topics and ACLs with kafka-python's admin client."""

from collections.abc import Sequence
from typing import Final

import msgspec
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ConfigResourceType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.errors import KafkaError, NoError

from models.inputs.errors import InputError
from services._kit.kafka_python import KafkaAdminClient
from services.admin.desired import DesiredTopic, Pattern, Permission, Resource

PREFIX: Final = "hirl."
"""All our topics begin with it."""
_WAIT_MS: Final = 30_000
"""Timeout for every partition of new topics to get a leader; earlier requests would fail."""
_RESOURCES: Final[dict[ResourceType, Resource]] = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.CLUSTER: "cluster",
    ResourceType.TRANSACTIONAL_ID: "transactional-id",
}
_RESOURCE_TYPES: Final = {name: kind for kind, name in _RESOURCES.items()}
_PATTERNS: Final[dict[ACLResourcePatternType, Pattern]] = {
    ACLResourcePatternType.LITERAL: "literal",
    ACLResourcePatternType.PREFIXED: "prefixed",
}
_PATTERN_TYPES: Final = {name: kind for kind, name in _PATTERNS.items()}
_USER: Final = "User:"


class ActualTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic as the broker has it."""

    partitions: int
    replication: int
    configs: dict[str, str]


def broker_count(admin: KafkaAdminClient) -> int:
    """Number of brokers in the cluster."""
    return len(admin.describe_cluster()["brokers"])


def read_topics(admin: KafkaAdminClient) -> dict[str, ActualTopic]:
    """Our topics on the broker, by name."""
    # Other systems may share the broker: leave their topics alone.
    topics = [topic for topic in admin.describe_topics() if str(topic["name"]).startswith(PREFIX)]
    if not topics:
        return {}
    names = [topic["name"] for topic in topics]
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    configs = admin.describe_configs(resources, config_filter="all")["topic"]
    return {
        topic["name"]: ActualTopic(
            partitions=len(topic["partitions"]),
            # The first partition stands for all: a topic is created with one replication factor.
            replication=len(topic["partitions"][0]["replica_nodes"]),
            configs={key: str(one["value"]) for key, one in configs[topic["name"]].items()},
        )
        for topic in topics
    }


def create_topics(admin: KafkaAdminClient, topics: Sequence[DesiredTopic]) -> None:
    """Create topics and wait until each partition has a leader."""
    if not topics:
        return
    arguments = {
        topic.name: {
            "num_partitions": topic.partitions,
            "replication_factor": topic.replication,
            "configs": topic.configs,
        }
        for topic in topics
    }
    try:
        admin.create_topics(arguments, timeout_ms=_WAIT_MS, wait_for_metadata=True)
    except KafkaError as error:
        raise InputError(f"topics cannot be created: {error}") from None


def set_configs(admin: KafkaAdminClient, changes: dict[str, dict[str, str]]) -> None:
    """Change settings by topic; settings that aren't named stay."""
    if not changes:
        return
    resources = [
        ConfigResource(ConfigResourceType.TOPIC, name, configs) for name, configs in changes.items()
    ]
    # kafka-python sends IncrementalAlterConfigs where the broker has it (Kafka 2.3 on): the older
    # request would reset every setting that isn't named.
    for name, result in admin.alter_configs(resources)["topic"].items():
        if result != "OK":
            raise InputError(f"{name}: settings cannot be changed: {result}")


def read_permissions(admin: KafkaAdminClient) -> list[Permission]:
    """All ACLs on topics, groups, transactional ids and the cluster, also of other systems."""
    everything = ACLFilter(
        principal=None,
        host=None,
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
        resource_pattern=ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY),
    )
    try:
        acls, error = admin.describe_acls(everything)
    except KafkaError as refused:
        raise InputError(f"ACLs cannot be read: {refused}") from None
    # A broker without an authorizer answers with an error code; nothing is raised.
    if error is not NoError:
        raise InputError(f"ACLs cannot be read: {error.__name__}")
    # ACLs on other kinds of resources (delegation tokens, users) can't touch our records.
    return [_permission(acl) for acl in acls if acl.resource_pattern.resource_type in _RESOURCES]


def grant(admin: KafkaAdminClient, permissions: Sequence[Permission]) -> None:
    """Create ACLs."""
    if not permissions:
        return
    failed = admin.create_acls([_acl(permission) for permission in permissions])["failed"]
    if failed:
        raise InputError(f"{len(failed)} ACLs cannot be created: {failed[0].__name__}")


def _permission(acl: ACL) -> Permission:
    """An ACL as a permission. One that denies, or is for one host, never equals a desired one."""
    operation = acl.operation.name
    if acl.permission_type != ACLPermissionType.ALLOW:
        operation = f"{acl.permission_type.name} {operation}"
    # Ours are for any host: the addresses of pods change.
    if acl.host != "*":
        operation = f"{operation} from {acl.host}"
    return Permission(
        user=acl.principal.removeprefix(_USER),
        operation=operation,
        resource=_RESOURCES[acl.resource_pattern.resource_type],
        name=acl.resource_pattern.resource_name,
        pattern=_PATTERNS[acl.resource_pattern.pattern_type],
    )


def _acl(permission: Permission) -> ACL:
    return ACL(
        principal=_USER + permission.user,
        host="*",
        operation=ACLOperation[permission.operation],
        permission_type=ACLPermissionType.ALLOW,
        resource_pattern=ResourcePattern(
            _RESOURCE_TYPES[permission.resource],
            permission.name,
            _PATTERN_TYPES[permission.pattern],
        ),
    )
