"""The aggregator: samples of a domain in, one frame per tick out.

A tick closes when every declared app has reported, when its source announced that nothing more
comes, or when the grace period is over. Apps that did not report are listed as missing; so are
apps whose pods the API server has not reported recently.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, I8, I32, Records
from models.cluster.description import Cluster
from models.control.demand import AppSignals, DemandEstimator, EstimatorState
from models.control.parameters import Parameters, Parts
from models.features.normalise import Features
from models.features.table import APP
from models.features.table import DOMAIN as DOMAIN_LEVEL
from schemas.app_declared import AppDeclared
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.metrics_sampled import MetricsSampled
from schemas.pool_observed import PoolObserved
from services._kit.arrays import (
    blank_observation,
    measured_columns,
    observation_of,
    pods_of,
    without_samples,
)
from services._kit.clock import Clock
from services._kit.handler import Handler, Step
from services._kit.inventory import DeclaredApps, InventoryCache, ObservedPools
from services._kit.plausible import Pace, Timeline
from services._kit.state_codec import Transient, check_form, copied, fit_apps, refit
from services.aggregator.samples import TickSamples, no_samples, with_batch

_MISSING: Final = APP.at("missing")
_PODS_LAST_TICKS: Final = 3
"""How long a report of an app's pods is valid. Without a newer one the app is missing, however
fresh its metrics are: decisions need to know the pods they are about. Chosen by hand."""
SOURCE: Final = "samples"
"""Name of a domain's only source of ticks."""


@dataclass(frozen=True)
class AggregatorState:
    """What the aggregator remembers of one domain. A apps."""

    domain: str
    estimator: EstimatorState
    """Memory of the demand estimator."""
    closed: int = -1
    """The last tick that closed."""
    names: tuple[str, ...] = ()
    """[A] app names, in the order of every axis of apps."""
    pods: I32 = field(default_factory=lambda: np.zeros((1, rows.STATUS, 0), np.int32))
    """[1, STATUS, A] pods as the API server last reported them."""
    pods_tick: I32 = field(default_factory=lambda: np.zeros(0, np.int32))
    """[A] tick of that report; -1: never."""
    open_ticks: Transient[Mapping[int, TickSamples]] = field(default_factory=dict)
    """Samples of ticks that are not closed; delivered again after a restart."""
    timeline: Timeline = field(default_factory=Timeline)

    @property
    def next_tick(self) -> int | None:
        """The earliest open tick that the collector has reported."""
        sourced = (tick for tick, samples in self.open_ticks.items() if samples.is_sourced)
        return min(sourced, default=None)


