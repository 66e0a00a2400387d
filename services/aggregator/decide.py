"""The aggregator: samples of a domain in, one frame per tick out.

A tick closes when every declared app has reported, when its source said that nothing more comes,
or when the grace period is over. What did not report is missing, and said so; so is an app whose
pods nobody has told of lately.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from models.cluster.arrays import I8, I32
from models.cluster.description import Cluster
from models.cluster.observation import ACTIVE, DOMAIN, STATUS
from models.control.heuristic.parameters import Parameters, Parts
from models.control.heuristic.sensing import Sensed, Sensing, SensingState
from models.features.normalise import Features
from models.features.table import APP
from models.features.table import DOMAIN as DOMAIN_LEVEL
from schemas.app_declared import AppDeclared
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.metrics_sampled import MetricsSampled
from schemas.pool_observed import PoolObserved
from services._kit.clock import Clock
from services._kit.frames import measured_columns, observation_of, pods_of, silence, unheard
from services._kit.handler import Handler, Refused, Step
from services._kit.pools import PoolBook
from services._kit.roster import PerDomain, Roster
from services._kit.snapshot import fit_apps, flatten, pack, rebuild, refit, unpack
from services.aggregator.intake import Draft

_WHOLE: Final = frozenset({"features.tick", "features.spent", "features.lasted"})
"""What is remembered of a domain as a whole."""
_MISSING: Final = APP.at("missing")
_PODS_LAST_TICKS: Final = 3
"""What the API server said of an app's pods is believed so long: no decision is made on pods that
nobody has seen, however fresh the metrics are."""
_AHEAD_TICKS: Final = 360
"""An hour. A tick farther ahead of a domain that is alive is a mistake of its source: closing it
would make every tick of the hour before it too late."""
_ALIVE_S: Final = 60.0
"""A domain that closed nothing for so long had a real pause, however long: believe what comes."""


@dataclass
class AggregatorState:
    """Of one domain."""

    domain: str
    closed: int = -1
    """The last tick that closed."""
    names: tuple[str, ...] = ()
    status: I32 = field(default_factory=lambda: np.zeros((1, STATUS, 0), np.int32))
    """[1, STATUS, A] what the API server answered last."""
    told: I32 = field(default_factory=lambda: np.zeros(0, np.int32))
    """[A] tick of that answer; -1: never."""
    sensing: SensingState | None = None
    drafts: dict[int, Draft] = field(default_factory=dict)
    """Ticks that are not closed; not saved, but delivered again after a restart."""
    closed_at: float | None = None
    """When the last tick closed, by `Clock.now`; not saved."""


class AggregatorHandler(Handler[AggregatorState]):
    """Closes the ticks of its domains."""

    name = "aggregator"
    inputs = (MetricsSampled,)
    reference = (AppDeclared, PoolObserved)

    def __init__(self, cluster: Cluster, parameters: Parameters, grace_s: float | None) -> None:
        self._roster, self._pools = Roster(cluster), PoolBook(cluster.pool_names)
        self._calls = {
            domain: {c.callee: c.calls_per_request for c in cluster.calls if c.caller == domain}
            for domain in cluster.domain_names
        }
        self._grace = grace_s
        self._made = PerDomain(self._roster, lambda apps: Sensing(apps, parameters, Parts()))

    def learn(self, event: Event) -> None:
        """Apps and pools."""
        if isinstance(event, AppDeclared):
            self._roster.learn(event)
        elif isinstance(event, PoolObserved):
            self._pools.learn(event)

    def forget(self, kind: type[Event], key: str) -> None:
        """Apps and pools that are gone."""
        if kind is AppDeclared:
            self._roster.forget(key)
        elif kind is PoolObserved:
            self._pools.forget(key)

    def prepare(self) -> None:
        """Let the kernels be compiled: without apps it takes as long as with them."""
        sensing = self._made.without_apps()
        nothing = silence(0)._replace(pool=self._pools.records())
        sensing.survey(nothing, sensing.start(nothing))

    def start(self, key: str) -> AggregatorState:
        """Nothing seen yet."""
        return AggregatorState(domain=key)

    def handle(self, event: Event, state: AggregatorState, clock: Clock) -> Step[AggregatorState]:
        """Take in a batch; close what is whole."""
        if not isinstance(event, MetricsSampled):
            return Step(state)
        self._roster.check(event.domain)
        if event.tick <= state.closed:
            return Step(state)
        _check_ahead(event, state, clock.now())
        self._fit(state)
        draft = state.drafts.get(event.tick)
        if draft is None:
            draft = state.drafts[event.tick] = Draft(state.names, clock.now())
        draft.add(event)
        return self.wake(state, clock)

    def due(self, state: AggregatorState) -> float | None:
        """When the earliest tick has waited long enough."""
        if not state.drafts or self._grace is None:
            return None
        return state.drafts[min(state.drafts)].since + self._grace

    def wake(self, state: AggregatorState, clock: Clock) -> Step[AggregatorState]:
        """Close, in order, what is whole or has waited long enough."""
        events: list[Event] = []
        while state.drafts:
            tick = min(state.drafts)
            how = self._closes(state.drafts[tick], state, clock.now())
            if how is None:
                break
            events.append(self._close(tick, how, state))
            state.closed_at = clock.now()
        return Step(replace(state) if events else state, events, settled=not state.drafts)

    def save(self, state: AggregatorState) -> bytes:
        """Samples of open ticks are not kept: they are delivered again."""
        values: dict[str, Any] = {
            "closed": state.closed,
            "names": state.names,
            "known": state.status,
            "told": state.told,
        }
        if state.sensing is not None:
            values["sensing"] = flatten(state.sensing)
        return pack(values)

    def load(self, key: str, data: bytes) -> AggregatorState:
        """What `save` wrote."""
        values = unpack(data)
        state = AggregatorState(
            key, values["closed"], tuple(values["names"]), values["known"], values["told"]
        )
        if "sensing" in values:
            # Only the form counts: the inventory is not read yet.
            form = self._made.without_apps().start(silence(0))
            state.sensing = rebuild(form, values["sensing"], _WHOLE)
        return state

    def _closes(self, draft: Draft, state: AggregatorState, now: float) -> str | None:
        """Why a tick closes; None when it does not."""
        if draft.final:
            return "final"
        if draft.complete(state.status):
            return "complete"
        late = self._grace is not None and now >= draft.since + self._grace
        return "grace" if late else None

    def _fit(self, state: AggregatorState) -> None:
        """Follow the inventory, between ticks: a tick that is open keeps its apps."""
        names = self._roster.names(state.domain)
        if names == state.names and state.sensing is not None:
            return
        if state.drafts:
            return
        fresh = np.zeros((1, STATUS, len(names)), np.int32)
        fresh[0, ACTIVE], fresh[0, DOMAIN] = 1, self._roster.place(state.domain)
        state.status = fit_apps(state.status, state.names, names, fresh)
        never = np.full(len(names), -1, np.int32)
        state.told = fit_apps(state.told, state.names, names, never)
        if state.sensing is not None:
            start = self._made.of(state.domain, names).start(silence(len(names)))
            state.sensing = refit(state.sensing, start, state.names, names, _WHOLE)
        state.names = names

    def _close(self, tick: int, how: str, state: AggregatorState) -> DomainObserved:
        draft = state.drafts.pop(tick)
        state.status = draft.status(state.status)
        state.told[draft.told()] = tick
        sensing, rows = self._made.of(state.domain, state.names), draft.measured()
        missing = unheard(rows) | _untold(state.told, tick)
        seen = observation_of(tick, state.status, rows, missing, self._pools.records())
        if state.sensing is None:
            state.sensing = sensing.start(seen)
        sensed, features, state.sensing = sensing.survey(seen, state.sensing)
        state.closed = tick
        measured = measured_columns(rows, missing)
        aggregates = self._aggregates(state.domain, features)
        return self._frame(how, draft.time, state, measured, sensed, aggregates)

    def _frame(
        self,
        how: str,
        time: str,
        state: AggregatorState,
        measured: dict[str, list[float | None]],
        sensed: Sensed,
        aggregates: dict[str, float],
    ) -> DomainObserved:
        """Of the tick that closed last."""
        silent = np.flatnonzero(sensed.seen[0, _MISSING] == 1).tolist()
        return DomainObserved(
            tick=state.closed,
            time=time,
            trace_id=f"{state.domain}/{state.closed}",
            domain=state.domain,
            apps=list(state.names),
            pods=pods_of(state.status),
            measured=measured,
            features={name: sensed.seen[0, row].tolist() for row, name in enumerate(APP.names)},
            load_pods=sensed.load[0].tolist(),
            usual_load_pods=sensed.usual[0].tolist(),
            missing=[state.names[place] for place in silent],
            aggregates=aggregates,
            calls=self._calls[state.domain],
            # Who calls nobody is exposed to nobody; callees are not seen from here.
            latency_exposure=None if self._calls[state.domain] else 0.0,
            closed_by=how,
        )

    def _aggregates(self, domain: str, features: Features) -> dict[str, float]:
        """Sums and quantiles of the domain."""
        row = features.domain[0, self._roster.place(domain)]
        named = dict(zip(DOMAIN_LEVEL.names, row.tolist(), strict=False))
        # Callees are other domains. Their frames may be made by another process, and earlier or
        # later than this one: what is said of a tick would differ when it is said again.
        del named["latency_exposure"]
        return named


def _check_ahead(batch: MetricsSampled, state: AggregatorState, now: float) -> None:
    """Refuse a tick that a living domain cannot have come to."""
    alive = state.closed_at is not None and now < state.closed_at + _ALIVE_S
    if alive and batch.tick > state.closed + _AHEAD_TICKS:
        last = state.closed + _AHEAD_TICKS
        raise Refused("tick-from-the-future", f"expected a tick up to {last}, got {batch.tick}")


def _untold(told: I32, tick: int) -> I8:
    """[1, A] 1 where nobody knows which pods there are now."""
    unknown: I8 = ((told < 0) | (tick - told > _PODS_LAST_TICKS))[None].astype(np.int8)
    return unknown
