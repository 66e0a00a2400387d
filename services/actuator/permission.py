"""Who may be changed now: overrides, modes, pauses and the breaker, before any rule on numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2s
from typing import Final

from schemas.app_declared import AppDeclared
from schemas.breaker_changed import BreakerChanged
from schemas.fields import Event, Mode
from schemas.override_issued import OverrideIssued
from services._kit.handler import CLUSTER
from services._kit.ticks import parse

STALE_TICKS: Final = 6
"""A minute of event time."""
_NOBODY: Final = ""
_BY_RESTRICTION: Final[tuple[Mode, ...]] = ("off", "preview", "canary", "auto")


@dataclass(frozen=True)
class Modes:
    """Modes as they are configured; an override or the app's own declaration comes before."""

    cluster: Mode = "auto"
    domains: Mapping[str, Mode] = field(default_factory=dict)
    canary_share: float = 0.05
    """Of the apps that a canary may change, chosen by their names."""


@dataclass
class Permissions:
    """Learns what operators, owners and the breaker say."""

    modes: Modes
    stale_s: float | None
    """Seconds by `Clock.now` after which a breaker without a heartbeat is as good as open; None:
    only event time counts."""
    stale_ticks: int = STALE_TICKS
    """The same in event time, which a restart does not forget."""
    overrides: dict[tuple[str, str], OverrideIssued] = field(default_factory=dict)
    breakers: dict[str, tuple[BreakerChanged, float]] = field(default_factory=dict)
    """By scope, with when it was heard, by `Clock.now`."""

    def learn(self, event: OverrideIssued | BreakerChanged, now: float) -> None:
        """Take in an order or a heartbeat."""
        if isinstance(event, BreakerChanged):
            self.breakers[event.scope] = event, now
        elif event.lifted:
            self.overrides.pop((event.kind, event.scope), None)
        else:
            self.overrides[event.kind, event.scope] = event

    def forget(self, kind: type[Event], scope: str) -> None:
        """Nothing is ordered of a scope any more, or its breaker is as if it was never heard."""
        if kind is BreakerChanged:
            self.breakers.pop(scope, None)
        elif kind is OverrideIssued:
            for found in [key for key in self.overrides if key[1] == scope]:
                del self.overrides[found]

    def heard(self, domain: str) -> bool:
        """Whether a breaker of the domain or of the cluster ever beat."""
        return domain in self.breakers or CLUSTER in self.breakers

    def breaker(self, domain: str, now: float, tick: int) -> str:
        """closed, half-open, open or stale, for a plan of a tick.

        The worst of domain and cluster counts: one that lives does not stand in for another.
        """
        found = [self.breakers[scope] for scope in (domain, CLUSTER) if scope in self.breakers]
        if not found:
            return "stale"
        if any(event.state == "open" for event, _ in found):
            return "open"
        if any(self._is_stale(event, now - at, tick) for event, at in found):
            return "stale"
        return "half-open" if any(event.state == "half-open" for event, _ in found) else "closed"

    def _is_stale(self, event: BreakerChanged, silent_s: float, tick: int) -> bool:
        # After a restart an old heartbeat was heard just now: its tick says how old it is.
        late = self.stale_s is not None and silent_s > self.stale_s
        return late or tick - event.tick > self.stale_ticks

    def orders(self, app: str, domain: str, time: str) -> list[OverrideIssued]:
        """Overrides that hold for an app at an event time."""
        return self._in_force([("app", app), ("domain", domain), ("cluster", CLUSTER)], time)

    def mode(self, app: AppDeclared, orders: Sequence[OverrideIssued]) -> Mode:
        """What may be done to an app: by overrides first, then its own mode, then its domain's."""
        return _strictest(orders) or app.mode or self._configured(app.domain)

    def mode_of(self, domain: str, time: str) -> Mode:
        """Of a whole domain."""
        orders = self._in_force([("domain", domain), ("cluster", CLUSTER)], time)
        return _strictest(orders) or self._configured(domain)

    def objection(
        self,
        app: AppDeclared,
        steps: Sequence[int],
        orders: Sequence[OverrideIssued],
        breaker: str,
    ) -> str:
        """Why a change is not to be made; empty when it may.

        `steps` are those of replicas and of sizes, negative for less: a smaller pod is a decrease
        as fewer pods are.
        """
        mode, less, more = self.mode(app, orders), min(steps) < 0, max(steps) > 0
        if breaker in ("open", "stale"):
            return f"breaker-{breaker}"
        if breaker == "half-open" and less:
            return "breaker-half-open"
        if mode in ("off", "preview"):
            return mode
        if mode == "canary" and not in_canary(app.app, self.modes.canary_share):
            return "not-in-canary"
        pauses = {app.pause, *(order.pause for order in orders)}
        if "all" in pauses or ("scale-in" in pauses and less):
            return "paused"
        return "paused" if "scale-out" in pauses and more else _NOBODY

    def _configured(self, domain: str) -> Mode:
        return self.modes.domains.get(domain, self.modes.cluster)

    def _in_force(self, scopes: Sequence[tuple[str, str]], time: str) -> list[OverrideIssued]:
        if not self.overrides:
            return []
        found = (self.overrides.get(scope) for scope in scopes)
        return [o for o in found if o and (o.until is None or parse(time) <= parse(o.until))]


def _strictest(orders: Sequence[OverrideIssued]) -> Mode | None:
    """So that an order to the cluster stops everybody, whatever was ordered closer by."""
    modes = [order.mode for order in orders if order.mode is not None]
    return min(modes, key=_BY_RESTRICTION.index, default=None)


def in_canary(app: str, share: float) -> bool:
    """Chosen by name, so that the same apps are canaries in every process and after a restart."""
    number = int.from_bytes(blake2s(app.encode(), digest_size=8).digest(), "big")
    return number < share * 2**64
