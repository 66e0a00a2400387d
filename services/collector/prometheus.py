"""A real cluster as a source: its Prometheus.

A tick is `tick_seconds` of the time since 1970. It is queried shortly after its end, so that its
scrapes have arrived. When Prometheus is down or a query fails, samples are missing; the tick is
published nevertheless, because the aggregator has to see that they are.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from math import inf
from typing import Final, NamedTuple

from msgspec.structs import replace

from schemas.app_declared import AppDeclared
from schemas.demand_backfilled import DemandBackfilled
from schemas.event_scheduled import EventScheduled
from schemas.fields import Event
from services._kit.clock import Clock
from services._kit.ticks import spell
from services.collector.batches import (
    Values,
    batches,
    numbers_of,
    pools_of,
    stamp_of,
    with_stateful_sets,
)
from services.collector.collect import Observed, SourceDown, SourceRestarted
from services.collector.kubernetes import ClusterView
from services.collector.prometheus_api import Prometheus, Series, number
from services.collector.queries import Declared, Queries

log = logging.getLogger(__name__)

NO_DOMAIN: Final = ""

Sleep = Callable[[float], Awaitable[None]]
MINUTE_S: Final = 60
_REMIND_S: Final = 60.0
MINUTES: Final = 14 * 24 * 60
_MINUTES_AT_ONCE: Final = 7 * 24 * 60
"""Prometheus returns at most 11,000 steps."""


class Timing(NamedTuple):
    """When to query."""

    tick_s: int
    """Length of a tick in the cluster file, which every other service reads as well."""
    settle_s: float
    """Delay after the end of a tick, so that its scrapes have arrived."""
    catch_up_ticks: int
    """Most ticks to query afterwards, after a pause of the collector."""


class PrometheusSource:
    """One Prometheus, or a server with its API."""

    name = "prometheus"

    def __init__(
        self,
        server: Prometheus,
        queries: Queries,
        declared: Declared | None,
        clock: Clock,
        on_error: Callable[[str], None],
        timing: Timing,
        sleep: Sleep = asyncio.sleep,
        cluster: ClusterView | None = None,
    ) -> None:
        self._cluster = cluster
        self._server, self._queries, self._declared = server, queries, declared
        self._clock, self._on_error, self._sleep = clock, on_error, sleep
        self._timing = timing
        apps = declared.apps if declared is not None else []
        self._apps = {app.app: app for app in apps if not app.removed}
        self._reported_at = -inf
        """Date of the last warning that the clock is behind."""
        self._ambiguous: set[tuple[str, str]] = set()
        """Domains and names that were not declared because another domain has the name."""

    def recall(self, declared: Iterable[AppDeclared]) -> None:
        """Take in what was declared before this process: workloads may have gone meanwhile.

        Of other sources' apps nothing is known here. Theirs have no namespace in their name.
        """
        self._apps |= {one.app: one for one in declared if "/" in one.app}

    async def inventory(self) -> Sequence[AppDeclared]:
        """Apps of the inventory file; without one, the apps discovered so far."""
        if self._cluster is not None:
            await self._cluster.start()
            changed = self._take_over(self._cluster.declared())
            # Apps that went since the last tick are declared by no later one.
            return [*(one for one in changed if one.removed), *self._apps.values()]
        if self._declared is not None:
            return self._declared.apps
        return list(self._apps.values())

    async def calendar(self) -> Sequence[EventScheduled]:
        """Announced events of the inventory file."""
        return self._declared.calendar if self._declared is not None else []

    async def history(self) -> Sequence[DemandBackfilled]:
        """Up to two weeks of recorded traffic. Optional, so a failure is only counted."""
        if not self._queries.history:
            return []
        now = self._clock.date()
        try:
            return await backfill(self._server, self._queries, now, self._timing.tick_s)
        except SourceDown as error:
            self._failed("history", error)
            return []

    async def observe(self, after: int) -> Observed | None:
        """The next tick, once it has ended and settled; None after a longest sleep before that."""
        tick = self._next_tick(after)
        time = float(tick * self._timing.tick_s)
        wait_s = time + self._timing.settle_s - self._clock.date()
        # Never longer than a tick: the clock may be corrected in the meantime.
        longest_s = self._timing.settle_s + self._timing.tick_s
        if wait_s > longest_s + self._timing.catch_up_ticks * self._timing.tick_s:
            self._on_error("clock")
            # It was ahead, and readers refused those ticks; or it is behind now, and they drop
            # ticks that they have. Either way the present can be published.
            raise SourceRestarted(
                f"the clock is {wait_s:.0f} s behind tick {after}, the last published one: it was "
                "ahead before, or is wrong now"
            )
        await self._sleep(min(max(0.0, wait_s), longest_s))
        if wait_s > longest_s:
            self._report_clock(after, wait_s)
            return None
        # All queries are for one moment, so that the samples of a tick belong together.
        answers, pools = await asyncio.gather(self._samples(time), self._pools(time))
        domains = set[str]()
        if self._cluster is not None:
            # What the API server knows wins over queries of the same columns.
            known = await self._cluster.samples()
            pools |= self._cluster.pools()
            declared = self._cluster.declared()
            discovered = self._take_over(declared)
            if declared is not None:
                # The Commander decides nothing before every domain has reported what it holds:
                # one without apps has to say that, too.
                domains.update(self._cluster.domains)
            answers = {
                name: with_stateful_sets(values, self._apps) for name, values in answers.items()
            } | known
        else:
            discovered = self._discover(answers.values()) if self._declared is None else []
        stamp = stamp_of(tick, self._timing.tick_s, self.name)
        events: list[Event] = [*discovered]
        domains.update(app.domain for app in self._apps.values())
        for domain in sorted(domains):
            # In tie-break order, as every other service has them.
            apps = sorted(
                (app for app in self._apps.values() if app.domain == domain),
                key=lambda app: (app.ordinal, app.app),
            )
            events += batches(domain, apps, answers, stamp, self.name)
        events += pools_of(pools, stamp)
        return Observed(tick, events)

    def learn(self, event: Event) -> None:
        """Take in what the bus says about a domain."""
        if self._cluster is not None:
            self._cluster.learn(event)

    async def close(self) -> None:
        """Stop watching."""
        if self._cluster is not None:
            await self._cluster.close()

    def _report_clock(self, after: int, wait_s: float) -> None:
        """Log, at intervals, why nothing is published until the clock has caught up."""
        now = self._clock.date()
        if abs(now - self._reported_at) >= _REMIND_S:
            self._reported_at = now
            self._on_error("clock")
            log.warning(
                "the clock is behind tick %d, the last published one: nothing is published for "
                "%.0f s, until the clock has passed it",
                after, wait_s,
            )  # fmt: skip

    def _next_tick(self, after: int) -> int:
        # After a longer pause only the newest ticks are queried. Without progress to continue from
        # there is no past to catch up with: begin with the tick that ends next.
        ended = int((self._clock.date() - self._timing.settle_s) // self._timing.tick_s)
        oldest = ended - self._timing.catch_up_ticks
        return max(after + 1, oldest) if after >= 0 else ended + 1

    async def _samples(self, time: float) -> dict[str, Values]:
        """All queries at once; a failed one counts as one without series."""
        queries, names = self._queries, list(self._queries.queries)
        found = await asyncio.gather(
            *(
                self._query(name, query.query, query.app_label or queries.app_label, time)
                for name, query in queries.queries.items()
            )
        )
        return dict(zip(names, found, strict=True))

    async def _pools(self, time: float) -> dict[str, Values]:
        label = self._queries.pool_label
        names = list(self._queries.pools)
        found = await asyncio.gather(
            *(
                self._query(f"pool {name}", query, label, time, domain_label=NO_DOMAIN)
                for name, query in self._queries.pools.items()
            )
        )
        return dict(zip(names, found, strict=True))

    async def _query(
        self, name: str, query: str, label: str, time: float, domain_label: str | None = None
    ) -> Values:
        queries = self._queries
        domains = queries.domain_label if domain_label is None else domain_label
        try:
            answer = await self._server.at(queries.with_times(query), time, queries.ttl_seconds)
        except SourceDown as error:
            self._failed(name, error)
            return {}
        in_namespaces = self._cluster is not None
        return numbers_of(answer, label, domains, time, queries.ttl_seconds, in_namespaces)

    def _take_over(self, found: Sequence[AppDeclared] | None) -> list[AppDeclared]:
        """What changed of the apps that the API server has; the inventory file wins over it.

        An app that is gone there is gone: its workload was deleted, or left its domain.
        """
        if found is None:
            return []
        filed = {} if self._declared is None else {one.app: one for one in self._declared.apps}
        present = {one.app: filed.get(one.app, one) for one in found}
        gone = [replace(a, removed=True) for name, a in self._apps.items() if name not in present]
        changed = [one for name, one in present.items() if self._apps.get(name) != one]
        self._apps = present
        return [*gone, *changed]

    def _discover(self, answers: Iterable[Values]) -> list[AppDeclared]:
        """Declare apps that are new. An app that stops reporting stays: it is missing, not gone.

        Their bounds are unknown, so they are in preview: nothing may be changed.
        """
        # A series without a domain belongs to no app that could be declared.
        reported = {key for found in answers for key in found if key[0]}
        new = [
            AppDeclared(app=app, domain=domain, ordinal=0, mode="preview")
            for domain, app in sorted(reported)
            if app not in self._apps
        ]
        # An app is known by its name alone: the first one keeps it, by domain.
        fresh = {app.app: app for app in reversed(new)}
        self._apps |= fresh
        self._report_ambiguous(reported)
        return [app for app in new if fresh[app.app] is app]

    def _report_ambiguous(self, reported: set[tuple[str, str]]) -> None:
        """Warn once of each app whose name another domain has: it is not measured."""
        for domain, app in sorted(reported - self._ambiguous):
            if (known := self._apps[app].domain) != domain:
                self._ambiguous.add((domain, app))
                self._on_error("discovery")
                log.warning(
                    "%s of %s is not declared: %s has an app of this name; name both in an "
                    "inventory file",
                    app, domain, known,
                )  # fmt: skip

    def _failed(self, question: str, error: SourceDown) -> None:
        self._on_error(question)
        log.warning("query %s failed: %s", question, error)


# Recorded history.


async def backfill(
    server: Prometheus, queries: Queries, now: float, tick_s: int
) -> list[DemandBackfilled]:
    """Traffic of two weeks up to the last whole minute, per domain; null for gaps."""
    until = int(now // MINUTE_S) * MINUTE_S
    by_domain: dict[str, list[float | None]] = {}
    for first in range(0, MINUTES, _MINUTES_AT_ONCE):
        start = until - (MINUTES - first - 1) * MINUTE_S
        end = start + (_MINUTES_AT_ONCE - 1) * MINUTE_S
        for series in await server.over(queries.history, start, end, MINUTE_S):
            _fill(series, queries.domain_label, until, by_domain)
    return [
        DemandBackfilled(
            domain=domain,
            until_tick=until // tick_s,
            until=spell(datetime.fromtimestamp(until, UTC)),
            rps=minutes,
        )
        for domain, minutes in sorted(by_domain.items())
    ]


def _fill(series: Series, label: str, until: int, by_domain: dict[str, list[float | None]]) -> None:
    domain = series.metric.get(label)
    if not domain:
        return
    minutes = by_domain.setdefault(domain, [None] * MINUTES)
    for time, text in series.values:
        # A value is that of the minute that ends with it.
        index = MINUTES - 1 - round((until - time) / MINUTE_S)
        if 0 <= index < MINUTES:
            minutes[index] = number(text)
