"""The Commander: each minute plans, forecasts and pools in, budgets and node requests out.

It sees domain aggregates only. A minute waits until all of it is there, or until the grace period
is over; then it goes by the last that it knows, and a forecast that is not there foretells nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from models.cluster.description import Cluster
from models.control.budget import CommanderDecision
from models.control.commander import VALID_MIN, Commander
from models.control.parameters import Parameters
from models.control.report import Report
from models.features.pools import PoolReadings
from models.forecaster.port import HORIZONS_MIN, QUANTILES, Forecast
from schemas.budget_granted import BudgetGranted
from schemas.capacity_requested import CapacityRequested, NodesByUrgency
from schemas.demand_forecast import DemandForecast
from schemas.fields import Event, TickEvent
from schemas.pool_observed import PoolObserved
from schemas.scale_planned import ScalePlanned, Sums
from services._kit.clock import Clock
from services._kit.handler import Handler, Step
from services._kit.pools import pool_records
from services._kit.roster import Roster
from services._kit.ticks import POLICY, TickBuffer, decision_id
from services.commander.reasons import reasons_of
from services.commander.transition import Moment, moment_of, transition

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


@dataclass(frozen=True)
class CommanderState:
    """Of the whole cluster."""

    minutes: TickBuffer[TickEvent] = field(default_factory=TickBuffer)
    """Events of minutes that are not decided."""
    epoch: int = -1
    """Of the last budget; it only rises."""
    sums: Mapping[str, Sums] = field(default_factory=dict)
    """The last known of each domain."""
    reported: Mapping[str, int] = field(default_factory=dict)
    """The tick that they are of."""
    pools: Mapping[str, PoolObserved] = field(default_factory=dict)
    forecasts: Mapping[str, DemandForecast] = field(default_factory=dict)
    moment: Moment | None = None
    """What it saw and did in the last minute."""


class CommanderHandler(Handler[CommanderState]):
    """Divides the cluster."""

    name = "commander"
    scope = "cluster"
    inputs = (ScalePlanned, DemandForecast, PoolObserved)

    def __init__(
        self,
        cluster: Cluster,
        parameters: Parameters,
        grace_s: float | None,
        forecasts: bool = True,
    ) -> None:
        self._roster = Roster(cluster)
        self._inventory = self._roster.inventory(())
        self._commander = Commander(self._inventory, parameters)
        self._grace = grace_s
        self._every = max(1, 60 // cluster.tick_seconds)
        self._weights = [cluster.priority_weights[d.priority] for d in cluster.domains]
        kinds = ("plan", "forecast") if forecasts else ("plan",)
        self._needed = frozenset(
            [f"{kind}/{domain}" for kind in kinds for domain in cluster.domain_names]
            + [f"pool/{pool}" for pool in cluster.pool_names]
        )

    def start(self, key: str) -> CommanderState:  # noqa: ARG002  there is one
        """Nothing seen yet."""
        return CommanderState()

    def handle(self, event: Event, state: CommanderState, clock: Clock) -> Step[CommanderState]:
        """Gather what belongs to the first tick of a minute."""
        if isinstance(event, TickEvent) and event.tick % self._every == 0:
            minutes = state.minutes.with_event(event.tick, _piece(event), event, clock.now())
            state = replace(state, minutes=minutes)
        return self.wake(state, clock)

    def due(self, state: CommanderState) -> float | None:
        """When the earliest minute has waited long enough."""
        return state.minutes.due(self._grace)

    def wake(self, state: CommanderState, clock: Clock) -> Step[CommanderState]:
        """Decide every minute that is whole."""
        events: list[Event] = []
        while (tick := self._ready(state, clock)) is not None:
            pieces, minutes = state.minutes.close(tick)
            state = _with_events(replace(state, minutes=minutes), pieces.values())
            if self._knows(state):
                state, decided = self._decide(tick, next(iter(pieces.values())), state)
                events += decided
        return Step(state, events, settled=state.minutes.empty)

    def _ready(self, state: CommanderState, clock: Clock) -> int | None:
        return state.minutes.ready(self._needed, clock.now(), self._grace)

    def _knows(self, state: CommanderState) -> bool:
        """Whether there was ever a word of each pool and each domain.

        What a domain holds that was never heard of is not known: others must not be given it.
        """
        domains, pools = set(self._roster.domains), set(self._roster.pools)
        return domains <= state.sums.keys() and pools <= state.pools.keys()

    def _decide(
        self, tick: int, cause: TickEvent, state: CommanderState
    ) -> tuple[CommanderState, list[Event]]:
        at = np.array([tick], np.int32)
        # Never an epoch twice, even if the clock of the cluster was set back.
        epoch = max(tick // self._every, state.epoch + 1)
        report = self._report(state)
        orders = self._commander.decide(
            at,
            PoolReadings(pool_records(self._roster.pools, state.pools), self._inventory),
            report,
            self._forecast(at[0], state),
            np.array([epoch], np.int32),
        )
        heard = [place for place in self._places() if self._is_heard(place, tick, state)]
        events: list[Event] = [
            *(self._granted(place, tick, cause, orders, report) for place in heard),
            *(
                self._requested(place, tick, cause, orders)
                for place in range(len(self._roster.pools))
            ),
        ]
        now = moment_of(tick, self._roster.domains, report, orders, state.pools)
        if state.moment is not None:
            events.append(transition(state.moment, now, self._weights, cause, POLICY))
        return replace(state, epoch=epoch, moment=now), events

    def _is_heard(self, place: int, tick: int, state: CommanderState) -> bool:
        """Whether a domain is granted a budget.

        One that fell silent keeps its part, as it may still hold it, and its last budget expires:
        then it does not grow above its floor.
        """
        age = tick - state.reported[self._roster.domains[place]]
        return age <= VALID_MIN * self._every

    def _places(self) -> range:
        return range(len(self._roster.domains))

    def _report(self, state: CommanderState) -> Report:
        """What the domains reported last."""
        columns: dict[str, Any] = {}
        known = [state.sums[domain] for domain in self._roster.domains]
        for name in Report._fields:
            columns[name] = np.array([[getattr(sums, name) for sums in known]], np.float64)
        return Report(**columns)

    def _forecast(self, tick: int, state: CommanderState) -> Forecast | None:
        """What is forecast of the domains; where nothing is, NaN, which foretells nothing."""
        if not state.forecasts:
            return None
        domains = len(self._roster.domains)
        value = np.full((1, domains, len(HORIZONS_MIN), len(QUANTILES)), np.nan, np.float32)
        peak = np.full((1, domains, len(HORIZONS_MIN)), np.nan, np.float32)
        for place, domain in enumerate(self._roster.domains):
            said = state.forecasts.get(domain)
            if said is not None and tick <= said.valid_until_tick:
                value[0, place], peak[0, place] = said.rps, said.peak_rps
        models = sorted({said.model for said in state.forecasts.values()})
        at = np.array([tick], np.int32)
        return Forecast(", ".join(models), at, at, value, peak)

    def _granted(
        self, place: int, tick: int, cause: TickEvent, orders: CommanderDecision, report: Report
    ) -> BudgetGranted:
        budget, domain = orders.directive.budget, self._roster.domains[place]
        epoch = int(budget.epoch[0])
        columns: dict[str, Any] = {
            name: float(getattr(budget, of)[0, place]) for name, of in _PER_DOMAIN.items()
        }
        pools = zip(self._roster.pools, budget.pool_cores[0, place].tolist(), strict=True)
        return BudgetGranted(
            tick=tick,
            time=cause.time,
            trace_id=f"commander/{tick}",
            domain=domain,
            epoch=epoch,
            valid_until_tick=int(budget.valid_until_tick[0]),
            reserve_share=_share(float(budget.reserve[0])),
            pool_cores={name: cores for name, cores in pools if cores > 0},
            growth=float(orders.directive.growth[0, place]),
            release_cores=float(orders.directive.release[0, place]),
            held_cores=float(report.held[0, place]),
            reasons=reasons_of(place, orders, report),
            versions={"policy": POLICY},
            decision_id=decision_id(domain, tick, epoch),
            **columns,
        )

    def _requested(
        self, place: int, tick: int, cause: TickEvent, orders: CommanderDecision
    ) -> CapacityRequested:
        epoch, pool = int(orders.directive.budget.epoch[0]), self._roster.pools[place]
        asked = zip(_URGENCIES, orders.nodes[0, place].tolist(), strict=True)
        return CapacityRequested(
            tick=tick,
            time=cause.time,
            trace_id=f"commander/{tick}",
            pool=pool,
            epoch=epoch,
            valid_until_tick=tick + VALID_MIN * self._every,
            nodes=NodesByUrgency(**dict(asked)),
            min_nodes=int(orders.keep[0, place]),
            decision_id=decision_id(pool, tick, epoch),
            versions={"policy": POLICY},
        )


def _piece(event: TickEvent) -> str:
    match event:
        case ScalePlanned():
            return f"plan/{event.domain}"
        case DemandForecast():
            return f"forecast/{event.domain}"
        case PoolObserved():
            return f"pool/{event.pool}"
        case _:
            raise TypeError(f"expected a plan, a forecast or a pool, got {type(event).__name__}")


def _with_events(state: CommanderState, pieces: Iterable[TickEvent]) -> CommanderState:
    """Remember the newest of each domain and pool."""
    sums, reported = dict(state.sums), dict(state.reported)
    forecasts, pools = dict(state.forecasts), dict(state.pools)
    for piece in pieces:
        match piece:
            case ScalePlanned() if piece.sums is not None:
                sums[piece.domain], reported[piece.domain] = piece.sums, piece.tick
            case DemandForecast():
                forecasts[piece.domain] = piece
            case PoolObserved():
                pools[piece.pool] = piece
            case _:
                pass
    return replace(state, sums=sums, reported=reported, forecasts=forecasts, pools=pools)


def _share(value: float) -> float:
    """Rounding may leave a share a hair outside of 0 to 1."""
    return min(1.0, max(0.0, value))
