"""The forecaster: frames of all domains in, one forecast per domain and minute out.

A rule is built from the recorded history for a stretch of time, and built again when the stretch
ends or the calendar changes. The trained network continues from stretch to stretch. Without a
recorded history there is no forecast: the Commander then goes by what it observes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
import numpy as np

from models.cluster import rows
from models.cluster.description import Cluster
from models.cluster.observation import POOL_STATUS, Observation
from models.control.plausible import factor_problem, forecast_problem
from models.forecaster.calendar import Calendar
from models.forecaster.learned.forecaster import Given, Learned
from models.forecaster.learned.record import record_of, rows_of
from models.forecaster.minutes import add_tick, start_minutes
from models.forecaster.port import (
    HORIZONS_MIN,
    QUANTILES,
    Forecast,
    Forecaster,
    Serving,
    ticks_per_minute,
)
from schemas.app_declared import AppDeclared
from schemas.demand_backfilled import DemandBackfilled
from schemas.demand_forecast import DemandForecast
from schemas.domain_observed import DomainObserved
from schemas.event_scheduled import EventScheduled
from schemas.fields import Event
from services._kit.arrays import (
    blank_observation,
    measured_rows,
    observation_of,
    status_rows,
    without_samples,
)
from services._kit.clock import Clock
from services._kit.errors import Refused
from services._kit.handler import Handler, Step
from services._kit.inventory import DeclaredApps
from services._kit.plausible import Pace, Timeline, bounded, following
from services._kit.state_codec import Transient
from services._kit.ticks import Axis, TickBuffer, axis_of
from services.forecaster.model import (
    LEARNED,
    SHIPPED,
    Learning,
    announced,
    build_rule,
    compile_network_kernels,
    filled_history,
    history_with_gaps,
    open_network,
    span_of,
)
from services.forecaster.progress import (
    Progress,
    RecentMinutes,
    Running,
    check_progress,
    compact,
    expanded,
    fitted,
    moved,
    no_minutes,
    progress_of,
    resumed,
    unshared,
    with_minute,
)

_RULE_VERSION: Final = "1"
"""Version of the rules; a trained model has its own."""


@dataclass(frozen=True)
class ForecasterState:
    """What the forecaster remembers of the whole cluster."""

    recent: RecentMinutes
    ticks: TickBuffer[DomainObserved] = field(default_factory=TickBuffer)
    """Frames of incomplete ticks, by domain."""
    timeline: Timeline = field(default_factory=Timeline)
    progress: Progress | None = None
    """None before the first tick, or without a recorded history."""
    running: Transient[Running | None] = None
    """None after a restart too, until inventory and calendar are there to build the model."""


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
        speed: float = 1.0,
    ) -> None:
        self._cluster, self._apps = cluster, DeclaredApps(cluster)
        self._learning = learning
        self._network = open_network(learning) if model == LEARNED else None
        self._model, self._minutes, self._grace = model, rule_minutes, grace_s
        self._tick_s = cluster.tick_seconds
        self._pace = Pace(cluster.tick_seconds, None if grace_s is None else speed)
        self._voters = frozenset(self._apps.domains)
        self._per_minute = ticks_per_minute(cluster.tick_seconds)
        self._events: dict[str, EventScheduled] = {}
        self._calendar = 0
        """Version of the calendar: rises with each change."""
        self._history: dict[str, DemandBackfilled] = {}

    def learn(self, event: Event, clock: Clock) -> None:  # noqa: ARG002  needs no time
        """Take in apps, announced events and recorded histories."""
        match event:
            case AppDeclared():
                self._apps.learn(event)
            case EventScheduled():
                self._check_factor(event)
                self._events[event.name] = event
                self._calendar += 1
            case DemandBackfilled():
                self._history[event.domain] = event
            case _:
                pass

    def _check_factor(self, event: EventScheduled) -> None:
        """Refuse an announcement that nobody should prepare for; its last record stays."""
        # One that is cancelled takes effect whatever its factor: it only takes something back.
        if event.cancelled:
            return
        others = [
            span_of(one)
            for name, one in self._events.items()
            if name != event.name and not one.cancelled and {*one.domains} & {*event.domains}
        ]
        problem = factor_problem(span_of(event), others, self._cluster.largest_factor)
        if problem:
            hint = "raise largest_factor in the cluster file if it is meant"
            raise Refused("implausible-factor", f"{problem}; {hint}")

    def forget(self, kind: type[Event], key: str, clock: Clock) -> None:  # noqa: ARG002  as above
        """Remove apps, announced events and recorded histories."""
        if kind is AppDeclared:
            self._apps.forget(key)
        elif kind is EventScheduled and self._events.pop(key, None) is not None:
            self._calendar += 1
        elif kind is DemandBackfilled:
            self._history.pop(key, None)

    def prepare(self) -> None:
        """Compile the kernels: no apps are needed for that."""
        minutes = start_minutes(
            blank_observation(0), np.zeros((1, len(self._apps.domains), 1), np.float32)
        )
        add_tick(blank_observation(0), minutes, self._per_minute)
        if self._network is not None:
            compile_network_kernels()

    def start(self, key: str) -> ForecasterState:  # noqa: ARG002  there is only one
        """Nothing observed yet."""
        return ForecasterState(no_minutes(len(self._apps.domains)))

    def handle(self, event: Event, state: ForecasterState, clock: Clock) -> Step[ForecasterState]:
        """Add a frame, then take in the ticks that are complete."""
        if not isinstance(event, DomainObserved):
            return Step(state)
        self._apps.check_domain(event.domain)
        if state.timeline.is_over(event.tick, state.ticks.closed):
            return Step(state)
        judged = state.timeline.judge(event.domain, event, clock.date(), self._pace, self._voters)
        ticks = following(state.ticks, judged, clock.date(), self._pace)
        state = replace(state, timeline=judged.timeline, ticks=ticks)
        if judged.refused is not None:
            return Step(state, refused=judged.refused)
        ticks = state.ticks.with_event(event.tick, event.domain, event, clock.now())
        ticks = bounded(ticks, state.timeline)
        return self.wake(replace(state, ticks=ticks), clock)

    def due(self, state: ForecasterState) -> float | None:
        """When the grace period of the earliest open tick ends."""
        return state.ticks.due(self._grace, state.timeline.tick)

    def wake(self, state: ForecasterState, clock: Clock) -> Step[ForecasterState]:
        """Take in, in order, the ticks that are complete or late."""
        domains, events = frozenset(self._apps.domains), list[Event]()
        while True:
            reached, now = state.timeline.reached(clock.date(), self._pace), clock.now()
            tick = state.ticks.ready(domains, now, self._grace, reached)
            if tick is None:
                break
            frames, ticks = state.ticks.close(tick)
            state = replace(state, ticks=ticks, timeline=state.timeline.settled())
            state, forecasts = self._take_in(tick, frames, state)
            events += forecasts
        return Step(state, events, settled=state.ticks.empty or state.timeline.line is None)

    def save(self, state: ForecasterState) -> bytes:
        """Leave out what can be computed again: the state of many domains is large."""
        if state.progress is not None:
            state = replace(state, progress=compact(state.progress))
        return super().save(state)

    def accept(self, key: str, state: ForecasterState) -> ForecasterState:
        """Drop the progress of another model: the configured one starts from the history."""
        state = super().accept(key, state)
        progress = state.progress
        # A rule leaves no memory of a network, and a network's is of no use to a rule.
        if progress is None or (progress.learned is None) != (self._network is None):
            return replace(state, progress=None)
        try:
            check_progress(progress, len(self._apps.domains))
        except Refused:
            return replace(state, progress=None)
        return replace(state, progress=expanded(progress))

    # One tick.

    def _take_in(
        self, tick: int, frames: Mapping[str, DomainObserved], state: ForecasterState
    ) -> tuple[ForecasterState, list[Event]]:
        """Step the model; publish forecasts at ticks that complete a minute (6n: minute n-1)."""
        first = next(iter(frames.values()))
        progress, running = self._running(tick, first.time, state)
        if progress is None or running is None:
            return state, []
        origin, names = progress.origin, self._app_names()
        # The model counts ticks from its origin.
        observed = self._observation(tick - origin, frames)
        # Models update their state in place; the input state must stay as it is.
        before = unshared(running.state)
        if names != progress.names:
            before = fitted(before, progress.names, names, observed)
        forecast, after = running.model.step(observed, before)
        state = replace(
            state,
            progress=progress_of(origin, names, after, running.events),
            running=replace(running, state=after),
        )
        if tick % self._per_minute:
            return state, []
        minutes = after.minutes
        # The model repeats the last minute of a silent domain; on record it is a gap.
        newest = np.where(minutes.observed[0] == 1, minutes.domain[0, :, -1], np.nan).tolist()
        # What only some domains have on record has to be kept for the others.
        recorded_min = min(map(self._recorded_min, self._apps.domains))
        recent = with_minute(state.recent, tick // self._per_minute, newest, recorded_min)
        forecasts: list[Event] = [
            self._believable(self._forecast(index, tick, first, forecast, origin), index, recent)
            for index in range(len(self._apps.domains))
        ]
        return replace(state, recent=recent), forecasts

    def _running(
        self, tick: int, time: str, state: ForecasterState
    ) -> tuple[Progress | None, Running | None]:
        """The model at work, built again where its stretch is over or the calendar changed."""
        # One model serves all domains, so it needs the history of each.
        if any(domain not in self._history for domain in self._apps.domains):
            return None, None
        progress, running = state.progress, state.running
        axis = axis_of(tick, time, self._tick_s)
        # Stretches begin with a minute: the model's minutes are those of the events.
        origin = tick - tick % self._per_minute
        if progress is None:
            return self._begin(origin, axis, state.recent)
        # After a restart: the same stretch, continued by a newly built model.
        if running is None:
            return self._resume(progress, axis, state.recent)
        if tick - progress.origin >= self._minutes * self._per_minute:
            return self._resume(moved(progress, origin), axis, state.recent)
        # Announcements are part of a model, so a changed calendar needs another one.
        if running.calendar != self._calendar:
            return self._resume(progress, axis, state.recent)
        return progress, running

    def _begin(self, origin: int, axis: Axis, recent: RecentMinutes) -> tuple[Progress, Running]:
        model = self._build(origin, axis, recent)
        started = model.start(self._observation(0, {}))
        events = self._announced(origin, axis)
        running = Running(model, started, self._calendar, events)
        return progress_of(origin, self._app_names(), started, events), running

    def _resume(
        self, progress: Progress, axis: Axis, recent: RecentMinutes
    ) -> tuple[Progress, Running]:
        """A newly built model that continues from earlier progress."""
        model = self._build(progress.origin, axis, recent)
        newest = progress.newest
        # Rules ignore the record; only the network has one.
        if newest is None:
            newest = progress.origin // self._per_minute
        record = record_of(history_with_gaps(self._rows(newest, recent)), newest)
        events = self._announced(progress.origin, axis)
        state = resumed(model, progress, record, events)
        return progress, Running(model, state, self._calendar, events)

    def _build(self, origin: int, axis: Axis, recent: RecentMinutes) -> Forecaster[Any]:
        """From the recorded history, and from what was observed between its end and `origin`."""
        table = self._rows(origin // self._per_minute, recent)
        events, domains = self._events.values(), self._apps.domains
        history = filled_history(table)
        # The network needs the rule too: it is its fallback.
        rule = build_rule(self._model, history, self._minutes, axis, origin, events, domains)
        if self._network is None or not isinstance(rule, Calendar):
            return rule
        calendar = announced(events, axis, origin, domains)
        given = Given(
            history=history_with_gaps(table)[None],
            first_minute=origin // self._per_minute,
            start_minute_of_week=axis.minute_of_week(origin),
            rows=rows_of(self._cluster, calendar, self._per_minute),
            tick_s=self._tick_s,
        )
        return Learned(self._network, rule, given, self._learning.settings)

    def _announced(self, origin: int, axis: Axis) -> tuple[str, ...]:
        """Names of the announced events, in the order of the model's columns."""
        found = announced(self._events.values(), axis, origin, self._apps.domains)
        return tuple(event.name for event in found)

    def _rows(self, last: int, recent: RecentMinutes) -> list[list[float | None]]:
        """Recorded and observed minutes of each domain up to minute `last`, the newest last."""
        table = []
        for index, domain in enumerate(self._apps.domains):
            rps, until = self._history[domain].rps, self._recorded_min(domain)
            # A history that arrived later extends beyond that minute: leave out its future.
            before = rps[: max(0, len(rps) - max(0, until - last))]
            table.append([*before, *recent.between(index, until, last).tolist()])
        return table

    def _recorded_min(self, domain: str) -> int:
        """The last minute of a domain's recorded history."""
        return self._history[domain].until_tick // self._per_minute

    def _app_names(self) -> tuple[str, ...]:
        return tuple(app.app for app in self._apps.all_apps())

    def _observation(self, tick: int, frames: Mapping[str, DomainObserved]) -> Observation:
        """The frames of all domains as one observation; an app without a frame is missing.

        Apps whose frame overtook their declaration are left out until it arrives.
        """
        # Declared order on the axis of apps, whichever frames are there: a model's state has it.
        apps = self._apps.all_apps()
        index = {app.app: column for column, app in enumerate(apps)}
        status = np.zeros((1, rows.STATUS, len(apps)), np.int32)
        table = np.full((1, rows.SAMPLES, len(apps)), np.nan, np.float32)
        status[0, rows.ACTIVE] = 1
        status[0, rows.DOMAIN] = [self._apps.domain_index(app.domain) for app in apps]
        for domain, frame in frames.items():
            declared = [(at, index[name]) for at, name in enumerate(frame.apps) if name in index]
            source, target = ([pair[side] for pair in declared] for side in (0, 1))
            pods = status_rows(frame.pods, self._apps.domain_index(domain))
            status[:, :, target] = pods[:, :, source]
            table[:, :, target] = measured_rows(frame.measured, len(frame.apps))[:, :, source]
        return observation_of(
            tick, status, table, without_samples(table), np.zeros((1, 0), POOL_STATUS)
        )

    def _forecast(
        self, index: int, tick: int, frame: DomainObserved, forecast: Forecast, origin: int
    ) -> DemandForecast:
        event = DemandForecast(
            tick=tick,
            time=frame.time,
            trace_id=frame.trace_id,
            domain=self._apps.domains[index],
            model=_versioned(forecast.model),
            # The model counts ticks from its origin, events from the cluster's.
            valid_until_tick=int(forecast.valid_until_tick[0]) + origin,
            horizons_minutes=list(HORIZONS_MIN),
            quantiles=list(QUANTILES),
            rps=forecast.domain[0, index].tolist(),
            peak_rps=forecast.domain_peak[0, index].tolist(),
        )
        if forecast.serving is None:
            return event
        return msgspec.structs.replace(event, **_serving_fields(forecast.serving, index))

    def _believable(
        self, event: DemandForecast, index: int, recent: RecentMinutes
    ) -> DemandForecast:
        """Without an implausible forecast: it predicts nothing then, and asks for a review."""
        recorded = (rps for rps in self._history[event.domain].rps if rps is not None)
        seen = np.nanmax(recent.rps[index], initial=0.0)
        highest = max(float(seen), max(recorded, default=0.0))
        problem = forecast_problem(event.rps, highest, self._cluster.largest_factor)
        if not problem:
            return event
        # Zero never lowers anything: less than now counts as now.
        nothing = [[0.0] * len(row) for row in event.rps]
        return msgspec.structs.replace(
            event, rps=nothing, peak_rps=[0.0] * len(event.peak_rps), review_reason=problem
        )


def _versioned(model: str) -> str:
    return model if "/" in model else f"{model}/{_RULE_VERSION}"


def _serving_fields(serving: Serving, domain: int) -> dict[str, Any]:
    """How a domain's forecast was made: which model served it, why, and its calibration."""
    by_horizon = {
        name: getattr(serving, name)[0, domain] for name in ("width", "shift", "coverage")
    }
    calibration = {
        f"{name}_{minutes}": float(value)
        for name, values in by_horizon.items()
        for minutes, value in zip(HORIZONS_MIN, values, strict=True)
    }
    calibration["skill"] = float(serving.skill[0, domain])
    return {
        "model": _versioned(str(serving.model[0, domain])),
        "trained_until": serving.trained_until,
        # Unknown values are left out: JSON has no NaN.
        "calibration": {n: value for n, value in calibration.items() if np.isfinite(value)},
        "fallback_reason": str(serving.reason[0, domain]),
        "review_reason": str(serving.review[0, domain]),
    }
