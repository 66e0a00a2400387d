"""A record that makes a handler fail: stop for it, but not for ever.

A failure may be one of the moment (memory, a bug that is being fixed), so the service stops and is
started again by its supervisor. How often a record did that is kept among the service's states,
where the next process finds it.
"""

from typing import Final, Protocol

from services._kit.consume import Delivery

MOST_FAILURES: Final = 3
_PREFIX: Final = "!failures/"
"""No key of a state begins like this: names begin with a letter or digit."""


class Saves(Protocol):
    """Where states are kept."""

    async def save(self, key: str, data: bytes | None, partition: int | None) -> None:
        """Returns when it is acknowledged."""


class Attempts:
    """How often each record failed."""

    def __init__(self, store: Saves) -> None:
        self._store = store
        self._failures: dict[str, int] = {}

    def restore(self, key: str, data: bytes | None) -> bool:
        """Whether a record of the state topic was one of ours."""
        if not key.startswith(_PREFIX):
            return False
        place = key.removeprefix(_PREFIX)
        if data is None:
            self._failures.pop(place, None)
        else:
            self._failures[place] = int(data)
        return True

    async def failed(self, delivery: Delivery) -> bool:
        """Count a failure; whether to stop for it. After the last one the record is given up."""
        count = self._failures.get(delivery.place, 0) + 1
        if count >= MOST_FAILURES:
            await self.succeeded(delivery)
            return False
        self._failures[delivery.place] = count
        await self._store.save(_PREFIX + delivery.place, b"%d" % count, delivery.partition)
        return True

    async def succeeded(self, delivery: Delivery) -> None:
        """Forget what a record did before."""
        if self._failures.pop(delivery.place, 0):
            await self._store.save(_PREFIX + delivery.place, None, delivery.partition)

    def clear(self) -> None:
        """Forget everything; it is restored with the states."""
        self._failures.clear()
