"""The forecaster's reference data, and the models that are built from it.

A model runs for a *stretch* of time (`rule_minutes`) from its origin on, then a new one continues.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from models.cluster import rows
from models.cluster.description import Cluster
from models.cluster.observation import POOL_STATUS, Observation
from models.control.plausible import factor_problem
from models.forecaster.calendar import Calendar
from models.forecaster.learned.forecaster import Given, Learned
from models.forecaster.learned.record import record_of, rows_of, series_of
from models.forecaster.learned.serving import Model
from models.forecaster.minutes import add_tick, start_minutes
from models.forecaster.port import Forecaster, ticks_per_minute
from models.forecaster.series import Series
from schemas.app_declared import AppDeclared
from schemas.demand_backfilled import DemandBackfilled
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
from services._kit.errors import Refused
from services._kit.inventory import DeclaredApps
from services._kit.ticks import Axis
from services.forecaster.model import (
    LEARNED,
    Learning,
    Recorded,
    announced,
    build_rule,
    compile_network_kernels,
    filled_history,
    history_with_gaps,
    open_network,
    recorded,
    span_of,
)
from services.forecaster.progress import (
    Progress,
    RecentMinutes,
    Running,
    moved,
    progress_of,
    resumed,
)


class ModelBuilder:
    """Keeps the reference data; builds the model of each stretch, and its input."""

    def __init__(self, cluster: Cluster, model: str, minutes: int, learning: Learning) -> None:
        """`minutes` is the length of a stretch."""
        self._cluster, self._model, self._minutes = cluster, model, minutes
        self._learning = learning
        self.shipped = open_network(learning) if model == LEARNED else None
        """The configured network; None if a rule is configured."""
        self._network = self.shipped
        self._per_minute = ticks_per_minute(cluster.tick_seconds)
        self.apps = DeclaredApps(cluster)
        self._events: dict[str, EventScheduled] = {}
        self._calendar = 0
        """Version of the calendar and of the set of histories: rises with each change."""
        self._history: dict[str, DemandBackfilled] = {}

    @property
    def has_network(self) -> bool:
        """Whether the model is a trained network."""
        return self._network is not None

    # Reference data.

    def learn(self, event: Event) -> None:
        """Take in apps, announced events and recorded histories."""
        match event:
            case AppDeclared():
                self.apps.learn(event)
            case EventScheduled():
                self._check_factor(event)
                self._events[event.name] = event
                self._calendar += 1
            case DemandBackfilled():
                # Without its history a domain looks as if it never had traffic: don't wait for the
                # end of the stretch.
                self._calendar += event.domain not in self._history
                self._history[event.domain] = event
            case _:
                pass

    def _check_factor(self, event: EventScheduled) -> None:
        """Refuse an announcement with an implausible factor; its last record stays in force."""
        # A cancellation takes effect whatever its factor: it only removes an announcement.
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

    def forget(self, kind: type[Event], key: str) -> None:
        """Remove apps, announced events and recorded histories."""
        if kind is AppDeclared:
            self.apps.forget(key)
        elif kind is EventScheduled and self._events.pop(key, None) is not None:
            self._calendar += 1
        elif kind is DemandBackfilled:
            self._history.pop(key, None)

    def prepare(self) -> None:
        """Compile the kernels: no apps are needed for that."""
        minutes = start_minutes(
            blank_observation(0), np.zeros((1, len(self.apps.domains), 1), np.float32)
        )
        add_tick(blank_observation(0), minutes, self._per_minute)
        if self._network is not None:
            compile_network_kernels()

    # Models.

    def use(self, network: Model) -> None:
        """Forecast with another network from the next tick on; its name is what events carry."""
        if self._network is None or network.name != self._network.name:
            # A running model has the name of its network in it: it is built again.
            self._calendar += 1
        self._network = network

    def running(
        self,
        tick: int,
        axis: Axis,
        progress: Progress | None,
        running: Running | None,
        recent: RecentMinutes,
    ) -> tuple[Progress, Running]:
        """The running model, built again where its stretch is over or the calendar changed."""
        # Stretches begin with a minute: the model's minutes are those of the events.
        origin = tick - tick % self._per_minute
        if progress is None:
            return self._begin(origin, axis, recent)
        # After a restart: the same stretch, continued by a newly built model.
        if running is None:
            return self._resume(progress, axis, recent)
        if tick - progress.origin >= self._minutes * self._per_minute:
            return self._resume(moved(progress, origin), axis, recent)
        # Announcements are part of a model, so a changed calendar needs another one.
        if running.calendar != self._calendar:
            return self._resume(progress, axis, recent)
        return progress, running

    def _begin(self, origin: int, axis: Axis, recent: RecentMinutes) -> tuple[Progress, Running]:
        model = self._build(origin, axis, recent)
        started = model.start(self.observation(0, {}))
        events = self._announced(origin, axis)
        running = Running(model, started, self._calendar, events)
        return progress_of(origin, self.app_names(), started, events), running

    def _resume(
        self, progress: Progress, axis: Axis, recent: RecentMinutes
    ) -> tuple[Progress, Running]:
        """A newly built model that continues from earlier progress."""
        model = self._build(progress.origin, axis, recent)
        newest = progress.newest
        # Rules ignore the record; only the network has one.
        if newest is None:
            newest = progress.origin // self._per_minute
        record = record_of(history_with_gaps(self._rows(newest, recent, axis)), newest)
        events = self._announced(progress.origin, axis)
        state = resumed(model, progress, record, events)
        return progress, Running(model, state, self._calendar, events)

    def _build(self, origin: int, axis: Axis, recent: RecentMinutes) -> Forecaster[Any]:
        """A model of the recorded history and of the minutes observed between it and `origin`."""
        table = self._rows(origin // self._per_minute, recent, axis)
        events, domains = self._events.values(), self.apps.domains
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
            tick_s=self._cluster.tick_seconds,
        )
        return Learned(self._network, rule, given, self._learning.settings)

    def series(self, last: int, axis: Axis, recent: RecentMinutes) -> list[Series]:
        """What a network looks back on at the end of minute `last`, by domain."""
        origin = last * self._per_minute
        record = record_of(history_with_gaps(self._rows(last, recent, axis)), last)
        calendar = announced(self._events.values(), axis, origin, self.apps.domains)
        rows_given = rows_of(self._cluster, calendar, self._per_minute)
        return series_of(record, rows_given, last, axis.minute_of_week(origin))

    def _announced(self, origin: int, axis: Axis) -> tuple[str, ...]:
        """Names of the announced events, in the order of the model's columns."""
        found = announced(self._events.values(), axis, origin, self.apps.domains)
        return tuple(event.name for event in found)

    def _rows(self, last: int, recent: RecentMinutes, axis: Axis) -> list[list[float | None]]:
        """Recorded and observed minutes of each domain up to minute `last`, the newest last."""
        table = []
        for index, domain in enumerate(self.apps.domains):
            rps, until, _ = self.recorded(domain, axis)
            # A history that arrived later extends beyond that minute: leave out its future.
            before = rps[: max(0, len(rps) - max(0, until - last))]
            table.append([*before, *recent.between(index, until, last).tolist()])
        return table

    def recorded(self, domain: str, axis: Axis) -> Recorded:
        """The recorded history of a domain; without one, observations count."""
        history = self._history.get(domain)
        if history is None:
            return Recorded((), 0, "no history of the domain was recorded")
        return recorded(history, axis, self._per_minute)

    # Their input.

    def app_names(self) -> tuple[str, ...]:
        """Declared apps, in the order of the model's columns."""
        return tuple(app.app for app in self.apps.all_apps())

    def observation(self, tick: int, frames: Mapping[str, DomainObserved]) -> Observation:
        """The frames of all domains as one observation; an app without a frame is missing.

        Apps whose frame overtook their declaration are left out until it arrives.
        """
        # Declared order on the axis of apps, whichever frames are there: a model's state has it.
        apps = self.apps.all_apps()
        index = {app.app: column for column, app in enumerate(apps)}
        status = np.zeros((1, rows.STATUS, len(apps)), np.int32)
        table = np.full((1, rows.SAMPLES, len(apps)), np.nan, np.float32)
        status[0, rows.ACTIVE] = 1
        status[0, rows.DOMAIN] = [self.apps.domain_index(app.domain) for app in apps]
        for domain, frame in frames.items():
            declared = [(at, index[name]) for at, name in enumerate(frame.apps) if name in index]
            source, target = ([pair[side] for pair in declared] for side in (0, 1))
            pods = status_rows(frame.pods, self.apps.domain_index(domain))
            status[:, :, target] = pods[:, :, source]
            table[:, :, target] = measured_rows(frame.measured, len(frame.apps))[:, :, source]
        return observation_of(
            tick, status, table, without_samples(table), np.zeros((1, 0), POOL_STATUS)
        )
