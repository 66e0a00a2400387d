"""No principal may do more than the threat model says."""

import pytest

from schemas.topics import TOPICS, app_id, state_topic
from services._kit.transactions import CLUSTER_LANE, transactional_id
from services.admin.desired import (
    STATEFUL,
    UNFENCED,
    Permission,
    Resource,
    desired_permissions,
    services,
)

PERMISSIONS = desired_permissions()
SHARED = {
    "hirl.event-scheduled.v1": {"collector", "operator"},
    "hirl.model-judged.v1": {"commander", "forecaster", "soldier"},
    "hirl.transition-recorded.v1": {"commander", "soldier"},
    "hirl.rejected.v1": set(services()),
}
"""Topics of several writers: a campaign is announced by people, too."""


def holders(operation: str, resource: Resource, name: str) -> set[str]:
    """Principals that may do it."""
    return {
        one.user
        for one in PERMISSIONS
        if (one.operation, one.resource) == (operation, resource) and covers(one, name)
    }


def covers(permission: Permission, name: str) -> bool:
    if permission.pattern == "prefixed":
        return name.startswith(permission.name)
    return name == permission.name


@pytest.mark.parametrize("topic", [topic.name for topic in TOPICS])
def test_a_topic_has_one_writer_unless_several_are_meant(topic: str) -> None:
    writers = holders("WRITE", "topic", topic)
    assert writers == SHARED.get(topic, writers)
    assert topic in SHARED or len(writers) == 1


def test_an_operator_orders_and_does_not_declare() -> None:
    # Declared bounds limit orders, so whoever orders must not set them.
    assert holders("WRITE", "topic", "hirl.app-declared.v1") == {"collector"}


@pytest.mark.parametrize("service", STATEFUL)
def test_a_saved_state_is_written_by_its_service_and_read_by_operators_besides(
    service: str,
) -> None:
    assert holders("WRITE", "topic", state_topic(service)) == {service}
    assert holders("READ", "topic", state_topic(service)) == {service, "operator"}


@pytest.mark.parametrize("service", sorted(STATEFUL.keys() - UNFENCED))
def test_only_a_service_itself_may_fence_it(service: str) -> None:
    for lane in (CLUSTER_LANE, 0, 7):
        assert holders("WRITE", "transactional-id", transactional_id(service, lane)) == {service}


@pytest.mark.parametrize("owner", services())
def test_no_principal_may_move_the_offsets_of_another(owner: str) -> None:
    assert holders("READ", "group", app_id(owner)) <= {owner}


def test_nobody_may_create_change_or_delete_anything() -> None:
    assert {one.operation for one in PERMISSIONS} == {"READ", "WRITE", "IDEMPOTENT_WRITE"}
    assert not [one for one in PERMISSIONS if one.resource == "topic" and one.pattern == "prefixed"]


@pytest.mark.parametrize("topic", [topic.name for topic in TOPICS])
def test_an_operator_reads_what_tail_and_explain_show(topic: str) -> None:
    assert "operator" in holders("READ", "topic", topic)
