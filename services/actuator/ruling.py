"""What becomes of each change of a plan: applied, or held with a reason.

First permissions: breaker, modes and pauses. Then the rules that every plan obeys, applied to the
whole plan once more. Last an operator's override of exact replicas, which wins over both, but not
over the mode: off and preview change nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2s
from typing import Any, Final

import numpy as np

from models.cluster.arrays import I32
from models.cluster.plan import Plan, empty_plan
from models.control.change_history import ChangeHistory
from models.control.safety import SafetyRules
from schemas.app_declared import AppDeclared
from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.domain_observed import DomainObserved
from schemas.fields import Event, Mode
from schemas.override_issued import OverrideIssued
from schemas.scale_applied import Outcome, ScaleApplied
from schemas.scale_planned import ScalePlanned
from services._kit.arrays import REASONS, as_row, directive_of, status_rows
from services._kit.handler import CLUSTER
from services._kit.inventory import DeclaredApps
from services._kit.orders import OrderBook
from services._kit.ticks import parse
from services.actuator.settings import STALE_TICKS, Modes

COLUMNS: Final = ("replicas", "cpu_request", "memory_request")
_CODES: Final = {name: code for code, name in REASONS.items()}
_OVERRIDE: Final = "override"
_BY_RESTRICTION: Final[tuple[Mode, ...]] = ("off", "preview", "canary", "auto")
"""The strictest mode first."""


# Permissions.


@dataclass
class Permissions:
    """Overrides and breakers as learned from the bus, and the configured modes."""

    modes: Modes
    stale_s: float | None
    """Seconds by `Clock.now` after which a breaker without heartbeat is stale; None: event time
    only."""
    stale_ticks: int = STALE_TICKS
    """The same in event time, which survives a restart."""
    orders: OrderBook = field(default_factory=OrderBook)
    now: float = 0.0
    """Wall time of the decision, in seconds since 1970."""
    breakers: dict[str, tuple[BreakerChanged, float]] = field(default_factory=dict)
    """The last event of each scope, with its time of arrival by `Clock.now`."""

    def learn(self, event: BreakerChanged, now: float) -> None:
        """Take in a heartbeat."""
        self.breakers[event.scope] = event, now

    def forget(self, kind: type[Event], scope: str) -> None:
        """Remove the breaker of a scope after a tombstone."""
        if kind is BreakerChanged:
            self.breakers.pop(scope, None)

    def advance(self, now: float) -> None:
        """Let orders take effect that the limit per minute held back."""
        self.now = now
        self.orders.advance(now)

    def has_heartbeat(self, domain: str) -> bool:
        """Whether a breaker of the domain or of the cluster has ever reported."""
        return domain in self.breakers or CLUSTER in self.breakers

    def breaker(self, domain: str, now: float, tick: int) -> str:
        """closed, half-open, open or stale, for a plan of a tick.

        The worse of domain and cluster counts: a live one does not substitute for the other.
        """
        found = [self.breakers[scope] for scope in (domain, CLUSTER) if scope in self.breakers]
        # A breaker that never reported gives no permission: silence must not look like calm.
        if not found:
            return "stale"
        if any(event.state == "open" for event, _ in found):
            return "open"
        if any(self._is_stale(event, now - at, tick) for event, at in found):
            return "stale"
        return "half-open" if any(event.state == "half-open" for event, _ in found) else "closed"

    def _is_stale(self, event: BreakerChanged, silent_s: float, tick: int) -> bool:
        # After a restart an old heartbeat has just arrived: only its tick shows its age.
        late = self.stale_s is not None and silent_s > self.stale_s
        return late or tick - event.tick > self.stale_ticks

    def overrides_of(self, app: AppDeclared, time: str) -> list[OverrideIssued]:
        """Overrides in force for an app at an event time."""
        return self.orders.orders_for(app, parse(time), self.now) if self.orders else []

    def mode_of(self, app: AppDeclared, overrides: Sequence[OverrideIssued]) -> Mode:
        """Mode of an app: by overrides, else its own, else its domain's."""
        return _strictest(overrides) or app.mode or self._configured(app.domain)

    def domain_mode(self, domain: str, time: str) -> Mode:
        """Mode of a whole domain."""
        overrides = self.orders.orders_of_domain(domain, parse(time), self.now)
        return _strictest(overrides) or self._configured(domain)

    def hold_reason(
        self,
        app: AppDeclared,
        steps: Sequence[int],
        overrides: Sequence[OverrideIssued],
        breaker: str,
    ) -> str:
        """Why a change is held; empty when it is permitted.

        `steps` are the differences of replicas and sizes: a smaller pod is a decrease just as
        fewer pods are.
        """
        mode, decreases, increases = self.mode_of(app, overrides), min(steps) < 0, max(steps) > 0
        # The breaker first: it wins over modes and pauses.
        if breaker in ("open", "stale"):
            return f"breaker-{breaker}"
        if breaker == "half-open" and decreases:
            return "breaker-half-open"
        if mode in ("off", "preview"):
            return mode
        if mode == "canary" and not in_canary(app.app, self.modes.canary_share):
            return "not-in-canary"
        pauses = {app.pause, *(override.pause for override in overrides)}
        if "all" in pauses or ("scale-in" in pauses and decreases):
            return "paused"
        return "paused" if "scale-out" in pauses and increases else ""

    def _configured(self, domain: str) -> Mode:
        return self.modes.domains.get(domain, self.modes.cluster)


