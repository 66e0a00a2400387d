from types import SimpleNamespace
from typing import Any

import pytest

from services._kit.kafka import SingleActiveAssignor, assignor

TOPICS = ["left", "right"]
PARTITIONS = set(range(8))
CLUSTER: Any = SimpleNamespace(partitions_for_topic=lambda _: PARTITIONS)


def assigned(kind: Any, members: list[str]) -> dict[str, dict[str, list[int]]]:
    told = kind.assign(CLUSTER, {member: kind.metadata(TOPICS) for member in members})
    return {member: dict(answer.assignment) for member, answer in told.items()}


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_by_domain_a_member_has_the_same_partitions_of_every_topic(count: int) -> None:
    members = [f"soldier-{number}" for number in range(count)]
    told = assigned(assignor(by_domain=True), members)
    for topics in told.values():
        assert topics["left"] == topics["right"]
    assert sorted(number for topics in told.values() for number in topics["left"]) == list(range(8))


def test_for_the_cluster_the_first_member_has_everything() -> None:
    told = assigned(SingleActiveAssignor, ["commander-1-uuid", "commander-0-uuid"])
    everything = sorted(PARTITIONS)
    assert told == {
        "commander-0-uuid": {"left": everything, "right": everything},
        "commander-1-uuid": {},
    }
