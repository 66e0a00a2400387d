"""The collector: get the next tick from a source, publish all of it, save that it is done."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from schemas.app_declared import AppDeclared
from schemas.demand_backfilled import DemandBackfilled
from schemas.event_scheduled import EventScheduled
from schemas.fields import Event, Tick
from schemas.metrics_sampled import MEASURED, MetricsSampled
from services.collector.metrics import Metrics

log = logging.getLogger(__name__)

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]

NO_TICK: Final = -1
_FIRST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0


class SourceDown(Exception):  # noqa: N818  the source is down, the collector is not
    """Retry later: the source does not answer, or its answer is invalid."""


class SourceRestarted(Exception):  # noqa: N818  it names what happened
    """Start again with the source's present tick: it has not reached the last published one."""


class Observed(NamedTuple):
    """All events of one tick."""

    tick: int
    events: Sequence[Event]
    """In publishing order."""
    finished: bool = False
    """The source has ended: no further tick comes, and this one has no events."""


class Source(Protocol):
    """A cluster that is measured. The collector publishes what it returns."""

    name: str
    """Key of the collector's saved progress."""

    async def inventory(self) -> Sequence[AppDeclared]:
        """Every present and removed app."""

    async def calendar(self) -> Sequence[EventScheduled]:
        """Announced events."""

    async def history(self) -> Sequence[DemandBackfilled]:
        """Recorded traffic before the first tick, if there is any."""

    async def observe(self, after: int) -> Observed | None:
        """The next tick after `after`, as soon as it exists; None: not yet, call again.

        Ticks that the source no longer has are skipped: they are a gap. -1 means the present.
        """

    async def close(self) -> None:
        """Disconnect."""


class Writer(Protocol):
    """What the collector needs from a bus."""

    async def publish(self, events: Sequence[Event]) -> None:
        """Return when all events are acknowledged."""

    async def save(self, key: str, data: bytes | None, partition: int | None) -> None:
        """Return when the state record is acknowledged."""


class Progress(msgspec.Struct, frozen=True):
    """Saved progress of a source."""

    tick: Tick


class Collector:
    """Publishes one source.

    A tick is saved as done after all of it is acknowledged. A crash in between publishes it twice,
    and readers drop duplicates. No tick is lost unless the source no longer has it.
    """

    def __init__(
        self,
        source: Source,
        writer: Writer,
        metrics: Metrics,
        on_request: Callable[[], None] = lambda: None,
        sleep: Sleep = asyncio.sleep,
        drain_s: float = 10.0,
    ) -> None:
        self._drain_s = drain_s
        self._source, self._writer, self._metrics = source, writer, metrics
        self._on_request, self._sleep = on_request, sleep

    async def run(self, after: int = NO_TICK) -> None:
        """Continue after the last published tick until the source has ended."""
        await self._publish_reference()
        while True:
            try:
                observed = await self._retry("observation", partial(self._observe, after))
            except SourceRestarted as error:
                log.warning("starting again with the present tick: %s", error)
                after = NO_TICK
                # Another run of the source may have other apps and other announced events.
                await self._publish_reference()
                continue
            if observed is None:
                continue
            if observed.finished:
                log.info("the source ended at tick %d", observed.tick)
                return
            await self._note_gap(after, observed.tick)
            await self._publish(observed)
            after = observed.tick

    async def _observe(self, after: int) -> Observed | None:
        observed = await self._source.observe(after)
        # A cache in between may repeat an answer: that is no new tick to publish.
        if observed is not None and not observed.finished and observed.tick <= after:
            raise SourceDown(f"expected a tick after {after}, got {observed.tick}")
        return observed

    async def _publish_reference(self) -> None:
        """Publish reference data; again at each start, as readers keep the newest."""
        source = self._source
        await self._writer.publish(await self._retry("inventory", source.inventory))
        await self._writer.publish(await self._retry("calendar", source.calendar))
        await self._writer.publish(await self._retry("history", source.history))

    async def _note_gap(self, after: int, tick: int) -> None:
        skipped = tick - after - 1
        if after == NO_TICK or skipped == 0:
            return
        self._metrics.skipped.inc(skipped)
        log.warning("ticks %d to %d are lost: the source no longer has them", after + 1, tick - 1)
        # Apps may have been added or removed in the gap, and a tick declares only its own changes.
        await self._writer.publish(await self._retry("inventory", self._source.inventory))

    async def _publish(self, observed: Observed) -> None:
        begun = perf_counter()
        await _finished(self._put(observed), self._drain_s)
        self._metrics.publish_seconds.observe(perf_counter() - begun)
        self._count(observed)

    async def _put(self, observed: Observed) -> None:
        # In this order: a crash in between repeats the tick instead of losing it.
        await self._writer.publish(observed.events)
        done = msgspec.json.encode(Progress(observed.tick))
        await self._writer.save(self._source.name, done, None)

    def _count(self, observed: Observed) -> None:
        self._metrics.ticks.inc()
        self._metrics.last_tick.set(observed.tick)
        for event in observed.events:
            if isinstance(event, MetricsSampled):
                # A column that is missing as a whole counts once per app.
                values = [value for name in MEASURED for value in getattr(event, name)]
                missing = len(MEASURED) * len(event.apps) - len(values) + values.count(None)
                self._metrics.missing.labels(event.domain).inc(missing)
                self._metrics.samples.labels(event.domain).inc(len(values) - values.count(None))

    async def _retry(self, question: str, request: Callable[[], Awaitable[T]]) -> T:
        """Repeat a request until it succeeds: the collector outlives outages of its source."""
        pause = _FIRST_PAUSE_S
        while True:
            # Each attempt counts as a poll: the process is healthy while its source is down.
            self._on_request()
            try:
                return await request()
            except SourceDown as error:
                self._metrics.errors.labels(question).inc()
                log.warning("no %s, retrying in %.1f s: %s", question, pause, error)
                await self._sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)


async def _finished(work: Coroutine[Any, Any, None], drain_s: float) -> None:
    """Finish even if cancelled in between: a half-published tick would be published again.

    Not for longer than `drain_s`, in case the brokers are gone.
    """
    task = asyncio.ensure_future(work)
    # `shield` keeps the task running, but the caller is cancelled: wait for the task once more.
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(TimeoutError):
            await asyncio.wait_for(task, drain_s)
        raise
