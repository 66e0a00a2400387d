"""What the forecaster remembers: the minutes it observed, and the progress of its model.

A model runs for a stretch of time from its origin on. `Progress` is what the next stretch, or the
same one after a restart, continues from; `Running` is the model that works on it, in memory only.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, I32
from models.cluster.calendar import HISTORY_MINUTES
from models.cluster.observation import Observation
from models.forecaster.calendar import CalendarState
from models.forecaster.learned import memory as learned_memory
from models.forecaster.learned import scores
from models.forecaster.learned.forecaster import Learned, LearnedState
from models.forecaster.learned.memory import ForecastMemory
from models.forecaster.learned.record import Record
from models.forecaster.minutes import MinuteMeans, start_minutes
from models.forecaster.past import LEAD_MIN
from models.forecaster.port import Forecaster
from models.forecaster.seasonal import RuleState
from services._kit.arrays import blank_observation
from services._kit.state_codec import check_form, copied, fit_apps

ModelState = CalendarState | RuleState | LearnedState
_PER_APP: Final = ("total", "samples", "app", "cpu")
"""Fields of `MinuteMeans` with an axis of apps."""


class RecentMinutes(NamedTuple):
    """Consecutive minutes that were observed after the recorded history ends. D domains.

    A minute has a number: the tick at its end over the ticks per minute. Values are float32
    because twelve domains have to fit into one state record.
    """

    first: int
    """Number of the first minute."""
    rps: F32
    """[D, minutes] requests per second; NaN where the minute was not observed."""

    @property
    def end(self) -> int:
        """Number of the minute after the last one."""
        return self.first + len(self.rps[0])

    def of(self, rows: Sequence[int | None]) -> "RecentMinutes":
        """The rows of these domains; of a new one (None) nothing was observed."""
        unseen = np.full(len(self.rps[0]), np.float32(np.nan))
        found = [unseen if row is None else self.rps[row] for row in rows]
        return RecentMinutes(self.first, np.stack(found))

    def between(self, domain: int, after: int, last: int) -> F32:
        """Minutes `after` + 1 to `last` of a domain; NaN where they were not observed."""
        minutes = np.arange(max(after, last - HISTORY_MINUTES), last) + 1
        found = np.full(minutes.size, np.float32(np.nan))
        observed = (minutes >= self.first) & (minutes < self.end)
        found[observed] = self.rps[domain, minutes[observed] - self.first]
        return found


def no_minutes(domains: int) -> RecentMinutes:
    """No observed minutes yet."""
    return RecentMinutes(0, np.empty((domains, 0), np.float32))


def with_minute(
    recent: RecentMinutes, minute: int, rps: Sequence[float], recorded: int
) -> RecentMinutes:
    """Append a minute; drop what is recorded by now and what no model looks back to."""
    # A tick that is decided again after a restart finds its minute here.
    if minute < recent.end:
        return recent
    before = max(recorded, minute - HISTORY_MINUTES)
    columns = np.stack([recent.between(domain, before, minute) for domain in range(len(rps))])
    # `-1:` and not `-1`: where the record reaches beyond this minute, there is no column to set.
    columns[:, -1:] = np.array(rps, np.float32)[:, None]
    return RecentMinutes(before + 1, columns)


class EventProgress(NamedTuple):
    """What the calendar model observed of announced events, in minutes since the origin."""

    begun: I32
    over: I32
    quiet: F32
    names: tuple[str, ...] = ()
    """[K] of the events; none in a state of a release that did not save them."""


@dataclass(frozen=True)
class Progress:
    """What a model has to remember, whichever model it is."""

    origin: int
    """Tick that is the model's tick 0."""
    names: tuple[str, ...]
    """Apps on the model's app axis."""
    minutes: MinuteMeans
    events: EventProgress | None = None
    """Announced events as the calendar model observed them."""
    newest: int | None = None
    """Number of the last minute that the network's record has."""
    learned: ForecastMemory | None = None
    """Memory of the trained network."""


@dataclass(frozen=True)
class Running:
    """A running model."""

    model: Forecaster[Any]
    state: ModelState
    calendar: int
    """Version of the calendar that the model was built with."""
    events: tuple[str, ...] = ()
    """[K] names of the announced events, in the order of the model's columns."""


