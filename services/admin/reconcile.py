"""A broker's topics and ACLs, compared with schemas/topics.py and mended."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
from kafka import KafkaAdminClient

from services.admin import broker as administration
from services.admin import client
from services.admin.acls import permissions
from services.admin.desired import Wanted, wanted_topics
from services.admin.differences import (
    Difference,
    configs_to_set,
    missing_permissions,
    permission_differences,
    topic_differences,
)

MOST_COPIES: Final = 3
"""Of a record, where nothing is said and there are as many brokers."""
_SETTLE_S: Final = 10.0
_POLL_S: Final = 0.1


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` writes."""

    topics: int
    permissions: int
    mended: list[Difference]
    differences: list[Difference]
    """What is not as it ought to be, after mending."""


def apply_to(
    admin: KafkaAdminClient, replication: int | None = None, *, acls: bool = False
) -> Outcome:
    """Mend what can be mended, then look again: what is reported is what the broker has."""
    topics = _wanted(admin, replication)
    before = compare(admin, replication, acls=acls)
    found = administration.read_topics(admin)
    administration.create_topics(admin, [topic for topic in topics if topic.name not in found])
    changes = {
        topic.name: configs_to_set(topic, found[topic.name])
        for topic in topics
        if topic.name in found
    }
    administration.set_configs(admin, {name: change for name, change in changes.items() if change})
    if acls:
        present = administration.read_permissions(admin)
        administration.grant(admin, missing_permissions(permissions(), present))
    after = _settled(admin, replication, acls=acls)
    mended = [one for one in before.differences if one not in after.differences]
    return msgspec.structs.replace(after, mended=mended)


def _settled(admin: KafkaAdminClient, replication: int | None, *, acls: bool) -> Outcome:
    """A broker sees a moment later what its controller has acknowledged."""
    deadline = time.monotonic() + _SETTLE_S
    while True:
        outcome = compare(admin, replication, acls=acls)
        waiting = any(difference.mendable for difference in outcome.differences)
        if not waiting or time.monotonic() > deadline:
            return outcome
        time.sleep(_POLL_S)


def compare(
    admin: KafkaAdminClient, replication: int | None = None, *, acls: bool = False
) -> Outcome:
    """What the broker has against what it ought to have."""
    topics = _wanted(admin, replication)
    differences = list(topic_differences(topics, administration.read_topics(admin)))
    wanted_permissions = permissions() if acls else ()
    if acls:
        present = administration.read_permissions(admin)
        differences += permission_differences(wanted_permissions, present)
    return Outcome(
        topics=len(topics),
        permissions=len(wanted_permissions),
        mended=[],
        differences=differences,
    )


@contextmanager
def connection(options: dict[str, Any]) -> Iterator[KafkaAdminClient]:
    """A connection of the administrator, closed at the end of the block."""
    admin = client.admin(options)
    try:
        yield admin
    finally:
        admin.close()


def _wanted(admin: KafkaAdminClient, replication: int | None) -> tuple[Wanted, ...]:
    copies = replication or min(MOST_COPIES, administration.broker_count(admin))
    return wanted_topics(copies)