def _strictest(overrides: Sequence[OverrideIssued]) -> Mode | None:
    # An override of the cluster stops everything, whatever is overridden for a domain or an app.
    modes = [override.mode for override in overrides if override.mode is not None]
    return min(modes, key=_BY_RESTRICTION.index, default=None)


def in_canary(app: str, share: float) -> bool:
    """Whether canary mode may change an app.

    Chosen by name: the same apps in every process and after a restart.
    """
    # Not `hash`, which Python salts per process.
    number = int.from_bytes(blake2s(app.encode(), digest_size=8).digest(), "big")
    return number < share * 2**64


# Rulings.


@dataclass(frozen=True)
class Ruling:
    """Numbers after all rules, one per app of the plan."""

    after: Mapping[str, I32]
    """New numbers, by column."""
    reasons: list[str]
    """The plan's reason, that of the rule that cut it, or that of the hold."""
    overridden: frozenset[int]
    """Indices of apps with an operator's override of replicas."""


@dataclass(frozen=True)
class Basis:
    """What the actuator decided on, besides the plan."""

    epoch: int
    """Epoch of the budget; -1 without one."""
    mode: Mode
    """Mode of the domain."""
    breaker: str


def rule(
    plan: ScalePlanned,
    frame: DomainObserved,
    budget: BudgetGranted | None,
    apps: DeclaredApps,
    permissions: Permissions,
    breaker: str,
    rules: SafetyRules,
    history: ChangeHistory,
) -> Ruling:
    """Decide on every change. Updates `history` in place: pass a copy."""
    status = status_rows(frame.pods, apps.domain_index(plan.domain))
    holds = _holds(plan, frame, apps, permissions, breaker)
    numbers = _numbers(plan, frame, holds, len(apps.pools))
    rules.step(
        np.array([plan.tick], np.int32),
        status,
        as_row(frame.features["missing"]),
        as_row(frame.load_pods),
        directive_of(budget, apps).budget,
        history,
        numbers,
    )
    reasons = [REASONS[code] for code in numbers.reason[0].tolist()]
    for index, reason in holds.items():
        reasons[index] = reason
    columns = (numbers.replicas[0], numbers.cpu[0], numbers.memory[0])
    after = dict(zip(COLUMNS, columns, strict=True))
    # After the rules: neither budget nor blast radius cuts an operator's number.
    overridden = _apply_overrides(plan, apps, permissions, after, reasons)
    return Ruling(after, reasons, overridden)


def hold_all(plan: ScalePlanned, reason: str) -> Ruling:
    """Change nothing, for one reason."""
    after = {name: np.array(getattr(plan, f"{name}_before"), np.int32) for name in COLUMNS}
    return Ruling(after, [reason] * len(plan.apps), frozenset())


