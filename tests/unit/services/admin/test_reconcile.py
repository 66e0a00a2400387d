"""Topics are compared and fixed, and an impossible request changes nothing."""

from types import SimpleNamespace
from typing import Any

import pytest

from models.inputs.errors import InputError
from services.admin import broker, reconcile
from services.admin.broker import ActualTopic
from services.admin.desired import DesiredTopic, desired_topics


class FakeBroker:
    """Replaces the functions that talk to a broker; counts its changes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, brokers: int) -> None:
        self.topics: dict[str, ActualTopic] = {}
        self.changes = 0
        monkeypatch.setattr(broker, "broker_count", lambda _: brokers)
        monkeypatch.setattr(broker, "read_topics", lambda _: dict(self.topics))
        monkeypatch.setattr(broker, "create_topics", self._create)
        monkeypatch.setattr(broker, "set_configs", self._set)

    def _create(self, _: object, topics: list[DesiredTopic]) -> None:
        self.changes += len(topics)
        for one in topics:
            self.topics[one.name] = ActualTopic(
                partitions=one.partitions, replication=one.replication, configs=one.configs
            )

    def _set(self, _: object, changes: dict[str, dict[str, str]]) -> None:
        self.changes += len(changes)


ADMIN: Any = SimpleNamespace()


@pytest.mark.parametrize("act", [reconcile.apply_to, reconcile.compare])
def test_more_copies_than_brokers_are_refused_before_any_change(
    act: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeBroker(monkeypatch, brokers=1)
    with pytest.raises(InputError, match="replication: 3 copies need 3 brokers, there is 1"):
        act(ADMIN, 3)
    assert fake.changes == 0


def test_copies_that_must_be_in_sync_never_exceed_those_there_are() -> None:
    """Such a topic would refuse every write that waits for all copies."""
    wanted = desired_topics(3)[0]
    single = ActualTopic(
        partitions=wanted.partitions,
        replication=1,
        configs=wanted.configs | {"min.insync.replicas": "1"},
    )
    assert reconcile.configs_to_set(wanted, single) == {}
    (difference,) = reconcile.topic_differences([wanted], {wanted.name: single})
    assert "replication 1, expected 3" in str(difference)


def test_missing_topics_are_created(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeBroker(monkeypatch, brokers=1)
    outcome = reconcile.apply_to(ADMIN)
    assert outcome.differences == []
    assert len(outcome.mended) == fake.changes == len(desired_topics(1))
