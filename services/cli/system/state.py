"""What the topics of a running system say, reduced to the figures that the live view shows."""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.pool_observed import PoolObserved
from schemas.rejected import Rejected
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned

EVENTS: Final = (
    DomainObserved,
    BudgetGranted,
    ScalePlanned,
    ScaleApplied,
    BreakerChanged,
    PoolObserved,
    Rejected,
)
"""Event types that change a state."""
_CHANGES_KEPT: Final = 6


@dataclass
class DomainState:
    """The newest figures of one domain."""

    rps: float = 0.0
    replicas: int = 0
    ready: int = 0
    pending: int = 0
    p99_over_target: float = 0.0
    """Mean over the apps, weighted by their requests."""
    at_risk: int = 0
    apps: int = 0
    missing: int = 0
    budget: BudgetGranted | None = None
    held: float = 0.0
    """Cores."""
    overruns: int = 0
    breaker: str = "?"
    breaker_reason: str = ""
    closed: int = -1
    """The newest tick whose changes have all been applied or held."""


@dataclass
class SystemState:
    """Updated by events; domains may arrive in any order."""

    domains: dict[str, DomainState]
    tick: int = -1
    """Of the newest frame."""
    time: str = ""
    """Event time of the newest frame."""
    pools: dict[str, PoolObserved] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    """Number of changes by outcome."""
    changes: deque[str] = field(default_factory=lambda: deque(maxlen=_CHANGES_KEPT))
    """A line for each of the last ticks with changes."""
    cluster_breaker: str = ""
    """State and reason of the cluster's breaker; empty when it is closed and nothing fell back."""
    dead_letters: int = 0
    last_dead_letter: str = ""

    @property
    def closed(self) -> int:
        """The newest tick that all domains have closed; -1 before the first."""
        return min((domain.closed for domain in self.domains.values()), default=-1)

    @property
    def overruns(self) -> int:
        """Increases beyond a budget, over all domains."""
        return sum(domain.overruns for domain in self.domains.values())

    def update(self, event: Event) -> None:
        """Apply one event; events of other types change nothing."""
        match event:
            case DomainObserved():
                self._update_domain(event)
            case BudgetGranted():
                self._domain(event.domain).budget = event
            case ScalePlanned():
                domain = self._domain(event.domain)
                # A running count of the Soldier since its start.
                domain.overruns = event.overruns
                domain.held = event.sums.held if event.sums else domain.held
            case ScaleApplied():
                self._update_outcomes(event)
            case BreakerChanged():
                self._update_breaker(event)
            case PoolObserved():
                self.pools[event.pool] = event
            case Rejected():
                self.dead_letters += 1
                self.last_dead_letter = f"{event.service} rejected {event.topic}: {event.detail}"
            case _:
                pass

    def _domain(self, name: str) -> DomainState:
        return self.domains.setdefault(name, DomainState())

    def _update_domain(self, frame: DomainObserved) -> None:
        domain, pods = self._domain(frame.domain), frame.pods
        # Partitions are read independently, so a frame of a slower domain may arrive late.
        if frame.tick >= self.tick:
            self.tick, self.time = frame.tick, frame.time
        domain.apps, domain.missing = len(frame.apps), len(frame.missing)
        domain.replicas, domain.ready = sum(pods.replicas), sum(pods.ready)
        domain.pending = sum(pods.pending)
        domain.rps = frame.aggregates.get("rps", 0.0)
        domain.p99_over_target = 1.0 - frame.aggregates.get("headroom", 1.0)
        domain.at_risk = round(frame.aggregates.get("at_risk", 0.0) * domain.apps)

    def _update_breaker(self, event: BreakerChanged) -> None:
        # A scope is a domain, or the whole cluster.
        domain = self.domains.get(event.scope)
        if domain is not None:
            domain.breaker, domain.breaker_reason = event.state, event.reason
        else:
            is_calm = event.state == "closed" and not event.reason
            self.cluster_breaker = "" if is_calm else f"{event.state} {event.reason}"

    def _update_outcomes(self, applied: ScaleApplied) -> None:
        domain = self._domain(applied.domain)
        # Services re-emit a tick that they see again, so an older one may follow.
        domain.closed = max(domain.closed, applied.tick)
        self.outcomes.update(applied.outcomes)
        if applied.apps:
            self.changes.append(change_line(applied))


def change_line(applied: ScaleApplied) -> str:
    """The outcomes of a domain's tick, and its largest change."""
    counts = Counter(applied.outcomes)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    replicas = list(zip(applied.replicas, applied.replicas_before, strict=True))
    steps = [abs(after - before) for after, before in replicas]
    index = steps.index(max(steps))
    after, before = replicas[index]
    step = f"{before} -> {after}" if after != before else f"stays at {after}"
    return (
        f"{applied.time[11:19]} {applied.domain}: {outcomes}; {applied.apps[index]} {step} "
        f"({applied.reasons[index]})"
    )
