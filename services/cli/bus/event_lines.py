"""Each event type summarised in one line, for `hirl tail` and `hirl explain`."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from schemas.app_declared import AppDeclared
from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.capacity_requested import CapacityRequested
from schemas.demand_backfilled import DemandBackfilled
from schemas.demand_forecast import DemandForecast
from schemas.domain_observed import DomainObserved
from schemas.event_scheduled import EventScheduled
from schemas.fields import Event, TickEvent
from schemas.metrics_sampled import MetricsSampled
from schemas.model_judged import ModelJudged
from schemas.model_promoted import ModelPromoted
from schemas.override_issued import OverrideIssued
from schemas.pool_observed import PoolObserved
from schemas.rejected import Rejected
from schemas.samples_signed import SamplesSigned
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from schemas.transition_recorded import TransitionRecorded

_LISTED: Final = 3
"""Apps that a line names; it counts the rest."""


def summary(event: Event) -> str:
    """An event in one line, without its time and key."""
    summarise: Callable[[Any], str] | None = _SUMMARIES.get(type(event))
    # A topic without a summary is still printed: a new event must not break `hirl tail`.
    return summarise(event) if summarise else str(event)


def event_time(event: Event) -> str:
    """Event time and tick; empty for events without a tick."""
    return f"{event.time[11:19]} tick {event.tick}" if isinstance(event, TickEvent) else ""


def _declared(e: AppDeclared) -> str:
    if e.removed:
        return f"{e.domain}: removed"
    target = "best effort" if e.latency_target_s is None else f"p99 <= {e.latency_target_s:g} s"
    notes = [f"mode {e.mode}"] if e.mode else []
    notes += [f"pause {e.pause}"] if e.pause != "none" else []
    bounds = f"{e.min_replicas} to {e.max_replicas} replicas"
    if e.max_replicas is None:
        bounds = f"at least {e.min_replicas} replicas, no maximum declared"
    return ", ".join([f"{e.domain}: {bounds}", target, *notes])


def _scheduled(e: EventScheduled) -> str:
    if e.cancelled:
        return "cancelled"
    names = ", ".join(e.domains)
    return f"{names}: x{e.expected_factor:g} from {e.starts_at} to {e.ends_at}"


def _backfilled(e: DemandBackfilled) -> str:
    return f"{len(e.rps):,} minutes until {e.until}"


def _sampled(e: MetricsSampled) -> str:
    missing = sum(value is None for value in e.rps)
    rps = sum(value or 0.0 for value in e.rps)
    end = ", final" if e.final else ""
    return f"{len(e.apps)} rows from {e.source}, {rps:,.0f} rps, {missing} without a sample{end}"


def _signed(e: SamplesSigned) -> str:
    return f"{len(e.batch):,} characters from agent {e.agent or '?'}"


def _pool(e: PoolObserved) -> str:
    return (
        f"{e.ready:,} nodes ready, {e.booting:,} booting, {e.requested:,} requested, "
        f"quota {e.quota:,}; free {e.free_cores:,.0f} cores, {e.free_memory_gib:,.0f} GiB"
    )


def _observed(e: DomainObserved) -> str:
    sums = e.aggregates
    # A share of the apps on the wire; people count apps.
    at_risk = round(sums.get("at_risk", 0.0) * len(e.apps))
    return (
        f"{len(e.apps)} apps, {sums.get('rps', 0.0):,.0f} rps, "
        f"{sum(e.pods.ready):,} of {sum(e.pods.replicas):,} ready, {sum(e.pods.pending):,} pending,"
        f" p99/target {1 - sums.get('headroom', 1.0):.2f}, {at_risk} at risk,"
        f" {len(e.missing)} missing; closed: {e.closed_by}"
    )


def _forecast(e: DemandForecast) -> str:
    # Quantiles are ascending and symmetric, so the median is in the middle.
    middle = len(e.quantiles) // 2
    ahead = ", ".join(
        f"+{h} min {row[middle]:,.0f} ({row[0]:,.0f} to {row[-1]:,.0f})"
        for h, row in zip(e.horizons_minutes, e.rps, strict=True)
    )
    why = f"; fallback: {e.fallback_reason}" if e.fallback_reason else ""
    return f"rps {ahead}; {e.model}{why}"


def _budget(e: BudgetGranted) -> str:
    return (
        f"epoch {e.epoch}: {e.share:.1%} = {e.cores:,.0f} cores "
        f"(+{e.overdraft_cores:,.0f} from the reserve), "
        f"urgency {e.urgency:.2f}, headroom {e.headroom:.0%}, growth {e.growth:.2f}; "
        f"{e.reasons[0] if e.reasons else 'no reason given'}"
    )


def _nodes(e: CapacityRequested) -> str:
    n = e.nodes
    return (
        f"epoch {e.epoch}: {n.critical} critical, {n.essential} essential, {n.comfort} comfort, "
        f"{n.spare} spare nodes; at least {e.min_nodes} stay"
    )


def _planned(e: ScalePlanned) -> str:
    moved = [
        f"{app} {before} -> {after} ({why})"
        for app, before, after, why in zip(
            # Optional in the contract: a plan without them shows no change.
            e.apps,
            e.replicas_before or e.replicas,
            e.replicas,
            e.reasons,
            strict=True,
        )
        if before != after
    ]
    return f"epoch {e.epoch}: {e.changes} of {len(e.apps)} apps to change{_listed(moved)}"


def _applied(e: ScaleApplied) -> str:
    counts = Counter(e.outcomes)
    outcomes = ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items())) or "no change"
    single = [
        f"{app} {before} -> {after} {outcome} ({why})"
        for app, before, after, outcome, why in zip(
            e.apps, e.replicas_before, e.replicas, e.outcomes, e.reasons, strict=True
        )
    ]
    mode = "" if e.mode == "auto" else f", mode {e.mode}"
    return f"{outcomes}, breaker {e.breaker}{mode}{_listed(single)}"


def _breaker(e: BreakerChanged) -> str:
    beat = " (heartbeat, unchanged)" if e.heartbeat else ""
    why = f": {e.reason}" if e.reason else ""
    level = "" if e.level == "policy" else f", decided at most by {e.level}"
    return f"{e.state} since tick {e.since_tick}{level}{why}{beat}"


def _override(e: OverrideIssued) -> str:
    changes = [f"mode {e.mode}"] if e.mode else []
    changes += [f"{e.replicas} replicas"] if e.replicas is not None else []
    changes += [f"pause {e.pause}"] if e.pause != "none" else []
    for name in ("floor", "ceiling", "breaker"):
        value = getattr(e, name)
        changes += [] if value is None else [f"{name} {value}"]
    effect = "lifted" if e.lifted else ", ".join(changes) or "nothing"
    return f"{e.kind}: {effect}, by {e.issued_by or 'unknown'}: {e.reason or 'no reason given'}"


def _promoted(e: ModelPromoted) -> str:
    return f"{e.status} {e.version}: {e.reason or 'no reason given'}"


def _judged(e: ModelJudged) -> str:
    share = f" {e.share:.0%}" if e.share else ""
    return f"{e.phase}{share} {e.version or e.incumbent or 'what ships'}: {e.reason}"


def _transition(e: TransitionRecorded) -> str:
    return f"{e.kind}: reward {e.reward:,.3f} until tick {e.next_tick}, {len(e.state)} features"


def _rejected(e: Rejected) -> str:
    record = f"{e.topic}/{e.partition}/{e.offset}"
    return f"{e.service} rejected {record} (key `{e.key}`): {e.error}: {e.detail}"


def _listed(lines: list[str]) -> str:
    if not lines:
        return ""
    more = f", and {len(lines) - _LISTED} more" if len(lines) > _LISTED else ""
    return ": " + ", ".join(lines[:_LISTED]) + more


_SUMMARIES: Final[dict[type[Event], Callable[[Any], str]]] = {
    AppDeclared: _declared,
    EventScheduled: _scheduled,
    DemandBackfilled: _backfilled,
    MetricsSampled: _sampled,
    SamplesSigned: _signed,
    PoolObserved: _pool,
    DomainObserved: _observed,
    DemandForecast: _forecast,
    BudgetGranted: _budget,
    CapacityRequested: _nodes,
    ScalePlanned: _planned,
    ScaleApplied: _applied,
    BreakerChanged: _breaker,
    OverrideIssued: _override,
    ModelPromoted: _promoted,
    ModelJudged: _judged,
    TransitionRecorded: _transition,
    Rejected: _rejected,
}
