"""A real cluster as a source, by way of its Prometheus.

A tick is a tenth of the minute since 1970. It is asked for a moment after it has ended, so that
the scrapes of it have come in. A Prometheus that is down, or a query that fails, makes samples
missing; the tick is published all the same, because silence would hide it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple

from schemas.app_declared import AppDeclared
from schemas.demand_backfilled import DemandBackfilled
from schemas.event_scheduled import EventScheduled
from schemas.fields import Event
from services._kit.clock import Clock
from services.collector.batches import Found, batches, numbers_of, pools_of, stamp_of
from services.collector.past import backfill
from services.collector.promql import Prometheus
from services.collector.queries import Declared, Queries
from services.collector.source import Observed, SourceDown

log = logging.getLogger(__name__)

TICK_S: Final = 10
NO_DOMAIN: Final = ""

Sleep = Callable[[float], Awaitable[None]]


class Timing(NamedTuple):
    """When to ask."""

    settle_s: float = 2.0
    """After a tick's end, for its scrapes to come in."""
    catch_up_ticks: int = 6
    """That are still asked for after a pause; Prometheus has them."""
    tick_s: int = TICK_S


class PrometheusSource:
    """One Prometheus, or what answers like one."""

    name = "prometheus"

    def __init__(
        self,
        server: Prometheus,
        queries: Queries,
        declared: Declared | None,
        clock: Clock,
        on_error: Callable[[str], None],
        timing: Timing | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._server, self._queries, self._declared = server, queries, declared
        self._clock, self._on_error, self._sleep = clock, on_error, sleep
        self._timing = timing or Timing()
        apps = declared.apps if declared is not None else []
        self._apps = {app.app: app for app in apps if not app.removed}

    async def inventory(self) -> Sequence[AppDeclared]:
        """As the file declares it; without a file, the apps that were seen so far."""
        return self._declared.apps if self._declared is not None else list(self._apps.values())

    async def calendar(self) -> Sequence[EventScheduled]:
        """As the file announces it."""
        return self._declared.calendar if self._declared is not None else []

    async def history(self) -> Sequence[DemandBackfilled]:
        """Two weeks of traffic, as far as Prometheus kept them; a forecaster can do without."""
        if not self._queries.history:
            return []
        now = self._clock.date()
        try:
            return await backfill(self._server, self._queries, now, self._timing.tick_s)
        except SourceDown as error:
            self._failed("history", error)
            return []

    async def observe(self, after: int) -> Observed:
        """The next tick that can be had, once it has ended."""
        tick = self._next_tick(after)
        time = float(tick * self._timing.tick_s)
        await self._sleep(max(0.0, time + self._timing.settle_s - self._clock.date()))
        answers, pools = await asyncio.gather(self._samples(time), self._pools(time))
        found = self._discover(answers.values()) if self._declared is None else []
        stamp = stamp_of(tick, self._timing.tick_s, self.name)
        events: list[Event] = [*found]
        for domain in sorted({app.domain for app in self._apps.values()}):
            apps = sorted(
                (app for app in self._apps.values() if app.domain == domain),
                key=lambda app: (app.ordinal, app.app),
            )
            events += batches(domain, apps, answers, stamp, self.name)
        events += pools_of(pools, stamp)
        return Observed(tick, events)

    def _next_tick(self, after: int) -> int:
        ended = int((self._clock.date() - self._timing.settle_s) // self._timing.tick_s)
        oldest = ended - self._timing.catch_up_ticks
        return max(after + 1, oldest) if after >= 0 else ended + 1

    async def _samples(self, time: float) -> dict[str, Found]:
        """Every query at once; one that fails is as good as one without a series."""
        queries, names = self._queries, list(self._queries.queries)
        found = await asyncio.gather(
            *(
                self._ask(name, query.query, query.app_label or queries.app_label, time)
                for name, query in queries.queries.items()
            )
        )
        return dict(zip(names, found, strict=True))

    async def _pools(self, time: float) -> dict[str, Found]:
        label = self._queries.pool_label
        names = list(self._queries.pools)
        found = await asyncio.gather(
            *(
                self._ask(f"pool {name}", query, label, time, domain_label=NO_DOMAIN)
                for name, query in self._queries.pools.items()
            )
        )
        return dict(zip(names, found, strict=True))

    async def _ask(
        self, name: str, query: str, label: str, time: float, domain_label: str | None = None
    ) -> Found:
        queries = self._queries
        domains = queries.domain_label if domain_label is None else domain_label
        try:
            answer = await self._server.at(queries.spelled(query), time, queries.ttl_seconds)
        except SourceDown as error:
            self._failed(name, error)
            return {}
        return numbers_of(answer, label, domains, time, queries.ttl_seconds)

    def _discover(self, answers: Iterable[Found]) -> list[AppDeclared]:
        """Apps that were not seen before. One that is silent stays: it is missing, not gone.

        Nobody declared their bounds, so nothing is to be changed about them.
        """
        seen = {key for found in answers for key in found if key[0]}
        new = [
            AppDeclared(app=app, domain=domain, ordinal=0, mode="preview")
            for domain, app in sorted(seen)
            if app not in self._apps
        ]
        self._apps |= {app.app: app for app in new}
        return new

    def _failed(self, question: str, error: SourceDown) -> None:
        self._on_error(question)
        log.warning("no answer to %s: %s", question, error)
