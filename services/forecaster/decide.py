"""The forecaster: frames of all domains in, at each minute a forecast per domain out.

The rule of a model is made for a stretch of time from what is recorded, and made anew when the
stretch ends or the calendar changes. Where there is no record it says nothing: a Commander
without a forecast goes by what it sees. The trained network goes on from stretch to stretch.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from models.cluster.description import Cluster
from models.cluster.observation import ACTIVE, DOMAIN, POOL_STATUS, SAMPLES, STATUS, Observation
from models.forecaster.calendar import Calendar
from models.forecaster.learned.forecaster import Given, Learned
from models.forecaster.learned.record import record_of, rows_of
from models.forecaster.minutes import start_minutes, take_in
from models.forecaster.port import HORIZONS_MIN, QUANTILES, Forecast, Forecaster
from schemas.app_declared import AppDeclared
from schemas.demand_backfilled import DemandBackfilled
from schemas.demand_forecast import DemandForecast
from schemas.domain_observed import DomainObserved
from schemas.event_scheduled import EventScheduled
from schemas.fields import Event
from services._kit.clock import Clock
from services._kit.frames import measured_rows, observation_of, silence, status_rows, unheard
from services._kit.gathering import Gathering
from services._kit.handler import Handler, Refused, Step
from services._kit.roster import Roster
from services._kit.snapshot import pack, unpack
from services._kit.times import Axis, axis_of
from services.forecaster.course import Course, fitted, memory_of, moved, resumed
from services.forecaster.lately import Lately, loaded, nothing_lately, saved, with_minute
from services.forecaster.learned import SHIPPED, Learning, compile_kernels, fits, opened, unfilled
from services.forecaster.model import LEARNED, announced, build, recorded
from services.forecaster.serving import told_of, versioned


@dataclass
class ForecasterState:
    """Of the whole cluster."""

    lately: Lately
    gathering: Gathering[DomainObserved] = field(default_factory=Gathering)
    course: Course | None = None
    """None before the first tick, or without a record."""
    saved: dict[str, Any] | None = None
    """What a restart has to take up again, once the inventory and the calendar are read."""


class ForecasterHandler(Handler[ForecasterState]):
    """Serves one model for all domains."""

    name = "forecaster"
    scope = "cluster"
    inputs = (DomainObserved,)
    reference = (AppDeclared, EventScheduled, DemandBackfilled)

    def __init__(
        self,
        cluster: Cluster,
        model: str,
        rule_minutes: int,
        grace_s: float | None,
        learning: Learning = SHIPPED,
    ) -> None:
        self._cluster, self._roster = cluster, Roster(cluster)
        self._learning = learning
        self._network = opened(learning) if model == LEARNED else None
        self._model, self._minutes, self._grace = model, rule_minutes, grace_s
        self._tick_s = cluster.tick_seconds
        self._per_minute = max(1, 60 // cluster.tick_seconds)
        self._events: dict[str, EventScheduled] = {}
        self._calendar = 0
        self._past: dict[str, DemandBackfilled] = {}

    def learn(self, event: Event) -> None:
        """Apps, announcements and what was recorded before."""
        match event:
            case AppDeclared():
                self._roster.learn(event)
            case EventScheduled():
                self._events[event.name] = event
                self._calendar += 1
            case DemandBackfilled():
                self._past[event.domain] = event
            case _:
                pass

    def forget(self, kind: type[Event], key: str) -> None:
        """Apps that are gone, announcements that were withdrawn, records that nobody believes."""
        if kind is AppDeclared:
            self._roster.forget(key)
        elif kind is EventScheduled and self._events.pop(key, None) is not None:
            self._calendar += 1
        elif kind is DemandBackfilled:
            self._past.pop(key, None)

    def prepare(self) -> None:
        """Let the kernels be compiled: without apps it takes as long as with them."""
        minutes = start_minutes(silence(0), np.zeros((1, len(self._roster.domains), 1), np.float32))
        take_in(silence(0), minutes, self._per_minute)
        if self._network is not None:
            compile_kernels()

    def start(self, key: str) -> ForecasterState:  # noqa: ARG002  there is one
        """Nothing seen yet."""
        return ForecasterState(nothing_lately(len(self._roster.domains)))

    def handle(self, event: Event, state: ForecasterState, clock: Clock) -> Step[ForecasterState]:
        """Gather the frames of a tick, then look at it."""
        if not isinstance(event, DomainObserved):
            return Step(state)
        self._roster.check(event.domain)
        state.gathering.add(event.tick, event.domain, event, clock.now())
        return self.wake(state, clock)

    def due(self, state: ForecasterState) -> float | None:
        """When the earliest tick has waited long enough."""
        return state.gathering.due(self._grace)

    def wake(self, state: ForecasterState, clock: Clock) -> Step[ForecasterState]:
        """Look at every tick that is whole."""
        everybody, events, now = frozenset(self._roster.domains), [], clock.now()
        before = state.gathering.closed
        while (tick := state.gathering.ready(everybody, now, self._grace)) is not None:
            events += self._look(tick, state.gathering.close(tick), state)
        changed = state.gathering.closed != before
        waits = not state.gathering.empty
        return Step(replace(state) if changed else state, events, settled=not waits)

    def save(self, state: ForecasterState) -> bytes:
        """Frames that wait are not kept: they are delivered again."""
        values: dict[str, Any] = {
            "closed": state.gathering.closed,
            "lately": saved(state.lately),
        }
        if state.course is not None:
            values |= memory_of(state.course)
        return pack(values)

    def load(self, key: str, data: bytes) -> ForecasterState:  # noqa: ARG002  there is one
        """The model is built again at the next tick, when the calendar is known."""
        values = unpack(data)
        lately, domains = loaded(values["lately"]), len(self._roster.domains)
        if len(lately.rps) != domains:
            raise Refused("domains", f"expected {domains} domains, got {len(lately.rps)}")
        goes_on = "origin" in values and self._goes_on(values)
        course = values if goes_on else None
        return ForecasterState(lately, Gathering(values["closed"]), saved=course)

    def _goes_on(self, values: dict[str, Any]) -> bool:
        """Whether the model was at work that is now; another one begins from the record."""
        if self._network is None:
            return "learned" not in values
        return fits(values.get("learned"), len(self._roster.domains))

    def _look(
        self, tick: int, frames: dict[str, DomainObserved], state: ForecasterState
    ) -> list[Event]:
        """Take in a tick; at the end of a minute say what is to come."""
        first = next(iter(frames.values()))
        axis = axis_of(tick, first.time, self._tick_s)
        course = self._course(tick, axis, state)
        if course is None:
            return []
        names = tuple(app.app for app in self._roster.everybody())
        seen = self._whole(tick - course.origin, frames)
        if names != course.names:
            course.state = fitted(course.state, course.names, names, seen)
            course.names = names
        forecast, course.state = course.model.step(seen, course.state)
        if tick % self._per_minute:
            return []
        minutes = course.state.minutes
        newest = np.where(minutes.heard[0] == 1, minutes.domain[0, :, -1], np.nan).tolist()
        recorded_min = min(map(self._recorded_min, self._roster.domains))
        state.lately = with_minute(state.lately, tick // self._per_minute, newest, recorded_min)
        return [self._said(place, tick, first, forecast, course) for place in self._places()]

    def _places(self) -> range:
        return range(len(self._roster.domains))

    def _course(self, tick: int, axis: Axis, state: ForecasterState) -> Course | None:
        """The model at work, made anew where its time is over or the calendar has changed."""
        if any(domain not in self._past for domain in self._roster.domains):
            return None
        course = state.course
        # From the beginning of a minute: those of the model are those of everybody.
        origin = tick - tick % self._per_minute
        if course is None and state.saved is not None:
            course = self._resume(axis, state, state.saved)
        elif course is None:
            course = self._begin(origin, axis, state)
        elif tick - course.origin >= self._minutes * self._per_minute:
            course = self._resume(axis, state, moved(memory_of(course), origin))
        elif course.calendar != self._calendar:
            course = self._resume(axis, state, memory_of(course))
        state.course, state.saved = course, None
        return course

    def _begin(self, origin: int, axis: Axis, state: ForecasterState) -> Course:
        model = self._built(origin, axis, state)
        names = tuple(app.app for app in self._roster.everybody())
        blank = self._whole(0, {})
        return Course(origin, model, model.start(blank), names, self._calendar)

    def _resume(self, axis: Axis, state: ForecasterState, before: dict[str, Any]) -> Course:
        """A stretch with what was remembered."""
        origin, names = before["origin"], tuple(before["names"])
        model = self._built(origin, axis, state)
        newest = before.get("newest", origin // self._per_minute)
        record = record_of(unfilled(self._rows(newest, state)), newest)
        return Course(origin, model, resumed(model, before, record), names, self._calendar)

    def _built(self, origin: int, axis: Axis, state: ForecasterState) -> Forecaster[Any]:
        """From the record, and what was seen from its end to the origin."""
        rows = self._rows(origin // self._per_minute, state)
        events, domains = self._events.values(), self._roster.domains
        rule = build(self._model, recorded(rows), self._minutes, axis, origin, events, domains)
        if self._network is None or not isinstance(rule, Calendar):
            return rule
        told = announced(events, axis, origin, domains)
        given = Given(
            history=unfilled(rows)[None],
            first_minute=origin // self._per_minute,
            start_minute_of_week=axis.minute_of_week(origin),
            rows=rows_of(self._cluster, told, self._per_minute),
            tick_s=self._tick_s,
        )
        return Learned(self._network, rule, given, self._learning.settings)

    def _rows(self, last: int, state: ForecasterState) -> list[list[float | None]]:
        """What is known of each domain up to a minute, the newest last."""
        rows = []
        for place, domain in enumerate(self._roster.domains):
            rps, until = self._past[domain].rps, self._recorded_min(domain)
            # A record that came later goes beyond that minute: that is not past there.
            before = rps[: max(0, len(rps) - max(0, until - last))]
            rows.append([*before, *state.lately.between(place, until, last).tolist()])
        return rows

    def _recorded_min(self, domain: str) -> int:
        """The last minute of which there is a record."""
        return self._past[domain].until_tick // self._per_minute

    def _whole(self, tick: int, frames: dict[str, DomainObserved]) -> Observation:
        """The frames of all domains as one observation; an app without a frame is missing.

        One that a frame names before its declaration came here is left out until it has come.
        """
        apps = self._roster.everybody()
        places = {app.app: place for place, app in enumerate(apps)}
        status = np.zeros((1, STATUS, len(apps)), np.int32)
        rows = np.full((1, SAMPLES, len(apps)), np.nan, np.float32)
        status[0, ACTIVE] = 1
        status[0, DOMAIN] = [self._roster.place(app.domain) for app in apps]
        for domain, frame in frames.items():
            held = [(at, places[name]) for at, name in enumerate(frame.apps) if name in places]
            source, target = ([pair[side] for pair in held] for side in (0, 1))
            pods = status_rows(frame.pods, self._roster.place(domain))
            status[:, :, target] = pods[:, :, source]
            rows[:, :, target] = measured_rows(frame.measured, len(frame.apps))[:, :, source]
        return observation_of(tick, status, rows, unheard(rows), np.zeros((1, 0), POOL_STATUS))

    def _said(
        self, place: int, tick: int, frame: DomainObserved, forecast: Forecast, course: Course
    ) -> DemandForecast:
        served = told_of(forecast.serving, place) if forecast.serving is not None else {}
        said = DemandForecast(
            tick=tick,
            time=frame.time,
            trace_id=frame.trace_id,
            domain=self._roster.domains[place],
            model=versioned(forecast.model),
            valid_until_tick=int(forecast.valid_until_tick[0]) + course.origin,
            horizons_minutes=list(HORIZONS_MIN),
            quantiles=list(QUANTILES),
            rps=forecast.domain[0, place].tolist(),
            peak_rps=forecast.domain_peak[0, place].tolist(),
        )
        return msgspec.structs.replace(said, **served)
