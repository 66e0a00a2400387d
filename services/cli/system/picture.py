"""What the topics tell about a running system, in the few figures that a view shows."""

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

SEEN: Final = (
    DomainObserved,
    BudgetGranted,
    ScalePlanned,
    ScaleApplied,
    BreakerChanged,
    PoolObserved,
    Rejected,
)
"""Events that a picture is made of."""
_CHANGES_KEPT: Final = 6


@dataclass
class Domain:
    """What is known of one domain now."""

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
    """The newest tick whose changes have all ended."""


@dataclass
class Picture:
    """Takes in events, in any order of domains, and remembers the newest."""

    domains: dict[str, Domain]
    tick: int = -1
    """Of the newest frame."""
    time: str = ""
    """Event time of the same."""
    pools: dict[str, PoolObserved] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    """Changes by what became of them."""
    changes: deque[str] = field(default_factory=lambda: deque(maxlen=_CHANGES_KEPT))
    """The last ticks in which something was to be changed, in words."""
    cluster_breaker: str = ""
    """Why the breaker of the whole cluster is not closed; empty when it is."""
    dead_letters: int = 0
    last_dead_letter: str = ""

    @property
    def closed(self) -> int:
        """The newest tick that all domains have closed."""
        return min((domain.closed for domain in self.domains.values()), default=-1)

    @property
    def overruns(self) -> int:
        """Increases beyond a budget, of all domains."""
        return sum(domain.overruns for domain in self.domains.values())

    def take(self, event: Event) -> None:
        """Take in one event."""
        match event:
            case DomainObserved():
                self._observed(event)
            case BudgetGranted():
                self._domain(event.domain).budget = event
            case ScalePlanned():
                domain = self._domain(event.domain)
                domain.overruns = event.overruns
                domain.held = event.sums.held if event.sums else domain.held
            case ScaleApplied():
                self._applied(event)
            case BreakerChanged():
                self._breaker(event)
            case PoolObserved():
                self.pools[event.pool] = event
            case Rejected():
                self.dead_letters += 1
                self.last_dead_letter = f"{event.service} refused {event.topic}: {event.detail}"
            case _:
                pass

    def _domain(self, name: str) -> Domain:
        return self.domains.setdefault(name, Domain())

    def _observed(self, frame: DomainObserved) -> None:
        domain, pods = self._domain(frame.domain), frame.pods
        if frame.tick >= self.tick:
            self.tick, self.time = frame.tick, frame.time
        domain.apps, domain.missing = len(frame.apps), len(frame.missing)
        domain.replicas, domain.ready = sum(pods.replicas), sum(pods.ready)
        domain.pending = sum(pods.pending)
        domain.rps = frame.aggregates.get("rps", 0.0)
        domain.p99_over_target = 1.0 - frame.aggregates.get("headroom", 1.0)
        domain.at_risk = round(frame.aggregates.get("at_risk", 0.0) * domain.apps)

    def _breaker(self, said: BreakerChanged) -> None:
        domain = self.domains.get(said.scope)
        if domain is not None:
            domain.breaker, domain.breaker_reason = said.state, said.reason
        else:
            self.cluster_breaker = "" if said.state == "closed" else f"{said.state} {said.reason}"

    def _applied(self, applied: ScaleApplied) -> None:
        domain = self._domain(applied.domain)
        domain.closed = max(domain.closed, applied.tick)
        self.outcomes.update(applied.outcomes)
        if applied.apps:
            self.changes.append(change_line(applied))


def change_line(applied: ScaleApplied) -> str:
    """What became of the changes of a domain's tick, with the largest of them."""
    counts = Counter(applied.outcomes)
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    steps = [abs(after - before) for after, before in _replicas(applied)]
    place = steps.index(max(steps))
    after, before = _replicas(applied)[place]
    step = f"{before} -> {after}" if after != before else f"stays at {after}"
    return (
        f"{applied.time[11:19]} {applied.domain}: {told}; {applied.apps[place]} {step} "
        f"({applied.reasons[place]})"
    )


def _replicas(applied: ScaleApplied) -> list[tuple[int, int]]:
    return list(zip(applied.replicas, applied.replicas_before, strict=True))
