"""Who of a group gets which partitions. The states of a service decide it."""

from collections.abc import Iterable, Mapping

from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
)


class OneForAll(AbstractPartitionAssignor):  # type: ignore[misc]  # aiokafka has no types
    """The first member gets everything, the others stand by: for a state of the whole cluster.

    Ids of static members begin with their instance, so it is the same one after each rebalance.
    """

    name = "hirl-one-for-all"
    version = 0

    @classmethod
    def assign(
        cls, cluster: ClusterMetadata, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Everything that anybody reads, for the first."""
        topics = sorted({topic for member in members.values() for topic in member.subscription})
        everything = [(name, sorted(cluster.partitions_for_topic(name) or ())) for name in topics]
        first = min(members)
        return {
            member: ConsumerProtocolMemberAssignment(
                cls.version, everything if member == first else [], b""
            )
            for member in members
        }

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """What a member tells of itself."""
        return ConsumerProtocolMemberMetadata(cls.version, list(topics), b"")

    @classmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Nothing to remember."""


def assignor(*, by_domain: bool) -> type[AbstractPartitionAssignor]:
    """By domain the same partition numbers of all topics: ranges do that, round robin does not."""
    return RangePartitionAssignor if by_domain else OneForAll
