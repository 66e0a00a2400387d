"""A writer that records what is published, and a source with scripted answers."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry

from schemas.app_declared import AppDeclared
from schemas.demand_backfilled import DemandBackfilled
from schemas.event_scheduled import EventScheduled
from schemas.fields import Event
from schemas.metrics_sampled import MetricsSampled
from services.collector.collect import Observed
from services.collector.metrics import Metrics


class MemoryWriter:
    """Records events in order; can be made to crash before it saves."""

    def __init__(self) -> None:
        self.published: list[Event] = []
        self.saved: dict[str, bytes] = {}
        self.crash_at_save = False

    async def publish(self, events: Sequence[Event]) -> None:
        self.published += events

    async def save(self, key: str, data: bytes | None, partition: int | None) -> None:
        assert partition is None
        if self.crash_at_save:
            raise RuntimeError("crashed")
        if data is not None:
            self.saved[key] = data

    def ticks(self) -> list[int]:
        return [event.tick for event in self.published if isinstance(event, MetricsSampled)]


class ScriptedSource:
    """Returns its answers one after the other; raises those that are exceptions."""

    name = "scripted"

    def __init__(self, *answers: Observed | Exception | None) -> None:
        self.asked: list[int] = []
        self._answers = list(answers)

    async def inventory(self) -> Sequence[AppDeclared]:
        return [AppDeclared(app="a", domain="d", ordinal=0)]

    async def calendar(self) -> Sequence[EventScheduled]:
        return []

    async def history(self) -> Sequence[DemandBackfilled]:
        return []

    async def observe(self, after: int) -> Observed | None:
        self.asked.append(after)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        pass


def sampled(tick: int, rps: float | None = 1.0) -> Observed:
    batch = MetricsSampled(
        tick=tick, time="2026-01-06T10:00:00Z", domain="d", final=True, apps=["a"], rps=[rps]
    )
    return Observed(tick, [batch])


END = Observed(99, [], finished=True)


def metrics() -> tuple[Metrics, CollectorRegistry]:
    registry = CollectorRegistry()
    return Metrics(registry), registry
