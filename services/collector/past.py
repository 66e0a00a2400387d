"""What Prometheus kept of the last two weeks' traffic, per domain and minute."""

from datetime import UTC, datetime
from typing import Final

from schemas.demand_backfilled import DemandBackfilled
from services._kit.ticks import spell
from services.collector.promql import Prometheus, Series, number
from services.collector.queries import Queries

MINUTE_S: Final = 60
MINUTES: Final = 14 * 24 * 60
_MINUTES_AT_ONCE: Final = 7 * 24 * 60
"""Prometheus answers at most 11,000 steps."""


async def backfill(
    server: Prometheus, queries: Queries, now: float, tick_s: int
) -> list[DemandBackfilled]:
    """Up to the last whole minute; null for the minutes that nobody recorded."""
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
        # A value stands for the minute that ends with it.
        place = MINUTES - 1 - round((until - time) / MINUTE_S)
        if 0 <= place < MINUTES:
            minutes[place] = number(text)
