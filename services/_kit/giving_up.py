"""What is done about a record or a key that makes the handler fail.

Twice the service stops for it. The third time it goes on without: dead letters name whatever is
lost by that.
"""

import logging
from typing import Final, Generic

from schemas.topics import state_topic
from services._kit.clock import Clock
from services._kit.consume import Delivery
from services._kit.handler import Handler, S
from services._kit.keep import Keep
from services._kit.outbox import Outbox, Outlet
from services._kit.poison import STATE_MEMORY_S, Attempts

log = logging.getLogger(__name__)

POISON: Final = "poison"
UNSETTLED: Final = "unsettled"
"""What is wrong with a record that waited in a state that was given up: nothing."""


class GivingUp(Generic[S]):
    """Counts failures, and says goodbye."""

    def __init__(
        self, handler: Handler[S], keep: Keep[S], outlet: Outlet, outbox: Outbox, clock: Clock
    ) -> None:
        self._handler, self._keep = handler, keep
        self._outlet, self._outbox, self._clock = outlet, outbox, clock
        self.attempts = Attempts(outlet, clock)

    async def blame(self, delivery: Delivery, error: Exception, key: str | None = None) -> None:
        """A record that makes the handler fail: stop or, the last time, go on without it.

        With a key, its state may be half changed: what was saved of it last is put back.
        """
        log.error("%s could not handle %s", self._handler.name, delivery.place, exc_info=error)
        if await self.attempts.failed(delivery.place, delivery.partition):
            raise error
        await self._outbox.reject(delivery, error, POISON)
        if key is not None:
            await self._lose(key, error)
            self._resume(key)
        await self.attempts.forget(delivery.place, delivery.partition)

    async def fault(self, key: str, cause: str, error: Exception) -> None:
        """What is wrong with a key itself: stop or, from the third time on, return.

        It is not forgotten then: the next event of the key may well fail alike, and the service
        is not to die for each of them.
        """
        log.error("%s failed in `%s` of `%s`", self._handler.name, cause, key, exc_info=error)
        place, partition = f"{state_topic(self._handler.name)}/{key}", self._keep.partition(key)
        if await self.attempts.failed(place, partition, STATE_MEMORY_S):
            raise error

    async def drop(self, key: str, error: Exception) -> None:
        """Begin a state anew; whatever waits in it goes too, as it may be what is wrong."""
        log.error("%s drops the state of `%s` and starts it anew", self._handler.name, key)
        await self.mourn(key, error)
        await self._outlet.save(key, None, self._keep.partition(key))
        self._keep.forget_saved(key)
        await self._lose(key, error)
        self._resume(key)

    async def mourn(self, key: str, error: Exception) -> None:
        """Write the dead letter of a state."""
        topic = state_topic(self._handler.name)
        state = Delivery(topic, -1, -1, key.encode(), None, (), self._clock.date())
        await self._outbox.reject(state, error, POISON)

    async def _lose(self, key: str, error: Exception) -> None:
        """Say which inputs go with a state: what is not saved of them comes to nothing."""
        lost = self._keep.let_go(key)
        for delivery in lost:
            await self._outbox.reject(delivery, error, UNSETTLED)
        self._outlet.acknowledge(lost)

    def _resume(self, key: str) -> None:
        try:
            self._keep.resume(key)
        except Exception:
            # The next event of the key finds it out too, and there it is counted.
            log.exception("%s cannot begin `%s` anew", self._handler.name, key)
