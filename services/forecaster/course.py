"""A model at work for a stretch of time, and how what it remembers is taken from one to another."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from models.cluster.observation import Observation
from models.forecaster.calendar import CalendarState
from models.forecaster.learned.forecaster import Learned, LearnedState
from models.forecaster.learned.record import Record
from models.forecaster.minutes import Minutes, start_minutes
from models.forecaster.port import Forecaster
from models.forecaster.scaled import ScaledState
from services._kit.frames import silence
from services._kit.snapshot import fit_apps
from services.forecaster.learned import kept, restored

State = CalendarState | ScaledState | LearnedState
_EVENTS: Final = ("begun", "over", "quiet")
"""What the calendar remembers of announced events, in minutes since the course's tick 0."""
_BY_APP: Final = ("total", "samples", "app")


@dataclass
class Course:
    """Since when, on which apps, and what it remembers."""

    origin: int
    """Tick that is the model's tick 0."""
    model: Forecaster[Any]
    state: State
    names: tuple[str, ...]
    """Apps on the model's app axis."""
    calendar: int
    """Version of the calendar it was built with."""


def memory_of(course: Course) -> dict[str, Any]:
    """What another course, or the same after a restart, has to know."""
    state = course.state
    values: dict[str, Any] = {"origin": course.origin, "names": course.names}
    values["minutes"] = state.minutes._asdict()
    if isinstance(state, LearnedState):
        values |= {"newest": state.record.newest, "learned": kept(state.memory)}
    rule = state.simple if isinstance(state, LearnedState) else state
    if isinstance(rule, CalendarState):
        values |= {name: getattr(rule, name) for name in _EVENTS}
    return values


def moved(saved: Mapping[str, Any], origin: int) -> dict[str, Any]:
    """The same for a later origin: minutes go on, events have to show again."""
    values = {name: value for name, value in saved.items() if name not in _EVENTS}
    minutes = Minutes(**saved["minutes"])
    tick = minutes.tick + (saved["origin"] - origin)
    return values | {"origin": origin, "minutes": minutes._replace(tick=tick)._asdict()}


def resumed(model: Forecaster[Any], saved: Mapping[str, Any], record: Record) -> State:
    """A model's state with what was remembered; a network's with its record until then."""
    blank = silence(len(saved["names"]))
    if isinstance(model, Learned):
        rows = record.rps.shape[0]
        learned = model.resume(blank, record, restored(saved["learned"], rows))
        return learned._replace(simple=_remembering(learned.simple, saved))
    started: CalendarState | ScaledState = model.start(blank)
    if isinstance(started, CalendarState):
        return _remembering(started, saved)
    return started._replace(minutes=Minutes(**saved["minutes"]))


def fitted(state: State, old: tuple[str, ...], new: tuple[str, ...], seen: Observation) -> State:
    """Apps came or went: keep what is known of the others."""
    minutes = state.minutes
    start = start_minutes(seen, minutes.domain)
    by_app: dict[str, Any] = {
        name: fit_apps(getattr(minutes, name), old, new, getattr(start, name)) for name in _BY_APP
    }
    fit = minutes._replace(**by_app)
    if isinstance(state, LearnedState):
        return state._replace(simple=state.simple._replace(minutes=fit))
    return state._replace(minutes=fit)


def _remembering(started: CalendarState, saved: Mapping[str, Any]) -> CalendarState:
    began = saved.get("begun")
    if began is None or began.shape != started.begun.shape:
        return started._replace(minutes=Minutes(**saved["minutes"]))
    events = {name: saved[name] for name in _EVENTS}
    return started._replace(minutes=Minutes(**saved["minutes"]), **events)
