"""Print the newest budget of every domain as it is granted.

    python docs/examples/budget_subscriber.py 127.0.0.1:9092

It needs kafka-python and nothing of this project: the topic is a public contract, described in
docs/guides/subscribing.md.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from kafka import KafkaConsumer

TOPIC = "hirl.budget-granted.v1"


class Record(Protocol):
    """What a Kafka client delivers."""

    @property
    def key(self) -> bytes:
        """Name of the domain."""
        ...

    @property
    def value(self) -> bytes | None:
        """The budget as JSON; nothing for a tombstone."""
        ...


class Change(NamedTuple):
    """A domain's new budget; None when the domain is gone."""

    domain: str
    budget: dict[str, Any] | None


def changes(records: Iterable[Record]) -> Iterator[Change]:
    """Only what is new: delivery is at least once, and a replaced Commander may still write."""
    newest: dict[str, int] = {}
    for record in records:
        domain = record.key.decode()
        if not record.value:  # a tombstone
            newest.pop(domain, None)
            yield Change(domain, None)
            continue
        budget = json.loads(record.value)
        # The epoch fences: it rises with every budget, also over restarts of the Commander.
        if budget["epoch"] > newest.get(domain, -1):
            newest[domain] = budget["epoch"]
            yield Change(domain, budget)


def main(bootstrap: str) -> None:
    """Follow the topic until interrupted."""
    # No group: every subscriber reads all domains. The topic is compacted, so reading from the
    # beginning finds the newest budget of each. The Commander writes in transactions: without
    # `read_committed`, budgets that it did not commit would be read too.
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        group_id=None,
        isolation_level="read_committed",
    )
    for domain, budget in changes(consumer):
        if budget is None:
            print(domain, "is gone", flush=True)
        else:
            print(
                f"{domain} may hold {budget['cores']:.1f} cores (epoch {budget['epoch']}, "
                f"until tick {budget['valid_until_tick']})",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1])
