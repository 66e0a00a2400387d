"""What a broker has against what it ought to have, each difference in one line."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from services.admin.acls import Permission
from services.admin.desired import Wanted

OURS: Final = "hirl."
"""Our topics begin with it."""
_HARMLESS: Final = frozenset({"READ", "DESCRIBE", "DESCRIBE_CONFIGS"})
"""Other systems may subscribe: what they are allowed beyond our own services is not ours to
judge, unless it lets them write or change."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A topic as it is."""

    partitions: int
    replication: int
    configs: dict[str, str]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it ought to be."""

    subject: str
    text: str
    mendable: bool
    """Whether `hirl topics apply` does it."""

    def __str__(self) -> str:
        return f"{self.subject}: {self.text}"


def topic_differences(wanted: Sequence[Wanted], found: Mapping[str, Found]) -> Iterator[Difference]:
    """Topics that are missing or different."""
    for topic in wanted:
        present = found.get(topic.name)
        if present is None:
            yield Difference(subject=topic.name, text="missing", mendable=True)
            continue
        yield from _shape_differences(topic, present)
        for name, value in configs_to_set(topic, present).items():
            is_now = present.configs.get(name, "not set")
            text = f"{name} is {is_now}, expected {value}"
            yield Difference(subject=topic.name, text=text, mendable=True)


def configs_to_set(topic: Wanted, present: Found) -> dict[str, str]:
    """Settings of a topic that differ, as they ought to be."""
    return {
        name: value for name, value in topic.configs.items() if present.configs.get(name) != value
    }


def _shape_differences(topic: Wanted, present: Found) -> Iterator[Difference]:
    if present.partitions != topic.partitions:
        # Not even more partitions: keys would move, and with them the order of a domain's events
        # and the place of its state.
        text = (
            f"{present.partitions} partition(s), expected {topic.partitions}; "
            "stop the services, delete the topic and apply again"
        )
        yield Difference(subject=topic.name, text=text, mendable=False)
    if present.replication != topic.replication:
        text = (
            f"replication {present.replication}, expected {topic.replication}; "
            "needs Kafka's own reassignment tool"
        )
        yield Difference(subject=topic.name, text=text, mendable=False)


def missing_permissions(
    wanted: Sequence[Permission], found: Sequence[Permission]
) -> list[Permission]:
    """Permissions to be given."""
    present = set(found)
    return [permission for permission in wanted if permission not in present]


def permission_differences(
    wanted: Sequence[Permission], found: Sequence[Permission]
) -> Iterator[Difference]:
    """Permissions that are missing, and those that let somebody else write."""
    for permission in missing_permissions(wanted, found):
        yield Difference(subject=f"acl {permission}", text="missing", mendable=True)
    for permission in sorted(set(found) - set(wanted)):
        if permission.operation not in _HARMLESS and reaches_our_topics(permission):
            # Somebody gave it on purpose or by mistake; taking it away could stop a system.
            text = "not expected; remove it with Kafka's own tools if it is not meant"
            yield Difference(subject=f"acl {permission}", text=text, mendable=False)


def reaches_our_topics(permission: Permission) -> bool:
    """Whether it is about at least one topic of the bus."""
    if permission.resource != "topic":
        return False
    name = permission.name
    if permission.pattern == "literal":
        return name == "*" or name.startswith(OURS)
    return name.startswith(OURS) or OURS.startswith(name)