def applied_of(
    plan: ScalePlanned,
    before: Mapping[str, list[int]],
    ruling: Ruling,
    basis: Basis,
    outcome: Outcome = "held",
) -> ScaleApplied:
    """The event about a plan: one entry per app that it changes, or that is overridden.

    `outcome` is that of the changes that are not made.
    """
    indices = [i for i in range(len(plan.apps)) if _is_relevant(plan, before, ruling, i)]
    made = [any(_at(ruling, name, i) != before[name][i] for name in COLUMNS) for i in indices]
    columns: dict[str, Any] = {
        **{name: [_at(ruling, name, i) for i in indices] for name in COLUMNS},
        **{f"{name}_before": [before[name][i] for i in indices] for name in COLUMNS},
    }
    return ScaleApplied(
        tick=plan.tick,
        time=plan.time,
        trace_id=plan.trace_id,
        domain=plan.domain,
        decision_id=plan.decision_id,
        epoch=basis.epoch,
        mode=basis.mode,
        apps=[plan.apps[i] for i in indices],
        outcomes=["applied" if changed else outcome for changed in made],
        reasons=[ruling.reasons[i] for i in indices],
        breaker=basis.breaker,
        versions=plan.versions,
        **columns,
    )


def _is_relevant(
    plan: ScalePlanned, before: Mapping[str, list[int]], ruling: Ruling, index: int
) -> bool:
    planned = any(getattr(plan, name)[index] != before[name][index] for name in COLUMNS)
    return planned or index in ruling.overridden


def _at(ruling: Ruling, column: str, index: int) -> int:
    return int(ruling.after[column][index])


def _holds(
    plan: ScalePlanned,
    frame: DomainObserved,
    apps: DeclaredApps,
    permissions: Permissions,
    breaker: str,
) -> dict[int, str]:
    """Reasons of the changes that are not permitted, by index."""
    found: dict[int, str] = {}
    # Against the frame, not against what the plan assumed: pods may have changed since.
    steps = [np.subtract(getattr(plan, name), getattr(frame.pods, name)) for name in COLUMNS]
    for index in np.flatnonzero(np.any(steps, axis=0)).tolist():
        name = plan.apps[index]
        app = apps.find(name)
        if app is None:
            found[index] = "not-declared"
        elif not _pods_known(frame, index):
            found[index] = "pods-unknown"
        else:
            overrides = permissions.overrides_of(app, plan.time)
            step = [int(column[index]) for column in steps]
            found[index] = permissions.hold_reason(app, step, overrides, breaker)
    return {index: reason for index, reason in found.items() if reason}


def _pods_known(frame: DomainObserved, index: int) -> bool:
    # Zeros stand for pods that were never reported; an app at 0 replicas is its owner's to start.
    return frame.pods.cpu_request[index] > 0 and frame.pods.replicas[index] > 0


def _numbers(plan: ScalePlanned, frame: DomainObserved, holds: dict[int, str], pools: int) -> Plan:
    """The plan as arrays, with held apps as they are."""
    numbers = empty_plan(1, len(plan.apps), pools)
    columns = (numbers.replicas[0], numbers.cpu[0], numbers.memory[0])
    for name, column in zip(COLUMNS, columns, strict=True):
        column[:] = getattr(plan, name)
        # Unchanged for the rules, so that a held change uses up no budget and no blast radius.
        for index in holds:
            column[index] = getattr(frame.pods, name)[index]
    numbers.reason[0] = [_CODES.get(name, 0) for name in plan.reasons]
    return numbers


def _apply_overrides(
    plan: ScalePlanned,
    apps: DeclaredApps,
    permissions: Permissions,
    after: dict[str, I32],
    reasons: list[str],
) -> frozenset[int]:
    """Set overridden replicas, within the declared bounds; returns their indices."""
    overridden = set()
    for index, name in enumerate(plan.apps if permissions.orders else ()):
        app = apps.find(name)
        if app is None:
            continue
        overrides = permissions.overrides_of(app, plan.time)
        exact = [o.replicas for o in overrides if o.kind == "app" and o.replicas is not None]
        if exact and permissions.mode_of(app, overrides) not in ("off", "preview"):
            after["replicas"][index] = min(max(exact[0], app.min_replicas), app.max_replicas)
            reasons[index] = _OVERRIDE
            overridden.add(index)
    return frozenset(overridden)
