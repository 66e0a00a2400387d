"""The forecaster: frames of all domains in, one forecast per domain and minute out.

A rule is built from the recorded history for a stretch of time, and built again when the stretch
ends or the calendar changes. The trained network continues from stretch to stretch. A domain
without a recorded history has no forecast before a model is built from minutes that were observed:
until then the Commander goes by what it observes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec
import numpy as np

from models.cluster.arrays import F64
from models.cluster.description import Cluster
from models.forecaster.learned.features import network_features
from models.forecaster.learned.inputs import NetworkInputs
from models.forecaster.port import ticks_per_minute
from models.registry.drift import NO_DRIFTS, Drifts, Watched
from models.registry.drift import problem as drift_problem
from models.registry.rollout import Rollout, Rules
from schemas.app_declared import AppDeclared
from schemas.demand_backfilled import DemandBackfilled
from schemas.demand_forecast import DemandForecast
from schemas.domain_observed import DomainObserved
from schemas.event_scheduled import EventScheduled
from schemas.fields import Event
from schemas.model_promoted import ModelPromoted
from services._kit.clock import Clock
from services._kit.errors import Refused
from services._kit.following import watch
from services._kit.handler import Handler, Step
from services._kit.models import LoadedModel
from services._kit.plausible import Pace, Timeline, bounded, following
from services._kit.state_codec import Transient
from services._kit.ticks import TickBuffer, axis_of
from services.forecaster.builder import ModelBuilder
from services.forecaster.events import believable, forecast_event
from services.forecaster.following import Serving, Trial, follower_of, serving_of, tried
from services.forecaster.model import SHIPPED, Learning
from services.forecaster.progress import (
    Progress,
    RecentMinutes,
    Running,
    check_progress,
    compact,
    expanded,
    fitted,
    no_minutes,
    progress_of,
    unshared,
    with_minute,
)
from services.forecaster.switch import Switch

MOST_SECONDS: Final = 0.5
"""Longest answer of a candidate for all domains."""
RULES: Final = Rules(most_answer_seconds=MOST_SECONDS)


@dataclass(frozen=True)
class ForecasterState:
    """What the forecaster remembers of the whole cluster."""

    recent: RecentMinutes
    ticks: TickBuffer[DomainObserved] = field(default_factory=TickBuffer)
    """Frames of incomplete ticks, by domain."""
    timeline: Timeline = field(default_factory=Timeline)
    progress: Progress | None = None
    """None before the first tick."""
    running: Transient[Running | None] = None
    """None after a restart too, until inventory and calendar are there to build the model."""
    rollout: Rollout = field(default_factory=Rollout)
    """Which promoted network serves, and which one is on its way."""
    trial: Trial = field(default_factory=Trial)
    """What both forecast, until the outcome is known."""
    watched: Watched = field(default_factory=Watched)
    """The features of the promoted networks."""
    domains: tuple[str, ...] = ()
    """Of the rows of `recent`; none in a state of a release that did not save them."""


class ForecasterHandler(Handler[ForecasterState]):
    """Serves one model for all domains."""

    name = "forecaster"
    scope = "cluster"
    inputs = (DomainObserved,)
    reference = (AppDeclared, EventScheduled, DemandBackfilled, ModelPromoted)

    def __init__(
        self,
        cluster: Cluster,
        model: str,
        rule_minutes: int,
        grace_s: float | None,
        learning: Learning = SHIPPED,
        speed: float = 1.0,
        rules: Rules = RULES,
    ) -> None:
        self._builder = ModelBuilder(cluster, model, rule_minutes, learning)
        self._follower = follower_of(self._builder.shipped, model, rules)
        self._switch: Switch | None = None
        self._domains = self._builder.apps.domains
        self._largest_factor = cluster.largest_factor
        self._grace, self._tick_s = grace_s, cluster.tick_seconds
        # Without a grace period the system runs in lock-step, where wall time means nothing.
        self._pace = Pace(cluster.tick_seconds, None if grace_s is None else speed)
        self._per_minute = ticks_per_minute(cluster.tick_seconds)

    def learn(self, event: Event, clock: Clock) -> None:  # noqa: ARG002  needs no time
        """Take in apps, announced events, recorded histories and promoted models."""
        if isinstance(event, ModelPromoted):
            self._follower.learn(event)
        else:
            self._builder.learn(event)

    def forget(self, kind: type[Event], key: str, clock: Clock) -> None:  # noqa: ARG002  as above
        """Remove apps, announced events and recorded histories."""
        self._builder.forget(kind, key)

    def prepare(self) -> None:
        """Compile the kernels: no apps are needed for that."""
        self._builder.prepare()

    def start(self, key: str) -> ForecasterState:  # noqa: ARG002  there is only one
        """Nothing observed yet."""
        return ForecasterState(no_minutes(len(self._domains)), domains=self._domains)

    def handle(self, event: Event, state: ForecasterState, clock: Clock) -> Step[ForecasterState]:
        """Add a frame, then take in the ticks that are complete."""
        if not isinstance(event, DomainObserved):
            return Step(state)
        self._builder.apps.check_domain(event.domain)
        if state.timeline.is_over(event.tick, state.ticks.closed):
            return Step(state)
        judged = state.timeline.judge(
            event.domain, event, clock.date(), self._pace, frozenset(self._domains)
        )
        # Kept even if the frame is refused: several such frames may show that the time has moved.
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
        """Follow promotions, then take in, in order, the ticks that are complete or late."""
        domains = frozenset(self._domains)
        rollout, judged, missing = self._follower.follow(state.rollout, state.ticks.closed)
        state, events = replace(state, rollout=rollout), list[Event](judged)
        if missing is not None:
            # Ticks wait for it: after a restart none may be forecast by another version.
            return Step(state, events, read=missing)
        while True:
            reached, now = state.timeline.reached(clock.date(), self._pace), clock.now()
            tick = state.ticks.ready(domains, now, self._grace, reached)
            if tick is None:
                break
            frames, ticks = state.ticks.close(tick)
            state = replace(state, ticks=ticks, timeline=state.timeline.settled())
            state, forecasts = self._take_in(tick, frames, state, clock)
            events += forecasts
        return Step(state, events, settled=state.ticks.empty or state.timeline.line is None)

    def written(
        self, result: LoadedModel, state: ForecasterState, clock: Clock
    ) -> Step[ForecasterState]:
        """Take in a network that was opened, or why it could not be, and go on."""
        rollout, events = self._follower.opened(result, state.rollout, state.ticks.closed)
        step = self.wake(replace(state, rollout=rollout), clock)
        return step._replace(events=[*events, *step.events])

    def save(self, state: ForecasterState) -> bytes:
        """Leave out what can be computed again: the state of many domains is large."""
        if state.progress is not None:
            state = replace(state, progress=compact(state.progress))
        return super().save(state)

    def accept(self, key: str, state: ForecasterState) -> ForecasterState:
        """Drop the progress of another model: the configured one starts from the history."""
        if state.domains and state.domains != self._domains:
            state = self._of_our_domains(state)
        state = replace(super().accept(key, state), domains=self._domains)
        progress = state.progress
        # A rule leaves no memory of a network, and a network's is of no use to a rule.
        if progress is None or (progress.learned is not None) != self._builder.has_network:
            return replace(state, progress=None)
        try:
            check_progress(progress, len(self._domains))
        except Refused:
            return replace(state, progress=None)
        return replace(state, progress=expanded(progress))

    def _of_our_domains(self, state: ForecasterState) -> ForecasterState:
        """Keep what was observed of the domains that are left, from before they were changed."""
        recent = state.recent.of([
            state.domains.index(name) if name in state.domains else None for name in self._domains
        ])  # fmt: skip
        return replace(state, recent=recent, progress=None, trial=Trial())

    # One tick.

    def _take_in(
        self, tick: int, frames: Mapping[str, DomainObserved], state: ForecasterState, clock: Clock
    ) -> tuple[ForecasterState, list[Event]]:
        """Step the model; publish forecasts at ticks that complete a minute (6n: minute n-1)."""
        first = next(iter(frames.values()))
        axis = axis_of(tick, first.time, self._tick_s)
        serving = self._serving(state.rollout, clock)
        progress, running = self._builder.running(
            tick, axis, state.progress, state.running, state.recent
        )
        origin, names = progress.origin, self._builder.app_names()
        # The model counts ticks from its origin.
        observed = self._builder.observation(tick - origin, frames)
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
        histories = [self._builder.recorded(name, axis) for name in self._domains]
        # What only some domains have on record has to be kept for the others.
        recorded_min = min(history.until for history in histories)
        recent = with_minute(state.recent, tick // self._per_minute, newest, recorded_min)
        events, drift = list[Event](), dict[str, float]()
        if self._switch is not None:
            state, drifts = self._watch(self._switch.inputs, state)
            drift = drifts.worst
            # Before the forecasts are named: a network that erred has made none of them.
            state, events = self._judge(tick, first.time, np.array(newest), drifts, state)
        for index, (domain, history) in enumerate(zip(self._domains, histories, strict=True)):
            event = forecast_event(domain, index, first, forecast, origin)
            # Zeros of a model that has nothing to go by are no forecast: judged as one, they would
            # make the domain fall back.
            if not history.rps and not any(map(any, event.rps)):
                continue
            if serving is not None:
                event = self._named(event, index, serving, state.rollout)
            if drift:
                event = msgspec.structs.replace(event, drift=drift)
            observed_rps = float(np.nanmax(recent.rps[index], initial=0.0))
            events.append(believable(event, history, observed_rps, self._largest_factor))
        return replace(state, recent=recent), events

    def _serving(self, rollout: Rollout, clock: Clock) -> Serving | None:
        """Set which networks answer this tick."""
        shipped = self._builder.shipped
        if shipped is None:
            return None
        serving = serving_of(self._follower.deciding(rollout, self._domains), shipped)
        if self._switch is None:
            self._switch = Switch(clock.now)
        self._switch.set(*serving, self._follower.rules.most_answer_seconds)
        self._builder.use(serving.incumbent._replace(network=self._switch))
        return serving

    def _watch(
        self, inputs: NetworkInputs | None, state: ForecasterState
    ) -> tuple[ForecasterState, Drifts]:
        """Compare what promoted networks see with their training."""
        if inputs is None:
            return state, NO_DRIFTS
        deciding = self._follower.deciding(state.rollout, self._domains)
        window = self._follower.rules.drift_minutes
        watched, drifts = watch(deciding, state.watched, lambda: network_features(inputs), window)
        return replace(state, watched=watched), drifts

    def _judge(
        self, tick: int, time: str, newest: F64, drifts: Drifts, state: ForecasterState
    ) -> tuple[ForecasterState, list[Event]]:
        """Judge what the networks answered in this tick."""
        assert self._switch is not None  # noqa: S101  the caller checked
        asked, sample, candidate = self._switch.asked, None, state.rollout.candidate
        most = self._follower.rules.most_drift
        if asked is not None and candidate is not None:
            minute = tick // self._per_minute
            trial, sample = tried(state.trial, candidate.sha256, asked, minute, newest)
            state = replace(state, trial=trial)
            drifted = drift_problem(drifts.candidate, most)
            sample = sample._replace(fault=sample.fault or drifted)
        problem = self._switch.problem or drift_problem(drifts.incumbent, most)
        rollout, events = self._follower.judge(state.rollout, sample, problem, tick, time)
        return replace(state, rollout=rollout), list[Event](events)

    def _named(
        self, event: DemandForecast, index: int, serving: Serving, rollout: Rollout
    ) -> DemandForecast:
        """The forecast with the name of the network that made it, and why no promoted one did."""
        assert self._switch is not None  # noqa: S101  it is there if anything serves
        asked, candidate = self._switch.asked, serving.candidate
        applied = candidate is not None and asked is not None and not asked.fault
        changes: dict[str, Any] = {}
        if event.model == serving.incumbent.name:
            if applied and serving.applied[index] and candidate is not None:
                changes["model"] = candidate.name
            elif self._switch.problem:
                changes["model"] = serving.spare.name
        if rollout.fallback_reason and rollout.incumbent is not None:
            changes["review_reason"] = f"{rollout.incumbent.name}: {rollout.fallback_reason}"
        return msgspec.structs.replace(event, **changes) if changes else event
