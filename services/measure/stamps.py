"""When the broker got each event of a run, and what is made of it: the time of each tick's way."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from models.inputs.errors import InputError
from schemas.domain_observed import DomainObserved
from schemas.fields import Event, TickEvent
from schemas.metrics_sampled import MetricsSampled
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from schemas.topics import key_of, topic_of
from services.admin.reader import Onlooker

WAY: Final[tuple[type[TickEvent], ...]] = (
    MetricsSampled,
    DomainObserved,
    ScalePlanned,
    ScaleApplied,
)
"""From a sample to a change, in order."""
HOPS: Final = ("sample_to_frame", "frame_to_plan", "plan_to_applied")
_POLL_S: Final = 0.5


class Stamp(NamedTuple):
    """One event and the broker's time of its last record."""

    event: TickEvent
    at: float
    """Wall seconds."""


class Moments(NamedTuple):
    """When the last event of each kind of a tick was there, in the order of WAY."""

    sampled: float
    framed: float
    planned: float
    applied: float

    @property
    def whole_ms(self) -> float:
        """From the last sample to the last change."""
        return 1e3 * (self.applied - self.sampled)

    @property
    def hops_ms(self) -> tuple[float, ...]:
        """The same, hop by hop."""
        return tuple(1e3 * (self[n + 1] - self[n]) for n in range(len(HOPS)))


def stamps(options: dict[str, Any], kinds: Sequence[type[Event]]) -> list[Stamp]:
    """All events of these kinds that are in the topics, when nobody writes any more."""
    with Onlooker(options) as onlooker:
        found = onlooker.until_now([topic_of(kind).name for kind in kinds])
    return [
        Stamp(one.event, one.delivery.timestamp)
        for one in found
        if isinstance(one.event, TickEvent)
    ]


def moments(found: Iterable[Stamp], domains: int) -> dict[int, Moments]:
    """By tick; only ticks that went the whole way in every domain."""
    last: dict[tuple[type[TickEvent], int], dict[str, float]] = {}
    for event, at in found:
        own = last.setdefault((type(event), event.tick), {})
        own[key_of(event)] = max(at, own.get(key_of(event), 0.0))
    ticks = sorted({tick for _, tick in last})
    whole = [
        tick for tick in ticks if all(len(last.get((kind, tick), {})) == domains for kind in WAY)
    ]
    return {tick: Moments(*(max(last[kind, tick].values()) for kind in WAY)) for tick in whole}


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """Median, 99th percentile and the largest."""
    if not values:
        raise InputError("nothing was measured: no tick went the whole way")
    p50, p99 = np.percentile(values, (50, 99)).tolist()
    return {"p50": p50, "p99": p99, "max": max(values)}


def by_hop(found: Mapping[int, Moments]) -> dict[str, dict[str, float]]:
    """Quantiles of each hop; they need not add up to those of the whole way."""
    columns = zip(*(one.hops_ms for one in found.values()), strict=True)
    return {name: quantiles(column) for name, column in zip(HOPS, columns, strict=True)}


class Closing:
    """Watches ticks close, without asking the cluster, which has better things to do."""

    def __init__(
        self, onlooker: Onlooker, domains: Sequence[str], check: Callable[[], None]
    ) -> None:
        self._onlooker, self._check = onlooker, check
        self._closed = dict.fromkeys(domains, -1)
        onlooker.watch([topic_of(ScaleApplied).name], from_beginning=True)

    def wait(self, tick: int, patience_s: float) -> None:
        """Until every domain has closed the tick; `check` raises when that will never be."""
        deadline = time.monotonic() + patience_s
        while min(self._closed.values()) < tick:
            self._check()
            if time.monotonic() > deadline:
                newest = min(self._closed.values())
                raise InputError(f"tick {tick} did not close within {patience_s:.0f} s: {newest}")
            for found in self._onlooker.next(_POLL_S):
                if isinstance(found.event, ScaleApplied):
                    domain = found.event.domain
                    self._closed[domain] = max(self._closed[domain], found.event.tick)
