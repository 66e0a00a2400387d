"""Who may be changed now: overrides, modes, pauses and the breaker, before any rule on numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2s
from typing import Final

from schemas.app_declared import AppDeclared
from schemas.breaker_changed import BreakerChanged
from schemas.fields import Mode
from schemas.override_issued import OverrideIssued
from services._kit.times import parse

CLUSTER: Final = "cluster"
_NOBODY: Final = ""


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
    """Seconds after which a breaker without a heartbeat is as good as open; None: never."""
    overrides: dict[tuple[str, str], OverrideIssued] = field(default_factory=dict)
    breakers: dict[str, tuple[BreakerChanged, float]] = field(default_factory=dict)
    """By scope, with the wall time at which it was heard."""

    def learn(self, event: OverrideIssued | BreakerChanged, now: float) -> None:
        """Take in an order or a heartbeat."""
        if isinstance(event, BreakerChanged):
            self.breakers[event.scope] = event, now
        elif event.lifted:
            self.overrides.pop((event.kind, event.scope), None)
        else:
            self.overrides[event.kind, event.scope] = event

    def heard(self, domain: str) -> bool:
        """Whether a breaker of the domain or of the cluster ever beat."""
        return domain in self.breakers or CLUSTER in self.breakers

    def breaker(self, domain: str, now: float) -> str:
        """closed, half-open, open or stale; the worst of domain and cluster counts."""
        found = [self.breakers[scope] for scope in (domain, CLUSTER) if scope in self.breakers]
        if not found:
            return "stale"
        if any(event.state == "open" for event, _ in found):
            return "open"
        # The oldest heartbeat counts: one breaker that lives does not stand in for another.
        if self.stale_s is not None and now - min(at for _, at in found) > self.stale_s:
            return "stale"
        return "half-open" if any(event.state == "half-open" for event, _ in found) else "closed"

    def orders(self, app: str, domain: str, time: str) -> list[OverrideIssued]:
        """Overrides that hold for an app at an event time, the closest first."""
        scopes = (("app", app), ("domain", domain), ("cluster", CLUSTER))
        found = (self.overrides.get(scope) for scope in scopes)
        return [o for o in found if o and (o.until is None or parse(time) <= parse(o.until))]

    def mode(self, app: AppDeclared, orders: list[OverrideIssued]) -> Mode:
        """What may be done to an app: an override first, then its own mode, then its domain's."""
        for order in orders:
            if order.mode is not None:
                return order.mode
        return app.mode or self.modes.domains.get(app.domain, self.modes.cluster)

    def objection(
        self, app: AppDeclared, step: int, orders: list[OverrideIssued], breaker: str
    ) -> str:
        """Why a change is not to be made; empty when it may. `step` is negative for less."""
        mode = self.mode(app, orders)
        if breaker in ("open", "stale"):
            return f"breaker-{breaker}"
        if breaker == "half-open" and step < 0:
            return "breaker-half-open"
        if mode in ("off", "preview"):
            return mode
        if mode == "canary" and not in_canary(app.app, self.modes.canary_share):
            return "not-in-canary"
        pauses = {app.pause, *(order.pause for order in orders)}
        if "all" in pauses or ("scale-in" in pauses and step < 0):
            return "paused"
        return "paused" if "scale-out" in pauses and step > 0 else _NOBODY


def in_canary(app: str, share: float) -> bool:
    """Chosen by name, so that the same apps are canaries in every process and after a restart."""
    number = int.from_bytes(blake2s(app.encode(), digest_size=8).digest(), "big")
    return number < share * 2**64
