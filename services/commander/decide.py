"""The Commander: each minute plans, forecasts and pools in, budgets and node requests out.

It sees aggregates of domains only. A minute is decided when all of its events are there or the
grace period is over; then the last reported events count, and a missing forecast predicts nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from models.cluster.description import Cluster
from models.control.budget import CommanderDecision
from models.control.commander import VALID_MIN, Commander
from models.control.fallback import Level, usable_forecast, usable_residual
from models.control.parameters import Parameters
from models.control.report import Report
from models.control.residual import Residual
from models.features.pools import PoolReadings
from models.forecaster.port import HORIZONS_MIN, QUANTILES, Forecast, ticks_per_minute
from models.policies.features import commander_features
from models.policies.inputs import commander_inputs
from models.registry.burn import A_PART
from models.registry.drift import problem as drift_problem
from models.registry.rollout import Rules
from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.capacity_requested import CapacityRequested, NodesByUrgency
from schemas.demand_forecast import DemandForecast
from schemas.fields import Event, TickEvent
from schemas.model_judged import ModelJudged
from schemas.model_promoted import ModelPromoted
from schemas.pool_observed import PoolObserved
from schemas.scale_planned import ScalePlanned
from services._kit.arrays import check_forecast
from services._kit.clock import Clock
from services._kit.errors import Refused
from services._kit.following import Follower, watch
from services._kit.handler import CLUSTER, Handler, Step
from services._kit.inventory import DeclaredApps, pool_records
from services._kit.levels import Levels, versions_at
from services._kit.models import LoadedModel
from services._kit.plausible import OUT_OF_RANGE, Pace, bounded, following
from services._kit.ticks import POLICY, decision_id
from services.commander.advice import (
    MODEL,
    SPEND_MINUTES,
    Advice,
    Asked,
    Policy,
    advise,
    beside_heuristic,
    over_cap,
    sample_of,
    with_policy,
)
from services.commander.metrics import IMPLAUSIBLE
from services.commander.reasons import insurance_reasons, reasons_of
from services.commander.state import CommanderState, known_tick, name_of, with_newest
from services.commander.transition import snapshot_of, transition

_PER_DOMAIN: Final = {
    "share": "share",
    "cores": "cores",
    "memory_gib": "memory",
    "overdraft_cores": "overdraft",
    "floor_cores": "floor",
    "urgency": "urgency",
    "insured_headroom": "insured",
}
"""Fields of the event that differ by domain, and those of the budget."""
_URGENCIES: Final = NodesByUrgency.__struct_fields__
_NO_APPS: Final = np.zeros((1, 0), np.int32)
"""Domains of apps: the Commander sees none."""
RULES: Final = Rules()
_FORECAST_VALID_MIN: Final = 60
"""A forecast looks half an hour ahead: one that claims to be valid for longer is wrong."""


class CommanderHandler(Handler[CommanderState]):
    """Divides the capacity of the cluster among its domains."""

    name = "commander"
    scope = "cluster"
    inputs = (ScalePlanned, DemandForecast, PoolObserved)
    reference = (BreakerChanged, ModelPromoted)

    def __init__(
        self,
        cluster: Cluster,
        parameters: Parameters,
        grace_s: float | None,
        await_forecasts: bool = True,
        speed: float = 1.0,
        rules: Rules = RULES,
    ) -> None:
        self._domains, self._pools = cluster.domain_names, cluster.pool_names
        self._levels = Levels(self._domains)
        # Without apps: the Commander works on sums of domains and needs only the cluster's part.
        self._inventory = DeclaredApps(cluster).inventory(())
        self._commander = Commander(self._inventory, parameters)
        self._follower: Follower[Policy] = Follower(MODEL, CLUSTER, rules)
        self._grace, self._largest = grace_s, cluster.largest_factor
        self._per_minute = ticks_per_minute(cluster.tick_seconds)
        pace = None if grace_s is None else speed
        self._pace = Pace(cluster.tick_seconds, pace, stride=self._per_minute)
        # Plans pace the minutes: forecasts may be switched off, and pools have one source for all.
        self._voters = frozenset(f"plan/{domain}" for domain in self._domains)
        self._priorities = [d.priority for d in cluster.domains]
        self._cluster_weights = cluster.priority_weights
        self._highest = int(np.argmin(self._inventory.priority))
        kinds = ("plan", "forecast") if await_forecasts else ("plan",)
        self._expected = frozenset(
            [f"{kind}/{domain}" for kind in kinds for domain in self._domains]
            + [f"pool/{pool}" for pool in self._pools]
        )

    def learn(self, event: Event, clock: Clock) -> None:  # noqa: ARG002  needs no time
        """Take in the breakers' levels, and promoted policies."""
        if isinstance(event, BreakerChanged):
            self._levels.learn(event)
        elif isinstance(event, ModelPromoted):
            self._follower.learn(event)

    def forget(self, kind: type[Event], key: str, clock: Clock) -> None:  # noqa: ARG002  as above
        """Remove a breaker. A promotion without a record stays: only another one replaces it."""
        if kind is BreakerChanged:
            self._levels.forget(key)

    def start(self, key: str) -> CommanderState:  # noqa: ARG002  there is only one
        """Nothing reported yet."""
        return CommanderState()

    def handle(self, event: Event, state: CommanderState, clock: Clock) -> Step[CommanderState]:
        """Add an event of a minute's first tick, then decide the minutes that are complete."""
        # Budgets are made once a minute, so plans of other ticks are not needed. They only give an
        # occasion to decide a minute that is late by now.
        if not isinstance(event, TickEvent) or event.tick % self._per_minute:
            return self.wake(state, clock)
        name = name_of(event)
        self._check(event)
        if state.timeline.is_over(event.tick, state.minutes.closed):
            return Step(self._with_late(event, state))
        judged = state.timeline.judge(name, event, clock.date(), self._pace, self._voters)
        # Kept even if the event is refused: several such events may show that the time has moved.
        minutes = following(state.minutes, judged, clock.date(), self._pace)
        state = replace(state, timeline=judged.timeline, minutes=minutes)
        if judged.refused is not None:
            return Step(state, refused=judged.refused)
        if event.tick <= state.minutes.closed:
            return self.wake(self._with_late(event, state), clock)
        minutes = state.minutes.with_event(event.tick, name, event, clock.now())
        minutes = bounded(minutes, state.timeline)
        return self.wake(replace(state, minutes=minutes), clock)

    def _with_late(self, event: TickEvent, state: CommanderState) -> CommanderState:
        """Let an event of a decided minute count for the next one, unless a newer one is known.

        Otherwise a domain that is late each time would never report, and no domain would get a
        budget (`_can_decide`).
        """
        if event.tick <= known_tick(event, state):
            return state
        doubts = state.doubts
        state = with_newest(state, [event], self._largest)
        return replace(state, doubts={**doubts, **state.doubts})

    def _check(self, event: TickEvent) -> None:
        """Refuse unknown domains and pools, and forecasts of other horizons or of long validity."""
        match event:
            case ScalePlanned() | DemandForecast() if event.domain not in self._domains:
                domains = ", ".join(self._domains)
                raise Refused("unknown-domain", f"expected one of {domains}, got {event.domain}")
            case PoolObserved() if event.pool not in self._pools:
                pools = ", ".join(self._pools)
                raise Refused("unknown-pool", f"expected one of {pools}, got {event.pool}")
            case DemandForecast():
                check_forecast(event)
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
        """Follow promotions, then decide, in order, the minutes that are complete or late."""
        rollout, judged, missing = self._follower.follow(state.rollout, state.minutes.closed)
        state, events = replace(state, rollout=rollout), list[Event](judged)
        if missing is not None:
            # Minutes wait for it: after a restart none may be decided by another version.
            return Step(state, events, read=missing)
        while True:
            reached, now = state.timeline.reached(clock.date(), self._pace), clock.now()
            tick = state.minutes.ready(self._expected, now, self._grace, reached)
            if tick is None:
                settled = state.minutes.empty or state.timeline.line is None
                return Step(state, events, settled=settled)
            arrived, minutes = state.minutes.close(tick)
            state = replace(state, minutes=minutes, timeline=state.timeline.settled())
            state = with_newest(state, arrived.values(), self._largest)
            if self._can_decide(state):
                # Any event of the tick will do as the cause: all have the same time.
                state, decided = self._decide(tick, next(iter(arrived.values())), state, clock)
                events += decided

    def written(
        self, result: LoadedModel, state: CommanderState, clock: Clock
    ) -> Step[CommanderState]:
        """Take in a policy that was opened, or why it could not be, and go on."""
        rollout, events = self._follower.opened(result, state.rollout, state.minutes.closed)
        step = self.wake(replace(state, rollout=rollout), clock)
        return step._replace(events=[*events, *step.events])

    def _can_decide(self, state: CommanderState) -> bool:
        """Whether every domain and pool has reported at least once.

        What a domain holds that never reported is unknown: others must not be granted it.
        """
        return set(self._domains) <= state.sums.keys() and set(self._pools) <= state.pools.keys()

    def _decide(
        self, tick: int, cause: TickEvent, state: CommanderState, clock: Clock
    ) -> tuple[CommanderState, list[Event]]:
        # Never the same epoch twice, even if the cluster's clock was set back.
        epoch = max(tick // self._per_minute, state.epoch + 1)
        report = self._report(state)
        levels = [self._levels.before(tick, domain) for domain in self._domains]
        level = np.array([levels], np.int8)
        asked = (
            np.array([tick], np.int32),
            PoolReadings(pool_records(self._pools, state.pools), self._inventory),
            report,
            usable_forecast(self._forecast(tick, state), level),
        )

        def decide(residual: Residual | None) -> CommanderDecision:
            usable = None if residual is None else usable_residual(residual, level, _NO_APPS)
            return self._commander.decide(*asked, np.array([epoch], np.int32), usable)

        spent, cap = float(asked[1].price_per_hour[0]), self._inventory.spend_cap_per_hour
        spend_per_hour = (*state.spend_per_hour, spent)[-SPEND_MINUTES:]
        state = replace(state, spend_per_hour=spend_per_hour)
        state, advice, judged = self._advised(asked, decide, cause, state, clock)
        decision = decide(None if advice is None else advice.residual)
        beside, drift = dict[str, float](), {} if advice is None else dict(advice.drift)
        if advice is not None and any(advice.names):
            beside = beside_heuristic(
                decision, decide(None), report, self._inventory, self._weights()[self._highest]
            )
        # Every domain takes part in the decision, so that shares sum to 1. Only those that report
        # get a budget; all pools get a request.
        events: list[Event] = [
            *judged,
            *(
                self._granted(
                    index,
                    tick,
                    cause,
                    decision,
                    report,
                    state.doubts.get(domain, ()),
                    levels[index],
                    "" if advice is None else advice.names[index],
                    state.rollout.unavailable,
                )
                for index, domain in enumerate(self._domains)
                if self._has_reported(domain, tick, state)
            ),
            *(self._requested(index, tick, cause, decision) for index in range(len(self._pools))),
        ]
        snapshot = snapshot_of(
            tick, self._domains, report, decision, state.pools, spent, cap, beside, drift
        )
        if state.snapshot is not None:
            events.append(transition(state.snapshot, snapshot, self._weights(), cause, POLICY))
        return replace(state, epoch=epoch, snapshot=snapshot), events

    def _advised(
        self,
        asked: Asked,
        decide: Callable[[Residual | None], CommanderDecision],
        cause: TickEvent,
        state: CommanderState,
        clock: Clock,
    ) -> tuple[CommanderState, Advice | None, list[ModelJudged]]:
        """What promoted policies advise, and how they did; None where there is none."""
        deciding = self._follower.deciding(state.rollout, self._domains)
        if deciding.incumbent is None and deciding.candidate is None:
            return state, None, []
        rules, sample = self._follower.rules, None
        advice = advise(deciding, asked, clock.now, rules.most_answer_seconds)
        watched, drifts = watch(
            deciding,
            state.watched,
            lambda: commander_features(commander_inputs(*asked, self._inventory)),
            rules.drift_minutes,
        )
        state, advice = replace(state, watched=watched), advice._replace(drift=drifts.worst)
        cap = self._inventory.spend_cap_per_hour
        spending = over_cap(state.spend_per_hour, cap, rules.most_spend)
        problem = advice.problem or drift_problem(drifts.incumbent, rules.most_drift)
        if deciding.candidate is not None:
            sample = sample_of(
                advice, decide, asked[2], self._inventory, self._weights()[self._highest]
            )
            at_risk = asked[2].at_risk[0] / np.maximum(asked[2].apps[0], 1.0)
            risk = {"ids": self._domains, "risk": at_risk.tolist(), "chance": A_PART}
            drifted = drift_problem(drifts.candidate, rules.most_drift)
            sample = sample._replace(**risk, fault=sample.fault or drifted)
            if deciding.applied.any():
                sample = sample._replace(fault=sample.fault or spending)
            elif deciding.incumbent is not None:
                # Nothing of the candidate was applied in shadow, so it has spent nothing.
                problem = problem or spending
        elif deciding.incumbent is not None:
            problem = problem or spending
        tick, time = int(asked[0][0]), cause.time
        rollout, judged = self._follower.judge(state.rollout, sample, problem, tick, time)
        return replace(state, rollout=rollout), advice, judged

    def _weights(self) -> list[float]:
        """[D] of the objective, now."""
        changed = self._follower.rules.weights
        return [changed.get(one, self._cluster_weights[one]) for one in self._priorities]

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
        level: Level,
        policy: str,
        unavailable: str,
    ) -> BudgetGranted:
        budget, domain = decision.directive.budget, self._domains[index]
        epoch, headroom = int(budget.epoch[0]), float(budget.headroom[0, index])
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
            # One of them is 0: a policy may want less than what is needed now.
            headroom=max(0.0, headroom),
            headroom_cut=max(0.0, -headroom),
            growth=float(decision.directive.growth[0, index]),
            release_cores=float(decision.directive.release[0, index]),
            held_cores=float(report.held[0, index]),
            spend_left=float(decision.spend_left[0]),
            reasons=[
                *(IMPLAUSIBLE + one for one in doubts),
                *([unavailable] if unavailable else []),
                *reasons_of(index, decision, report, level),
            ],
            versions=with_policy(versions_at(level), policy, level),
            decision_id=decision_id(domain, tick, epoch),
            **columns,
        )

    def _requested(
        self, index: int, tick: int, cause: TickEvent, decision: CommanderDecision
    ) -> CapacityRequested:
        epoch, pool = int(decision.directive.budget.epoch[0]), self._pools[index]
        nodes = zip(_URGENCIES, decision.nodes[0, index].tolist(), strict=True)
        insured = int(decision.insured[0, index])
        per_hour = insured * float(self._inventory.pool_price[index])
        return CapacityRequested(
            tick=tick,
            time=cause.time,
            trace_id=f"commander/{tick}",
            pool=pool,
            epoch=epoch,
            valid_until_tick=tick + VALID_MIN * self._per_minute,
            nodes=NodesByUrgency(**dict(nodes)),
            min_nodes=int(decision.keep[0, index]),
            insured_nodes=insured,
            insured_per_hour=per_hour,
            reasons=insurance_reasons(insured, per_hour),
            decision_id=decision_id(pool, tick, epoch),
            versions={"policy": POLICY},
        )