class AggregatorHandler(Handler[AggregatorState]):
    """Closes the ticks of its domains."""

    name = "aggregator"
    inputs: ClassVar[tuple[type[Event], ...]] = (MetricsSampled,)
    reference = (AppDeclared, PoolObserved)

    def __init__(
        self,
        cluster: Cluster,
        parameters: Parameters,
        grace_s: float | None,
        speed: float = 1.0,
    ) -> None:
        self._apps, self._pools = DeclaredApps(cluster), ObservedPools(cluster.pool_names)
        self._calls = {
            domain: {c.callee: c.calls_per_request for c in cluster.calls if c.caller == domain}
            for domain in cluster.domain_names
        }
        self._grace = grace_s
        # Without a grace period the system runs in lock-step, where wall time means nothing.
        self._pace = Pace(cluster.tick_seconds, None if grace_s is None else speed)
        self._estimators = InventoryCache(
            self._apps, lambda apps: DemandEstimator(apps, parameters, Parts())
        )

    def learn(self, event: Event, clock: Clock) -> None:  # noqa: ARG002  needs no time
        """Take in apps and pools."""
        if isinstance(event, AppDeclared):
            self._apps.learn(event)
        elif isinstance(event, PoolObserved):
            self._pools.learn(event)

    def forget(self, kind: type[Event], key: str, clock: Clock) -> None:  # noqa: ARG002  as above
        """Remove apps and pools."""
        if kind is AppDeclared:
            self._apps.forget(key)
        elif kind is PoolObserved:
            self._pools.forget(key)

    def prepare(self) -> None:
        """Compile the kernels: no apps are needed for that."""
        estimator = self._estimators.without_apps()
        nothing = blank_observation(0)._replace(pool=self._pools.records(0))
        estimator.step_with_features(nothing, estimator.start(nothing))

    def key(self, event: Event) -> str:
        """Domain of the event; one that the cluster file lacks gets no state."""
        domain = super().key(event)
        self._apps.check_domain(domain)
        return domain

    def start(self, key: str) -> AggregatorState:
        """No apps, no samples yet."""
        return AggregatorState(key, self._estimators.without_apps().start(blank_observation(0)))

    def accept(self, key: str, state: AggregatorState) -> AggregatorState:
        """Refuse columns of other apps (kernels do not check indices); find the domain's row."""
        check_form(state, self.start(key), apps=len(state.names))
        if key not in self._apps.domains:
            return state  # its records are refused, so no tick of it closes
        pods = state.pods.copy()
        # Domains may have been added or removed since: apps in another domain's row would be read
        # as a domain without traffic.
        pods[0, rows.DOMAIN] = self._apps.domain_index(key)
        return replace(state, pods=pods)

    def handle(self, event: Event, state: AggregatorState, clock: Clock) -> Step[AggregatorState]:
        """Add a batch of samples, then close the ticks that are complete."""
        if not isinstance(event, MetricsSampled):
            return Step(state)
        if state.timeline.is_over(event.tick, state.closed):  # late, or a duplicate
            return Step(state)
        judged = state.timeline.judge(SOURCE, event, clock.date(), self._pace)
        if judged.starts_over:
            # The first ticks of the domain were wrong, and so is all that was learned from them.
            state = self.start(event.domain)
        # Kept even if the batch is refused: several such batches may show that the time has moved.
        state = replace(state, timeline=judged.timeline)
        if judged.refused is not None or event.tick <= state.closed:
            return Step(state, refused=judged.refused)
        state = self._with_declared_apps(state)
        samples = state.open_ticks.get(event.tick) or no_samples(state.names)
        samples = replace(with_batch(samples, event), since=min(samples.since, clock.now()))
        open_ticks = {**state.open_ticks, event.tick: samples}
        return self.wake(replace(state, open_ticks=open_ticks), clock)

    def due(self, state: AggregatorState) -> float | None:
        """When the grace period of the earliest open tick ends."""
        tick = state.next_tick
        return None if tick is None or self._grace is None else self._late_at(state, tick)

    def wake(self, state: AggregatorState, clock: Clock) -> Step[AggregatorState]:
        """Close, in order, the ticks that are complete or late."""
        events: list[Event] = []
        # In order: the estimator's memory depends on it.
        while (tick := state.next_tick) is not None:
            closed_by = self._closed_by(tick, state, clock.now())
            if closed_by is None:
                break
            pools = self._pools.records(self._due_tick(tick, state, clock))
            state, frame = self._close(tick, closed_by, state, pools)
            events.append(frame)
        return Step(state, events, settled=state.next_tick is None)

    def _due_tick(self, tick: int, state: AggregatorState, clock: Clock) -> int:
        """The tick that pools may have reached; they go on while a domain catches up."""
        line = state.timeline.line
        if self._pace.speed is None or line is None:
            return tick
        return max(tick, int(line.due(clock.date(), self._pace)))

    def _closed_by(self, tick: int, state: AggregatorState, now: float) -> str | None:
        """Why a tick closes now; None if it stays open."""
        samples = state.open_ticks[tick]
        if samples.final:
            return "final"
        if samples.complete(state.pods):
            return "complete"
        late = self._grace is not None and now >= self._late_at(state, tick)
        return "grace" if late else None

    def _late_at(self, state: AggregatorState, tick: int) -> float:
        return state.open_ticks[tick].since + (self._grace or 0.0)

    def _with_declared_apps(self, state: AggregatorState) -> AggregatorState:
        """Follow the inventory between ticks: an open tick keeps its apps."""
        names = self._apps.names(state.domain)
        if names == state.names or state.next_tick is not None:
            return state
        # New apps have no pods until the API server reports some, so they are missing until then.
        fresh_pods = np.zeros((1, rows.STATUS, len(names)), np.int32)
        fresh_pods[0, rows.ACTIVE] = 1
        fresh_pods[0, rows.DOMAIN] = self._apps.domain_index(state.domain)
        never = np.full(len(names), -1, np.int32)
        fresh = self._estimators.of(state.domain, names).start(blank_observation(len(names)))
        # A state without apps shows `refit` which axes of the arrays are those of the apps.
        form = self.start(state.domain).estimator
        return replace(
            state,
            names=names,
            # Those that only agents reported: their columns are of the earlier apps.
            open_ticks={},
            pods=fit_apps(state.pods, fresh_pods, state.names, names),
            pods_tick=fit_apps(state.pods_tick, never, state.names, names),
            estimator=refit(state.estimator, fresh, form, state.names, names),
        )

    def _close(
        self, tick: int, closed_by: str, state: AggregatorState, pools: Records
    ) -> tuple[AggregatorState, DomainObserved]:
        samples = state.open_ticks[tick]
        table, pods = samples.measured(), samples.pods_after(state.pods)
        pods_tick = np.where(samples.all_pods_reported(), np.int32(tick), state.pods_tick)
        missing = without_samples(table) | _pods_outdated(pods_tick, tick)
        observation = observation_of(tick, pods, table, missing, pools)
        estimator = self._estimators.of(state.domain, state.names)
        # The first tick starts from the sizes that it reports, not from those of no pods.
        # Later ones get a copy, because kernels update the memory in place.
        before = estimator.start(observation) if state.closed < 0 else copied(state.estimator)
        signals, features, after = estimator.step_with_features(observation, before)
        state = replace(
            state,
            estimator=after,
            closed=tick,
            pods=pods,
            pods_tick=pods_tick,
            # Earlier ones, which only agents reported, are too late by now.
            open_ticks={other: s for other, s in state.open_ticks.items() if other > tick},
            timeline=state.timeline.settled(),
        )
        return state, self._frame(closed_by, samples.time, state, table, missing, signals, features)

    def _frame(
        self,
        closed_by: str,
        time: str,
        state: AggregatorState,
        table: F32,
        missing: I8,
        signals: AppSignals,
        features: Features,
    ) -> DomainObserved:
        """The frame of the tick that closed last."""
        # From the features: they also reject samples that arrived but cannot be true.
        missing_apps = np.flatnonzero(signals.features[0, _MISSING] == 1).tolist()
        return DomainObserved(
            tick=state.closed,
            time=time,
            trace_id=f"{state.domain}/{state.closed}",
            domain=state.domain,
            apps=list(state.names),
            pods=pods_of(state.pods),
            measured=measured_columns(table, missing),
            features={
                name: signals.features[0, row].tolist() for row, name in enumerate(APP.names)
            },
            load_pods=signals.load[0].tolist(),
            usual_load_pods=signals.usual[0].tolist(),
            missing=[state.names[index] for index in missing_apps],
            aggregates=self._aggregates(state.domain, features),
            calls=self._calls[state.domain],
            # A domain without callees has no exposure; the latency of callees is unknown here.
            latency_exposure=None if self._calls[state.domain] else 0.0,
            closed_by=closed_by,
        )

    def _aggregates(self, domain: str, features: Features) -> dict[str, float]:
        """Sums and quantiles of the domain."""
        row = features.domain[0, self._apps.domain_index(domain)]
        # The row goes on with calls to other domains, which the frame has in `calls`.
        named = dict(zip(DOMAIN_LEVEL.names, row.tolist(), strict=False))
        # Callees are other domains. Another process may close their frames, earlier or later than
        # this one, so a replay of this tick could give another value.
        del named["latency_exposure"]
        return named


def _pods_outdated(pods_tick: I32, tick: int) -> I8:
    """[1, A] 1 where the last report of the pods is missing or too old."""
    outdated: I8 = ((pods_tick < 0) | (tick - pods_tick > _PODS_LAST_TICKS))[None].astype(np.int8)
    return outdated
