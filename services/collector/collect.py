"""The collector's work: ask for the next tick, publish all of it, remember that it is done."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from time import perf_counter
from typing import Any, Final, Protocol, TypeVar

import msgspec

from schemas.columns import MEASURED
from schemas.fields import Event
from schemas.metrics_sampled import MetricsSampled
from services.collector.metrics import Metrics
from services.collector.source import Observed, Source, SourceDown, StartedAnew

log = logging.getLogger(__name__)

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]

NOTHING_YET: Final = -1
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0


class Outlet(Protocol):
    """What the collector needs of a bus."""

    async def publish(self, events: Sequence[Event]) -> None:
        """Returns when all are acknowledged."""

    async def save(self, key: str, data: bytes | None, partition: int | None) -> None:
        """Returns when the record is acknowledged."""


class Progress(msgspec.Struct, frozen=True):
    """What the collector remembers of a source, over restarts too."""

    tick: int


class Collector:
    """Brings one source to the bus.

    A tick is marked as done after all of it is acknowledged. So a crash in between publishes it a
    second time, which readers drop, and none is left out unless the source no longer has it.
    """

    def __init__(
        self,
        source: Source,
        outlet: Outlet,
        metrics: Metrics,
        on_asking: Callable[[], None] = lambda: None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._source, self._outlet, self._metrics = source, outlet, metrics
        self._on_asking, self._sleep = on_asking, sleep

    async def run(self, after: int = NOTHING_YET) -> None:
        """Go on after the tick that was published last, until the source has ended."""
        await self._publish_reference()
        while True:
            try:
                observed = await self._persist("observation", partial(self._source.observe, after))
            except StartedAnew as error:
                log.warning("beginning again: %s", error)
                after = NOTHING_YET
                await self._publish_reference()
                continue
            if observed is None:
                continue
            if observed.finished:
                log.info("the source has ended at tick %d", observed.tick)
                return
            await self._note_gap(after, observed.tick)
            await self._publish(observed)
            after = observed.tick

    async def _publish_reference(self) -> None:
        """What is known without measuring; said again at each start, as readers keep the newest."""
        source = self._source
        await self._outlet.publish(await self._persist("inventory", source.inventory))
        await self._outlet.publish(await self._persist("calendar", source.calendar))
        await self._outlet.publish(await self._persist("history", source.history))

    async def _note_gap(self, after: int, tick: int) -> None:
        skipped = tick - after - 1
        if after == NOTHING_YET or skipped == 0:
            return
        self._metrics.skipped.inc(skipped)
        log.warning("ticks %d to %d were not seen and cannot be had any more", after + 1, tick - 1)
        # Apps may have come and gone in them.
        await self._outlet.publish(await self._persist("inventory", self._source.inventory))

    async def _publish(self, observed: Observed) -> None:
        begun = perf_counter()
        await _finished(self._put(observed))
        self._metrics.publish_seconds.observe(perf_counter() - begun)
        self._count(observed)

    async def _put(self, observed: Observed) -> None:
        await self._outlet.publish(observed.events)
        done = msgspec.json.encode(Progress(observed.tick))
        await self._outlet.save(self._source.name, done, None)

    def _count(self, observed: Observed) -> None:
        self._metrics.ticks.inc()
        self._metrics.last_tick.set(observed.tick)
        for event in observed.events:
            if isinstance(event, MetricsSampled):
                values = [value for name in MEASURED for value in getattr(event, name)]
                missing = len(MEASURED) * len(event.apps) - len(values) + values.count(None)
                self._metrics.missing.labels(event.domain).inc(missing)
                self._metrics.samples.labels(event.domain).inc(len(values) - values.count(None))

    async def _persist(self, question: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until there is an answer: a source that is down is no reason to stop."""
        pause = _FIRST_PAUSE_S
        while True:
            self._on_asking()
            try:
                return await ask()
            except SourceDown as error:
                self._metrics.errors.labels(question).inc()
                log.warning("no %s, asking again in %.1f s: %s", question, pause, error)
                await self._sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)


async def _finished(work: Coroutine[Any, Any, None]) -> None:
    """Asked to stop in the middle, finish first: half a tick would be published a second time."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
