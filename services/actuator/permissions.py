"""Who may be changed: modes, pauses, overrides and breakers, as learned from the bus."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2s
from typing import Final, NamedTuple

from models.control.breaker.orders import Permission, holds, permitted
from schemas.app_declared import AppDeclared
from schemas.breaker_changed import Action, BreakerChanged, State
from schemas.fields import Event, Mode
from schemas.override_issued import OverrideIssued
from services._kit.handler import CLUSTER
from services._kit.orders import OrderBook
from services._kit.ticks import parse
from services.actuator.settings import STALE_TICKS, Modes

_BY_RESTRICTION: Final[tuple[Mode, ...]] = ("off", "preview", "canary", "auto")
"""The strictest mode first."""
_STATES: Final[tuple[State, ...]] = ("open", "half-open", "closed")
"""The strictest state first."""
_ACTIONS: Final[dict[State, Action]] = {
    "closed": "none",
    "half-open": "increases-only",
    "open": "freeze",
}
"""What a breaker orders that only tells its state."""
_NOTHING: Final = permitted(("freeze",), 0)
_MOST_TIMES: Final = 4
"""Places in time that are kept of one breaker: the real one, and a few that may be nonsense."""


class Verdict(NamedTuple):
    """What the breakers of a domain and of the cluster let pass."""

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
    breakers: dict[str, tuple[Heartbeat, ...]] = field(default_factory=dict)
    """By scope: the newest event of each place in time, least recently heard first."""

    def learn(self, event: BreakerChanged, now: float) -> None:
        """Take in a heartbeat: keep the newest event by tick; a late one changes nothing.

        One record with a nonsensical tick must neither be obeyed for good nor hide all later
        ones. At this point nobody knows which tick is right, so events that are far apart are kept
        side by side, and the plan's tick decides (`_heartbeat`).
        """
        known = self.breakers.get(event.scope, ())
        near = [one for one in known if abs(one.event.tick - event.tick) <= self.stale_ticks]
        # Of two events of one tick the stricter one counts: a breaker that opens because frames
        # stopped has no newer tick, and a repeated older event must not undo that.
        newest = min(
            (Heartbeat(event, now), *near),
            key=lambda one: (-one.event.tick, _STATES.index(one.event.state)),
        )
        others = tuple(one for one in known if one not in near)
        # Too many: drop the one that was heard longest ago, since the real one repeats itself.
        self.breakers[event.scope] = (*others, newest)[-_MOST_TIMES:]

    def forget(self, kind: type[Event], scope: str) -> None:
        """Remove the breaker of a scope after a tombstone."""
        if kind is BreakerChanged:
            self.breakers.pop(scope, None)

    def advance(self, now: float) -> None:
        """Let orders take effect that the limit per minute held back."""
        self.now = now
        self.orders.advance(now)

    # Breakers.

    def has_heartbeat(self, domain: str) -> bool:
        """Whether a breaker of the domain or of the cluster has ever reported."""
        return domain in self.breakers or CLUSTER in self.breakers

    def verdict(self, domain: str, priority: int, now: float, tick: int) -> Verdict:
        """What a plan of a tick may change, by the orders of the breakers.

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
        scopes = [scope for scope in (domain, CLUSTER) if scope in self.breakers]
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
        plausible = (
            one for one in self.breakers.get(scope, ()) if one.event.tick <= tick + self.stale_ticks
        )
        return max(plausible, key=lambda one: one.event.tick, default=None)

    def _is_stale(self, heartbeat: Heartbeat, now: float, tick: int) -> bool:
        # After a restart an old heartbeat has just arrived: only its tick shows its age.
        late = self.stale_s is not None and now - heartbeat.at > self.stale_s
        return late or tick - heartbeat.event.tick > self.stale_ticks

    # Modes, pauses and overrides.

    def overrides_of(self, app: AppDeclared, time: str) -> list[OverrideIssued]:
        """Orders in force for an app at an event time, the widest scope first."""
        return self.orders.orders_for(app, parse(time), self.now) if self.orders else []

    def domain_mode(self, domain: str, time: str) -> Mode:
        """Mode of a whole domain."""
        overrides = self.orders.orders_of_domain(domain, parse(time), self.now)
        return _strictest(overrides) or self._configured(domain)

    def hold_reason(
        self,
        app: AppDeclared,
        steps: Sequence[int],
        overrides: Sequence[OverrideIssued],
        verdict: Verdict,
        reason: str,
    ) -> str:
        """Why a change is held; empty when it is permitted.

        `steps` are the differences of replicas and sizes: a smaller pod is a decrease just as
        fewer pods are. `reason` is that of the change.
        """
        # An override of the mode wins over the app's own, and that over the domain's.
        mode = _strictest(overrides) or app.mode or self._configured(app.domain)
        decreases, increases = min(steps) < 0, max(steps) > 0
        # The breaker first: it wins over modes and pauses.
        if holds(verdict.permission, steps, reason):
            return f"breaker-{verdict.state}"
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
