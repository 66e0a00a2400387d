"""Which changes are permitted: modes, pauses, overrides and breakers, as learned from the bus."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2s
from typing import Final, NamedTuple

from models.control.breaker.actions import Permission, holds, permitted
from schemas.app_declared import AppDeclared
from schemas.breaker_changed import STATES_BY_RESTRICTION, Action, BreakerChanged, State
from schemas.fields import Mode
from services._kit.handler import CLUSTER
from services._kit.newest import Newest
from services._kit.orders import (
    NO_EFFECT,
    Effect,
    OrderBook,
    effect_of,
    paused_directions,
    strictest,
)
from services._kit.ticks import parse
from services.actuator.settings import STALE_TICKS, Modes

_ACTIONS: Final[dict[State, Action]] = {
    "closed": "none",
    "half-open": "increases-only",
    "open": "freeze",
}
"""Action of a breaker whose event has a state only, as in releases before `action`."""
_NOTHING: Final = permitted(("freeze",), 0)


class Verdict(NamedTuple):
    """What the breakers of a domain and of the cluster permit."""

    state: str
    """closed, half-open, open or stale."""
    permission: Permission
    rollback: Mapping[str, int] = {}
    """Replicas to raise apps to, by name, while the domain is rolled back."""


class Heartbeat(NamedTuple):
    """A breaker's newest event around some tick."""

    event: BreakerChanged
    at: float
    """Arrival by `Clock.now`."""


@dataclass
class Permissions:
    """Overrides and breakers, and the configured modes."""

    modes: Modes
    stale_s: float | None
    """Seconds by `Clock.now` after which a breaker without heartbeat is stale; None: event time
    only."""
    stale_ticks: int = STALE_TICKS
    """The same in event time, which survives a restart. Also how far a breaker may be ahead."""
    orders: OrderBook = field(default_factory=OrderBook)
    now: float = 0.0
    """Wall time of the decision, in seconds since 1970."""

    def __post_init__(self) -> None:
        self._breakers = Newest[Heartbeat](
            lambda one: one.event.tick,
            # Of two events of one tick the stricter one counts: a breaker that opens because
            # frames stopped has no newer tick, and a repeated older event must not undo that.
            lambda one: (one.event.tick, STATES_BY_RESTRICTION.index(one.event.state)),
            self.stale_ticks,
        )

    def learn(self, event: BreakerChanged, now: float) -> None:
        """Take in a heartbeat: keep the newest event by tick; a late one changes nothing."""
        self._breakers.learn(event.scope, Heartbeat(event, now))

    def forget(self, scope: str) -> None:
        """Remove the breaker of a scope after a tombstone."""
        self._breakers.forget(scope)

    def advance(self, now: float) -> None:
        """Let orders take effect that the limit per minute held back."""
        self.now = now
        self.orders.advance(now)

    # Breakers.

    def has_heartbeat(self, domain: str) -> bool:
        """Whether a breaker of the domain or of the cluster has ever reported."""
        return domain in self._breakers or CLUSTER in self._breakers

    def verdict(self, domain: str, priority: int, now: float, tick: int) -> Verdict:
        """What a plan of a tick may change, by the actions of the breakers.

        Both count: a live breaker of the cluster does not substitute for that of the domain.
        """
        state = self._state(domain, now, tick)
        if state == "stale":
            return Verdict(state, _NOTHING)
        beats = [self._heartbeat(scope, tick) for scope in (domain, CLUSTER)]
        events = [beat.event for beat in beats if beat is not None]
        actions = [event.action or _ACTIONS[event.state] for event in events]
        rollback = events[0].rollback if events and events[0].scope == domain else None
        if rollback is None or "freeze" in actions:
            return Verdict(state, permitted(actions, priority))
        raised = dict(zip(rollback.apps, rollback.replicas, strict=False))
        return Verdict(state, permitted(actions, priority), raised)

    def _state(self, domain: str, now: float, tick: int) -> str:
        """closed, half-open, open or stale; the worse of domain and cluster."""
        scopes = [scope for scope in (domain, CLUSTER) if scope in self._breakers]
        # A breaker that never reported gives no permission: silence must not look like calm.
        if not scopes:
            return "stale"
        found = [self._heartbeat(scope, tick) for scope in scopes]
        states = [one.event.state for one in found if one is not None]
        if "open" in states:
            return "open"
        if any(one is None or self._is_stale(one, now, tick) for one in found):
            return "stale"
        return "half-open" if "half-open" in states else "closed"

    def _heartbeat(self, scope: str, tick: int) -> Heartbeat | None:
        """The newest that is not implausibly far ahead of the plan."""
        return self._breakers.upto(scope, tick + self.stale_ticks)

    def _is_stale(self, heartbeat: Heartbeat, now: float, tick: int) -> bool:
        # After a restart an old heartbeat has just arrived: only its tick shows its age.
        late = self.stale_s is not None and now - heartbeat.at > self.stale_s
        return late or tick - heartbeat.event.tick > self.stale_ticks

    # Modes, pauses and overrides.

    def effect(self, app: AppDeclared, time: str) -> Effect:
        """What the orders in force at an event time mean for an app."""
        if not self.orders:
            return NO_EFFECT
        return effect_of(self.orders.orders_for(app, parse(time), self.now))

    def domain_mode(self, domain: str, time: str) -> Mode:
        """Mode of a whole domain."""
        ordered = effect_of(self.orders.orders_of_domain(domain, parse(time), self.now))
        return ordered.mode or self._configured(domain)

    def objection(
        self,
        domain: str,
        app: AppDeclared | None,
        steps: Sequence[int],
        ordered: Effect,
        verdict: Verdict,
        reason: str,
    ) -> str:
        """Why an app may not be changed by a domain's decision, whatever it is; else empty."""
        # An app that moved belongs to another domain, whose breaker and mode are not checked here.
        if app is None or app.domain != domain:
            return "not-declared"
        # A missing or contradictory maximum: without bounds an app is never changed.
        if app.max_replicas is None or app.max_replicas < app.min_replicas:
            return "no-bounds"
        return self.hold_reason(app, steps, ordered, verdict, reason)

    def hold_reason(
        self,
        app: AppDeclared,
        steps: Sequence[int],
        ordered: Effect,
        verdict: Verdict,
        reason: str,
    ) -> str:
        """Why a change is held; empty when it is permitted.

        `steps` are the differences of replicas and sizes: a smaller pod is a decrease just as
        fewer pods are. `reason` is that of the change.
        """
        # An app's owner may be stricter than the operator, never laxer: otherwise the inventory
        # could switch on what the operator switched off.
        mode = ordered.mode or strictest(app.mode, self._configured(app.domain))
        # The breaker first: it wins over modes and pauses.
        if holds(verdict.permission, steps, reason):
            return f"breaker-{verdict.state}"
        if mode in ("off", "preview"):
            return mode
        if mode == "canary" and not in_canary(app.app, self.modes.canary_share):
            return "not-in-canary"
        paused = ordered.paused.union(paused_directions(app.pause))
        if ("scale-in" in paused and min(steps) < 0) or ("scale-out" in paused and max(steps) > 0):
            return "paused"
        return ""

    def _configured(self, domain: str) -> Mode:
        return self.modes.domains.get(domain, self.modes.cluster)


def in_canary(app: str, share: float) -> bool:
    """Whether canary mode may change an app.

    Chosen by name: the same apps in every process and after a restart.
    """
    # Not `hash`, which Python salts per process.
    number = int.from_bytes(blake2s(app.encode(), digest_size=8).digest(), "big")
    return number < share * 2**64
