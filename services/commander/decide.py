"""The Commander: each minute plans, forecasts and pools in, budgets and node requests out.

It sees aggregates of domains only. A minute is decided when all of its events are there or the
grace period is over; then the last reported events count, and a missing forecast predicts nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from models.cluster.description import Cluster
from models.control.budget import CommanderDecision
from models.control.commander import VALID_MIN, Commander
from models.control.parameters import Parameters
from models.control.plausible import CORES, forecast_problem, highest_seen, sums_problem
from models.control.report import Report
from models.features.pools import PoolReadings
from models.forecaster.port import HORIZONS_MIN, QUANTILES, Forecast, ticks_per_minute
from schemas.budget_granted import BudgetGranted
from schemas.capacity_requested import CapacityRequested, NodesByUrgency
from schemas.demand_forecast import DemandForecast
from schemas.fields import Event, TickEvent
from schemas.pool_observed import PoolObserved
from schemas.scale_planned import ScalePlanned, Sums
from schemas.topics import key_of
from services._kit.clock import Clock
from services._kit.errors import Refused
from services._kit.handler import Handler, Step
from services._kit.inventory import DeclaredApps, pool_records
from services._kit.plausible import OUT_OF_RANGE, Pace, Timeline, bounded, following
from services._kit.ticks import POLICY, TickBuffer, decision_id
from services.commander.metrics import IMPLAUSIBLE
from services.commander.transition import CommanderSnapshot, snapshot_of, transition

_PER_DOMAIN: Final = {
    "share": "share",
    "cores": "cores",
    "memory_gib": "memory",
    "overdraft_cores": "overdraft",
    "floor_cores": "floor",
    "urgency": "urgency",
    "headroom": "headroom",
}
"""Fields of the event that differ by domain, and those of the budget."""
_URGENCIES: Final = NodesByUrgency.__struct_fields__
_FORECAST_VALID_MIN: Final = 60
"""A forecast looks half an hour ahead: one that claims to be valid for longer is wrong."""
_NOTABLE: Final = 0.005
"""Shares below this are not worth a reason."""


@dataclass(frozen=True)
class CommanderState:
    """What the Commander remembers of the whole cluster."""

    minutes: TickBuffer[TickEvent] = field(default_factory=TickBuffer)
    """Events of minutes that are not decided yet, by their first tick."""
    timeline: Timeline = field(default_factory=Timeline)
    epoch: int = -1
    """Epoch of the last budget; it only rises."""
    sums: Mapping[str, Sums] = field(default_factory=dict)
    """The last reported sums of each domain."""
    reported_tick: Mapping[str, int] = field(default_factory=dict)
    """Tick of these sums."""
    pools: Mapping[str, PoolObserved] = field(default_factory=dict)
    forecasts: Mapping[str, DemandForecast] = field(default_factory=dict)
    highest_rps: Mapping[str, float] = field(default_factory=dict)
    """The highest traffic that each domain has reported."""
    doubts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What was not believed in the last minute, by domain; its last values stay in force."""
    snapshot: CommanderSnapshot | None = None
    """State and action of the last minute, for the next transition."""


