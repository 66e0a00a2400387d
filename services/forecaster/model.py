"""The model of the forecaster as it is built from what the bus has told."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from models.cluster.arrays import F32
from models.cluster.calendar import HISTORY_MINUTES, Announcement
from models.forecaster.calendar import Calendar
from models.forecaster.learned.forecaster import NAME
from models.forecaster.past import Past, past_from
from models.forecaster.persistence import persistence
from models.forecaster.port import Forecaster
from models.forecaster.seasonal import seasonal
from schemas.event_scheduled import EventScheduled
from services._kit.times import Axis

Build = Callable[[Past, Sequence[Announcement], int], Forecaster[Any]]
LEARNED: Final = NAME
"""Under which the trained network serves."""
MODELS: Final[dict[str, Build]] = {
    "calendar": Calendar,
    "seasonal": lambda past, _, tick_s: seasonal(past, tick_s),
    "persistence": lambda past, _, tick_s: persistence(past, tick_s),
    LEARNED: Calendar,
}
"""The rule of each name; the trained network is put on top of the one that stands in for it."""
_FAR_TICKS: Final = 2**30


def build(
    name: str,
    history: F32,
    minutes: int,
    axis: Axis,
    origin: int,
    events: Iterable[EventScheduled],
    domains: Sequence[str],
) -> Forecaster[Any]:
    """A model for `minutes` from the tick `origin` on, at which the recorded history ends."""
    past = past_from(history, minutes, axis.minute_of_week(origin))
    return MODELS[name](past, announced(events, axis, origin, domains), axis.tick_s)


def announced(
    events: Iterable[EventScheduled], axis: Axis, origin: int, domains: Sequence[str]
) -> tuple[Announcement, ...]:
    """The calendar in ticks since `origin`, the earliest first, without what was called off."""
    placed = [
        Announcement(
            name=event.name,
            domains=tuple(domains.index(name) for name in event.domains if name in domains),
            start_tick=_bounded(axis.tick_at(event.starts_at) - origin),
            end_tick=_bounded(axis.tick_at(event.ends_at) - origin),
            expected_factor=event.expected_factor,
        )
        for event in events
        if not event.cancelled
    ]
    return tuple(sorted(placed, key=lambda announcement: announcement.start_tick))


def _bounded(tick: int) -> int:
    """What is announced for centuries from now never comes; the models count in 32 bits."""
    return max(-_FAR_TICKS, min(_FAR_TICKS, tick))


def recorded(rows: Sequence[Sequence[float | None]]) -> F32:
    """[1, D, HISTORY_MINUTES] minutes per domain; a gap keeps the minute before it.

    What is older than the record is taken for its first minute.
    """
    history = np.empty((1, len(rows), HISTORY_MINUTES), np.float32)
    for place, row in enumerate(rows):
        values = np.array(row[-HISTORY_MINUTES:] or [0.0], np.float32)
        seen = np.where(np.isfinite(values), np.arange(values.size), -1)
        last = np.maximum.accumulate(seen)
        filled = np.where(last >= 0, values[np.maximum(last, 0)], np.float32(0))
        history[0, place] = np.pad(filled, (HISTORY_MINUTES - filled.size, 0), mode="edge")
    return history
