"""Builds the forecaster's model from the recorded history and the announced events."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32
from models.cluster.calendar import HISTORY_MINUTES, Announcement
from models.control.plausible import Span
from models.forecaster.calendar import Calendar
from models.forecaster.learned import conformal, memory, scores
from models.forecaster.learned.forecaster import NAME
from models.forecaster.learned.record import WIDTH
from models.forecaster.learned.serving import Model
from models.forecaster.past import Past, past_from
from models.forecaster.port import HORIZONS_MIN, QUANTILES, Forecaster
from models.forecaster.seasonal import persistence, seasonal
from models.inputs.errors import InputError
from models.registry.load import Artefact as VerifiedArtefact
from schemas.demand_backfilled import DemandBackfilled
from schemas.event_scheduled import EventScheduled
from services._kit.ticks import Axis, parse

Build = Callable[[Past, Sequence[Announcement], int], Forecaster[Any]]
LEARNED: Final = NAME
"""Name of the trained network."""
MODELS: Final[dict[str, Build]] = {
    "calendar": Calendar,
    "seasonal": lambda past, _, tick_s: seasonal(past, tick_s),
    "persistence": lambda past, _, tick_s: persistence(past, tick_s),
    LEARNED: Calendar,
}
"""Rule by model name; the trained network runs on top of the rule that is its fallback."""
_MOST_AHEAD_MIN: Final = 1440
"""A history may be ahead of frames that waited: their topic keeps them for a day."""
_FAR_TICKS: Final = 2**30
"""340 years of ticks of 10 s."""


class Learning(NamedTuple):
    """How a trained network is served."""

    folder: Path | None = None
    """None: the shipped one."""
    keys: Path | None = None
    """Public keys of those who may sign the model of a folder; None: nobody may."""
    settings: memory.Settings = memory.DEFAULTS


SHIPPED: Final = Learning()


def open_network(learning: Learning) -> Model:
    """Load the network; raises InputError with what to do if there is none."""
    try:
        # Imported here because it loads onnxruntime, which the rules do not need.
        from models.forecaster.learned.artefact import (  # noqa: PLC0415
            load_artefact,
            load_model,
            model_of,
        )
        from models.registry.keys import Trust, trusted_keys  # noqa: PLC0415
    except ImportError as error:
        raise InputError(f"model: tft: {error}; install the extra `serve`") from error
    if learning.folder is None:
        return load_model()
    trust = Trust({} if learning.keys is None else trusted_keys(learning.keys))
    return model_of(load_artefact(learning.folder, trust=trust))


def open_promoted(artefact: VerifiedArtefact) -> Model:
    """Open a promoted network, which is verified already."""
    from models.forecaster.learned.artefact import model_of, opened_artefact  # noqa: PLC0415

    return model_of(opened_artefact(artefact, artefact.name))


def compile_network_kernels() -> None:
    """Compile the calibration's kernels: no rows are needed for that."""
    horizons = len(HORIZONS_MIN)
    values, peak = np.zeros((0, horizons, len(QUANTILES))), np.zeros((0, horizons))
    conformal.step(scores.start(0), values, peak, np.zeros(0), 0)


def build_rule(
    name: str,
    history: F32,
    minutes: int,
    axis: Axis,
    origin: int,
    events: Iterable[EventScheduled],
    domains: Sequence[str],
) -> Forecaster[Any]:
    """A rule for `minutes` from the tick `origin` on, at which the recorded history ends."""
    past = past_from(history, minutes, axis.minute_of_week(origin))
    return MODELS[name](past, announced(events, axis, origin, domains), axis.tick_s)


def announced(
    events: Iterable[EventScheduled], axis: Axis, origin: int, domains: Sequence[str]
) -> tuple[Announcement, ...]:
    """Events that are not cancelled, in ticks since `origin`, the earliest first."""
    announcements = [
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
    return tuple(sorted(announcements, key=lambda announcement: announcement.start_tick))


def span_of(event: EventScheduled) -> Span:
    """When an announced event takes place, and how large it is to be."""
    start, end = parse(event.starts_at).timestamp(), parse(event.ends_at).timestamp()
    return Span(start, end, event.expected_factor)


def _bounded(tick: int) -> int:
    """Models count ticks in 32 bits; an event centuries away never comes."""
    return max(-_FAR_TICKS, min(_FAR_TICKS, tick))


class Recorded(NamedTuple):
    """A domain's recorded history as it is believed."""

    rps: Sequence[float | None]
    until: int
    """Number of its last minute; what was observed after it counts."""
    problem: str = ""


def recorded(history: DemandBackfilled, axis: Axis, per_minute: int) -> Recorded:
    """The history; empty, with the problem, if its end is implausible: then observations count."""
    until, expected = history.until_tick, axis.tick_at(history.until)
    if abs(until - expected) > 1:
        problem = f"the recorded history ends at {history.until}, tick {expected}, not {until}"
        return Recorded((), 0, problem)
    if until > axis.tick + _MOST_AHEAD_MIN * per_minute:
        return Recorded((), 0, f"the recorded history ends in the future, at {history.until}")
    return Recorded(history.rps, until // per_minute)


def filled_history(rows: Sequence[Sequence[float | None]]) -> F32:
    """[1, D, HISTORY_MINUTES] recorded minutes; a gap repeats the minute before it.

    Gaps at the beginning repeat the first recorded minute, and so does a shorter history: as zeros
    they would lower the forecast, and what is missing must never lower anything.
    """
    history = np.empty((1, len(rows), HISTORY_MINUTES), np.float32)
    for domain, row in enumerate(rows):
        values = np.array(row[-HISTORY_MINUTES:] or [0.0], np.float32)
        known = np.isfinite(values)
        # Index of the newest recorded minute up to each minute; of the first one before that.
        last = np.maximum.accumulate(np.where(known, np.arange(values.size), known.argmax()))
        filled = values[last] if known.any() else np.zeros_like(values)
        history[0, domain] = np.pad(filled, (HISTORY_MINUTES - filled.size, 0), mode="edge")
    return history


def history_with_gaps(rows: Sequence[Sequence[float | None]]) -> F32:
    """[D, WIDTH] recorded minutes, the newest last; NaN where there are gaps."""
    history = np.full((len(rows), WIDTH), np.nan, np.float32)
    for domain, row in enumerate(rows):
        values = np.array(row[-WIDTH:], np.float32)
        history[domain, WIDTH - values.size :] = values
    return history