def progress_of(
    origin: int, names: tuple[str, ...], state: ModelState, announced: tuple[str, ...]
) -> Progress:
    """The part of a model's state that has to survive it."""
    progress = Progress(origin, names, state.minutes)
    if isinstance(state, LearnedState):
        progress = replace(progress, newest=state.record.newest, learned=state.memory)
    rule = state.simple if isinstance(state, LearnedState) else state
    if isinstance(rule, CalendarState):
        events = EventProgress(rule.begun, rule.over, rule.quiet, announced)
        progress = replace(progress, events=events)
    return progress


def moved(progress: Progress, origin: int) -> Progress:
    """Continue from a later origin: minutes go on, announced events have to show again."""
    minutes = progress.minutes
    # The model's ticks count from the origin, so they shift with it.
    tick = minutes.tick + (progress.origin - origin)
    return replace(progress, origin=origin, minutes=minutes._replace(tick=tick), events=None)


def resumed(
    model: Forecaster[Any], progress: Progress, record: Record, announced: tuple[str, ...]
) -> ModelState:
    """State of a new model that continues; the network also needs its record until then."""
    blank = blank_observation(len(progress.names))
    if isinstance(model, Learned):
        assert progress.learned is not None  # noqa: S101  `accept` made sure
        learned = model.resume(blank, record, progress.learned)
        return learned._replace(simple=_with_progress(learned.simple, progress, announced))
    started: CalendarState | RuleState = model.start(blank)
    if isinstance(started, CalendarState):
        return _with_progress(started, progress, announced)
    return started._replace(minutes=progress.minutes)


def _with_progress(
    started: CalendarState, progress: Progress, announced: tuple[str, ...]
) -> CalendarState:
    started, events = started._replace(minutes=progress.minutes), progress.events
    if events is None:
        return started
    # By name: with another calendar the columns are other events, and those have to show first.
    return started._replace(
        begun=fit_apps(events.begun, started.begun, events.names, announced),
        over=fit_apps(events.over, started.over, events.names, announced),
        quiet=events.quiet,
    )


def fitted(
    state: ModelState, old: tuple[str, ...], new: tuple[str, ...], observed: Observation
) -> ModelState:
    """Follow a changed inventory: apps that stay keep their means."""
    minutes = state.minutes
    # Only the means have an axis of apps; events and the network's memory are per domain.
    start = start_minutes(observed, minutes.domain)
    per_app: dict[str, Any] = {
        name: fit_apps(getattr(minutes, name), getattr(start, name), old, new) for name in _PER_APP
    }
    fit = minutes._replace(**per_app)
    if isinstance(state, LearnedState):
        return state._replace(simple=state.simple._replace(minutes=fit))
    return state._replace(minutes=fit)


def unshared(state: ModelState) -> ModelState:
    """A copy of every array that `step` of a model updates in place."""
    if isinstance(state, LearnedState):
        simple = unshared(state.simple)
        assert isinstance(simple, CalendarState)  # noqa: S101  as it was
        return state._replace(simple=simple, memory=copied(state.memory))
    if isinstance(state, CalendarState):
        begun, over, quiet = state.begun.copy(), state.over.copy(), state.quiet.copy()
        state = state._replace(begun=begun, over=over, quiet=quiet)
    return state._replace(minutes=copied(state.minutes))


# Saving.


def compact(progress: Progress) -> Progress:
    """Without the sorted scores: a third of the network's memory, and quickly sorted again."""
    learned = progress.learned
    return progress if learned is None else replace(progress, learned=_without_sorted(learned))


def expanded(progress: Progress) -> Progress:
    """The reverse of `compact`."""
    if progress.learned is None:
        return progress
    calibration = progress.learned.calibration
    ordered = np.zeros_like(calibration.recent)
    # Only the stored scores are sorted: the rest of each buffer is unused.
    for index in np.ndindex(calibration.stored.shape):
        count = min(int(calibration.stored[index]), scores.SCORES)
        ordered[index][:count] = np.sort(calibration.recent[index][:count])
    calibration = calibration._replace(ordered=ordered)
    return replace(progress, learned=progress.learned._replace(calibration=calibration))


def check_progress(progress: Progress, domains: int) -> None:
    """Raise Refused unless a compact progress has arrays of the present models."""
    recorded = np.zeros((1, domains, LEAD_MIN), np.float32)
    check_form(progress.minutes, start_minutes(blank_observation(0), recorded), "minutes")
    check_form(progress.learned, _without_sorted(learned_memory.start(domains)), "learned")


def _without_sorted(learned: ForecastMemory) -> ForecastMemory:
    calibration = learned.calibration
    return learned._replace(calibration=calibration._replace(ordered=calibration.ordered[..., :0]))