class CommanderHandler(Handler[CommanderState]):
    """Divides the capacity of the cluster among its domains."""

    name = "commander"
    scope = "cluster"
    inputs = (ScalePlanned, DemandForecast, PoolObserved)

    def __init__(
        self,
        cluster: Cluster,
        parameters: Parameters,
        grace_s: float | None,
        await_forecasts: bool = True,
        speed: float = 1.0,
    ) -> None:
        self._domains, self._pools = cluster.domain_names, cluster.pool_names
        # Without apps: the Commander works on sums of domains and needs only the cluster's part.
        self._inventory = DeclaredApps(cluster).inventory(())
        self._commander = Commander(self._inventory, parameters)
        self._grace, self._largest = grace_s, cluster.largest_factor
        self._per_minute = ticks_per_minute(cluster.tick_seconds)
        pace = None if grace_s is None else speed
        self._pace = Pace(cluster.tick_seconds, pace, stride=self._per_minute)
        # Plans pace the minutes: forecasts may be switched off, and pools have one source for all.
        self._voters = frozenset(f"plan/{domain}" for domain in self._domains)
        self._weights = [cluster.priority_weights[d.priority] for d in cluster.domains]
        kinds = ("plan", "forecast") if await_forecasts else ("plan",)
        self._expected = frozenset(
            [f"{kind}/{domain}" for kind in kinds for domain in self._domains]
            + [f"pool/{pool}" for pool in self._pools]
        )

    def start(self, key: str) -> CommanderState:  # noqa: ARG002  there is only one
        """Nothing reported yet."""
        return CommanderState()

    def handle(self, event: Event, state: CommanderState, clock: Clock) -> Step[CommanderState]:
        """Add an event of a minute's first tick, then decide the minutes that are complete."""
        # Budgets are made once a minute, so plans of other ticks are not needed.
        if not isinstance(event, TickEvent) or event.tick % self._per_minute:
            return self.wake(state, clock)
        name = _name_of(event)
        self._check(event)
        if state.timeline.is_over(event.tick, state.minutes.closed):
            return Step(state)
        judged = state.timeline.judge(name, event, clock.date(), self._pace, self._voters)
        minutes = following(state.minutes, judged, clock.date(), self._pace)
        state = replace(state, timeline=judged.timeline, minutes=minutes)
        if judged.refused is not None:
            return Step(state, refused=judged.refused)
        minutes = state.minutes.with_event(event.tick, name, event, clock.now())
        minutes = bounded(minutes, state.timeline)
        return self.wake(replace(state, minutes=minutes), clock)

    def _check(self, event: TickEvent) -> None:
        """Refuse what the cluster file does not have, and a forecast that would never expire."""
        match event:
            case ScalePlanned() | DemandForecast() if event.domain not in self._domains:
                domains = ", ".join(self._domains)
                raise Refused("unknown-domain", f"expected one of {domains}, got {event.domain}")
            case PoolObserved() if event.pool not in self._pools:
                pools = ", ".join(self._pools)
                raise Refused("unknown-pool", f"expected one of {pools}, got {event.pool}")
            case DemandForecast():
                last = event.tick + _FORECAST_VALID_MIN * self._per_minute
                if not event.tick <= event.valid_until_tick <= last:
                    got = f"expected validity from {event.tick} to {last}"
                    raise Refused(OUT_OF_RANGE, f"{got}, got {event.valid_until_tick}")
            case _:
                pass

    def due(self, state: CommanderState) -> float | None:
        """When the grace period of the earliest open minute ends."""
        return state.minutes.due(self._grace, state.timeline.tick)

    def wake(self, state: CommanderState, clock: Clock) -> Step[CommanderState]:
        """Decide, in order, the minutes that are complete or late."""
        events: list[Event] = []
        while True:
            reached, now = state.timeline.reached(clock.date(), self._pace), clock.now()
            tick = state.minutes.ready(self._expected, now, self._grace, reached)
            if tick is None:
                settled = state.minutes.empty or state.timeline.line is None
                return Step(state, events, settled=settled)
            arrived, minutes = state.minutes.close(tick)
            state = replace(state, minutes=minutes, timeline=state.timeline.settled())
            state = _with_newest(state, arrived.values(), self._largest)
            if self._can_decide(state):
                # Any event of the tick will do as the cause: all have the same time.
                state, decided = self._decide(tick, next(iter(arrived.values())), state)
                events += decided

    def _can_decide(self, state: CommanderState) -> bool:
        """Whether every domain and pool has reported at least once.

        What a domain holds that never reported is unknown: others must not be granted it.
        """
        return set(self._domains) <= state.sums.keys() and set(self._pools) <= state.pools.keys()

    def _decide(
        self, tick: int, cause: TickEvent, state: CommanderState
    ) -> tuple[CommanderState, list[Event]]:
        # Never the same epoch twice, even if the cluster's clock was set back.
        epoch = max(tick // self._per_minute, state.epoch + 1)
        report = self._report(state)
        decision = self._commander.decide(
            np.array([tick], np.int32),
            PoolReadings(pool_records(self._pools, state.pools), self._inventory),
            report,
            self._forecast(tick, state),
            np.array([epoch], np.int32),
        )
        # Every domain takes part in the decision, so that shares sum to 1. Only those that report
        # get a budget; all pools get a request.
        events: list[Event] = [
            *(
                self._granted(index, tick, cause, decision, report, state.doubts.get(domain, ()))
                for index, domain in enumerate(self._domains)
                if self._has_reported(domain, tick, state)
            ),
            *(self._requested(index, tick, cause, decision) for index in range(len(self._pools))),
        ]
        snapshot = snapshot_of(tick, self._domains, report, decision, state.pools)
        if state.snapshot is not None:
            events.append(transition(state.snapshot, snapshot, self._weights, cause, POLICY))
        return replace(state, epoch=epoch, snapshot=snapshot), events

    def _has_reported(self, domain: str, tick: int, state: CommanderState) -> bool:
        """Whether a domain reported recently enough to be granted a budget.

        One that stopped reporting keeps its share, because it may still hold it, and its last
        budget expires: then it does not grow above its floor.
        """
        return tick - state.reported_tick[domain] <= VALID_MIN * self._per_minute

    def _report(self, state: CommanderState) -> Report:
        """The last reported sums as arrays."""
        columns: dict[str, Any] = {}
        reported = [state.sums[domain] for domain in self._domains]
        for name in Report._fields:
            columns[name] = np.array([[getattr(sums, name) for sums in reported]], np.float64)
        return Report(**columns)

    def _forecast(self, tick: int, state: CommanderState) -> Forecast | None:
        """The forecasts as arrays; NaN, which predicts nothing, where one is missing or expired."""
        if not state.forecasts:
            return None
        domains = len(self._domains)
        # One missing forecast must not take away those of the other domains.
        value = np.full((1, domains, len(HORIZONS_MIN), len(QUANTILES)), np.nan, np.float32)
        peak = np.full((1, domains, len(HORIZONS_MIN)), np.nan, np.float32)
        for index, domain in enumerate(self._domains):
            forecast = state.forecasts.get(domain)
            if forecast is not None and tick <= forecast.valid_until_tick:
                value[0, index], peak[0, index] = forecast.rps, forecast.peak_rps
        models = sorted({forecast.model for forecast in state.forecasts.values()})
        at = np.array([tick], np.int32)
        return Forecast(", ".join(models), at, at, value, peak)

    def _granted(
        self,
        index: int,
        tick: int,
        cause: TickEvent,
        decision: CommanderDecision,
        report: Report,
        doubts: Sequence[str],
    ) -> BudgetGranted:
        budget, domain = decision.directive.budget, self._domains[index]
        epoch = int(budget.epoch[0])
        columns: dict[str, Any] = {
            name: float(getattr(budget, source)[0, index]) for name, source in _PER_DOMAIN.items()
        }
        pools = zip(self._pools, budget.pool_cores[0, index].tolist(), strict=True)
        return BudgetGranted(
            tick=tick,
            time=cause.time,
            # The plans of all domains lead to a budget, so it has a trace of its own.
            trace_id=f"commander/{tick}",
            domain=domain,
            epoch=epoch,
            valid_until_tick=int(budget.valid_until_tick[0]),
            # Rounding may leave the share slightly outside of 0 to 1.
            reserve_share=min(1.0, max(0.0, float(budget.reserve[0]))),
            pool_cores={name: cores for name, cores in pools if cores > 0},
            growth=float(decision.directive.growth[0, index]),
            release_cores=float(decision.directive.release[0, index]),
            held_cores=float(report.held[0, index]),
            reasons=[*(IMPLAUSIBLE + one for one in doubts), *_reasons(index, decision, report)],
            versions={"policy": POLICY},
            decision_id=decision_id(domain, tick, epoch),
            **columns,
        )

    def _requested(
        self, index: int, tick: int, cause: TickEvent, decision: CommanderDecision
    ) -> CapacityRequested:
        epoch, pool = int(decision.directive.budget.epoch[0]), self._pools[index]
        nodes = zip(_URGENCIES, decision.nodes[0, index].tolist(), strict=True)
        return CapacityRequested(
            tick=tick,
            time=cause.time,
            trace_id=f"commander/{tick}",
            pool=pool,
            epoch=epoch,
            valid_until_tick=tick + VALID_MIN * self._per_minute,
            nodes=NodesByUrgency(**dict(nodes)),
            min_nodes=int(decision.keep[0, index]),
            decision_id=decision_id(pool, tick, epoch),
            versions={"policy": POLICY},
        )


def _name_of(event: TickEvent) -> str:
    """Name of an event within its minute."""
    match event:
        case ScalePlanned():
            return f"plan/{event.domain}"
        case DemandForecast():
            return f"forecast/{event.domain}"
        case PoolObserved():
            return f"pool/{event.pool}"
        case _:
            raise TypeError(f"expected a plan, a forecast or a pool, got {type(event).__name__}")


def _with_newest(
    state: CommanderState, events: Iterable[TickEvent], largest: float
) -> CommanderState:
    """Remember the newest believable event of each domain, and the newest of each pool."""
    sums, reported_tick = dict(state.sums), dict(state.reported_tick)
    forecasts, pools = dict(state.forecasts), dict(state.pools)
    highest, doubts = dict(state.highest_rps), dict[str, tuple[str, ...]]()
    # Plans first: the traffic they report is what a forecast of the same minute is held against.
    for event in sorted(events, key=lambda one: not isinstance(one, ScalePlanned)):
        if problem := _problem(event, sums, highest, largest):
            domain = key_of(event)
            doubts[domain] = (*doubts.get(domain, ()), problem)
            continue
        match event:
            # Plans without sums, which the schema allows, leave the last ones in force.
            case ScalePlanned() if event.sums is not None:
                sums[event.domain], reported_tick[event.domain] = event.sums, event.tick
                seen = highest.get(event.domain, 0.0)
                highest[event.domain] = highest_seen(seen, event.sums.rps, largest)
            case DemandForecast():
                forecasts[event.domain] = event
            case PoolObserved():
                pools[event.pool] = event
            case _:
                pass
    return replace(
        state,
        sums=sums,
        reported_tick=reported_tick,
        forecasts=forecasts,
        pools=pools,
        highest_rps=highest,
        doubts=doubts,
    )


def _problem(
    event: TickEvent, sums: Mapping[str, Sums], highest: Mapping[str, float], largest: float
) -> str:
    """Why an event is not believed; empty if it is."""
    match event:
        case ScalePlanned() if event.sums is not None:
            last, new = sums.get(event.domain), event.sums
            cores = [getattr(new, name) for name in CORES]
            return sums_problem(cores, new.held, None if last is None else last.held, largest)
        case DemandForecast():
            return forecast_problem(event.rps, highest.get(event.domain, 0.0), largest)
        case _:
            return ""


def _reasons(index: int, decision: CommanderDecision, report: Report) -> list[str]:
    """Why a domain's budget is what it is, most important first."""
    directive, budget = decision.directive, decision.directive.budget
    cores, held = float(budget.cores[0, index]), float(report.held[0, index])
    wanted, distress = float(report.wanted[0, index]), float(report.distress[0, index])
    growth, release = float(directive.growth[0, index]), float(directive.release[0, index])
    headroom = float(budget.headroom[0, index])
    reasons = []
    if release > 0:
        reasons.append(f"releasing {release:.0f} cores to higher-need domains")
    if distress > _NOTABLE * max(cores, 1.0):
        reasons.append(f"some apps lack {distress:.0f} cores for their present load")
    if growth > 1.0 + _NOTABLE:
        reasons.append(f"traffic is forecast to grow to {growth:.2f} times the present")
    if wanted > cores:
        reasons.append(f"wants {wanted:.0f} cores, budget is {cores:.0f}")
    if headroom > _NOTABLE:
        reasons.append(f"{headroom:.0%} headroom for forecast uncertainty")
    if not reasons:
        reasons.append(f"holds {held:.0f} of {cores:.0f} cores, needs no more")
    return reasons
