"""Broker timestamps of a run's events, and from them how long each tick took."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from models.inputs.errors import InputError
from schemas.domain_observed import DomainObserved
from schemas.fields import Event, TickEvent
from schemas.metrics_sampled import MetricsSampled
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from schemas.topics import key_of, topic_of
from services.admin.reader import TopicReader

PATH: Final[tuple[type[TickEvent], ...]] = (
    MetricsSampled,
    DomainObserved,
    ScalePlanned,
    ScaleApplied,
)
"""Events from a sample to a change, in order."""
HOPS: Final = ("sample_to_frame", "frame_to_plan", "plan_to_applied")
_POLL_S: Final = 0.5


class Stamp(NamedTuple):
    """One event and the broker's time of its last record."""

    event: TickEvent
    at: float
    """Wall time in seconds."""


class TickTimes(NamedTuple):
    """When the last event of each type of a tick arrived, in the order of PATH."""

    sampled: float
    framed: float
    planned: float
    applied: float

    @property
    def total_ms(self) -> float:
        """From the last sample to the last change."""
        return 1e3 * (self.applied - self.sampled)

    @property
    def hops_ms(self) -> tuple[float, ...]:
        """The same, hop by hop."""
        return tuple(1e3 * (self[n + 1] - self[n]) for n in range(len(HOPS)))


def read_stamps(options: dict[str, Any], kinds: Sequence[type[Event]]) -> list[Stamp]:
    """All events of these types in the topics; call it when nothing is written any more."""
    return list(stream_stamps(options, kinds))


def stream_stamps(options: dict[str, Any], kinds: Sequence[type[Event]]) -> Iterator[Stamp]:
    """The same one by one: events of many apps do not fit into memory."""
    # The broker stamps records when it appends them, so all times are of one clock.
    with TopicReader(options) as reader:
        for record in reader.stream_to_end([topic_of(kind).name for kind in kinds]):
            if isinstance(record.event, TickEvent):
                yield Stamp(record.event, record.delivery.timestamp)


def tick_times(stamps: Iterable[Stamp], domains: int) -> dict[int, TickTimes]:
    """Times of each tick that completed the path in all domains, by tick."""
    last: dict[tuple[type[TickEvent], int], dict[str, float]] = {}
    for event, at in stamps:
        by_domain = last.setdefault((type(event), event.tick), {})
        # The last of repeated events: the tick isn't done before it.
        by_domain[key_of(event)] = max(at, by_domain.get(key_of(event), 0.0))
    ticks = sorted({tick for _, tick in last})
    # A tick that one domain didn't finish would look fast.
    complete = [
        tick for tick in ticks if all(len(last.get((kind, tick), {})) == domains for kind in PATH)
    ]
    return {
        tick: TickTimes(*(max(last[kind, tick].values()) for kind in PATH)) for tick in complete
    }


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """Median, 99th percentile and maximum."""
    if not values:
        raise InputError("nothing was measured: no tick completed the path")
    p50, p99 = np.percentile(values, (50, 99)).tolist()
    return {"p50": p50, "p99": p99, "max": max(values)}


def by_hop(times: Mapping[int, TickTimes]) -> dict[str, dict[str, float]]:
    """Quantiles of each hop; they don't add up to those of the whole path."""
    columns = zip(*(one.hops_ms for one in times.values()), strict=True)
    return {name: quantiles(column) for name, column in zip(HOPS, columns, strict=True)}


class TickWatcher:
    """Waits for ticks to close by reading topics, without loading the simulated cluster."""

    def __init__(
        self, reader: TopicReader, domains: Sequence[str], check: Callable[[], None]
    ) -> None:
        self._reader, self._check = reader, check
        self._closed = dict.fromkeys(domains, -1)
        reader.seek([topic_of(ScaleApplied).name], from_beginning=True)

    @property
    def closed(self) -> int:
        """The last tick that all domains are known to have closed; -1 before the first."""
        return min(self._closed.values())

    def wait(self, tick: int, timeout_s: float) -> None:
        """Wait until all domains have closed the tick; `check` raises to stop the wait."""
        deadline = time.monotonic() + timeout_s
        while self.closed < tick:
            self._check()
            if time.monotonic() > deadline:
                raise InputError(
                    f"tick {tick} did not close within {timeout_s:.0f} s; the last was "
                    f"{self.closed}"
                )
            for record in self._reader.poll(_POLL_S):
                if isinstance(record.event, ScaleApplied):
                    domain = record.event.domain
                    self._closed[domain] = max(self._closed[domain], record.event.tick)
