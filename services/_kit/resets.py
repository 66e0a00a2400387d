"""Operators' orders to reset the state of a key; each is carried out once.

A process learns the newest order of each key like reference data. That an order was carried out is
saved in the state topic, beside the states, where the next process of the partition finds it. So
an order reaches a running service as well as one that starts later.
"""

from collections.abc import Iterable
from typing import Final

from schemas.fields import Event
from schemas.state_reset import StateReset
from schemas.topics import topic_of
from services._kit.errors import Refused
from services._kit.records import BusWriter
from services._kit.state_records import StateRecord

RESET: Final = "reset"
"""Error of a dead letter: a state that an operator dropped."""
_PREFIX: Final = "!reset/"
"""No key of a state begins like this: names begin with a letter or digit."""


def reference_topics(kinds: Iterable[type[Event]]) -> list[str]:
    """Topics that a process reads whole: those of its handler, and the orders."""
    return [*(topic_of(kind).name for kind in kinds), topic_of(StateReset).name]


class Resets:
    """The orders for one service."""

    def __init__(self, service: str, writer: BusWriter) -> None:
        self._service, self._writer = service, writer
        self._orders: dict[str, StateReset] = {}
        self._done: dict[str, str] = {}

    def learn(self, order: StateReset) -> None:
        """Take in an order; those for other services are ignored."""
        if order.service == self._service:
            self._orders[order.key] = order

    def restore(self, key: str, data: bytes | None) -> bool:
        """Take in a record of the state topic; False if it names no order."""
        if not key.startswith(_PREFIX):
            return False
        if data is not None:
            self._done[key.removeprefix(_PREFIX)] = data.decode(errors="replace")
        return True

    def pending(self, keys: Iterable[str]) -> list[StateReset]:
        """Orders for these keys that were not carried out yet, by key."""
        found = (self._orders.get(key) for key in sorted(set(keys)))
        return [order for order in found if order and self._done.get(order.key) != order.id]

    async def carried_out(self, order: StateReset, partition: int | None) -> None:
        """Save that an order was carried out."""
        await self._writer.save(_PREFIX + order.key, StateRecord(order.id.encode()), partition)
        self._done[order.key] = order.id

    def clear(self) -> None:
        """Drop what is restored together with the states; orders stay."""
        self._done.clear()


def reason_of(order: StateReset) -> Refused:
    """Why a state is dropped, for its dead letter."""
    return Refused(
        RESET,
        f"reset by {order.issued_by} at {order.issued_at} (order {order.id}): {order.reason}",
    )
