"""Orders of operators: which are in force, which one wins, and how fast they may change.

The limit sits here, in every reader, because a forged client would pass a limit of the command
line. It goes by the broker's time of each record, which a client cannot choose, so a restart that
reads all records again comes to the same result. Orders that only stop changes never wait.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from schemas.app_declared import AppDeclared
from schemas.fields import Event, Mode
from schemas.override_issued import BreakerOrder, OverrideIssued
from services._kit.clock import Clock
from services._kit.errors import Refused
from services._kit.handler import CLUSTER, Handler, S
from services._kit.ticks import parse

MOST_CHANGES: Final = 10
"""Changes of orders that take effect per window, for each domain, the cluster and all apps."""
WINDOW_S: Final = 60.0
LONGEST_S: Final = 7 * 86400.0
"""Longest duration of an order, whatever its end says."""
_MOST_WAITING: Final = 1000
"""Waiting orders for each of these; a flood must not fill the memory."""
_DIRECTIONS: Final = ("scale-in", "scale-out")
_BY_RESTRICTION: Final[tuple[Mode, ...]] = ("off", "preview", "canary", "auto")
"""The strictest mode first."""

Scope = tuple[str, str]
"""Kind and name."""
Slot = tuple[str, str, str]
"""Kind, scope and order: an order replaces only the one in its own slot."""


class Recorded(NamedTuple):
    """An order with the time of its record, in seconds since 1970 by the broker's clock."""

    order: OverrideIssued
    at: float

    @property
    def slot(self) -> Slot:
        """The slot in which it replaces an earlier order."""
        return self.order.kind, self.order.scope, self.order.order

    def is_in_force(self, time: datetime, now: float) -> bool:
        """Whether it holds at an event time; `now` is by the broker's clock."""
        until = self.order.until
        return now <= self.at + LONGEST_S and (until is None or time <= parse(until))


@dataclass(frozen=True)
class Effect:
    """What all orders in force mean for one app."""

    mode: Mode | None = None
    """The strictest ordered mode; None leaves the declared one."""
    paused: frozenset[str] = frozenset()
    """Directions that are paused."""
    floor: int | None = None
    ceiling: int | None = None
    replicas: int | None = None
    """An exact number."""
    ids: Mapping[str, str] = field(default_factory=dict)
    """Order behind each effect: `mode`, `scale-in`, `scale-out`, `floor`, `ceiling`, `replicas`."""

    def bounded(self, replicas: int, least: int, most: int | None) -> int:
        """Replicas within the floor and ceiling, and always within the declared bounds."""
        lowest = least if self.floor is None else max(least, self.floor)
        highest = most if self.ceiling is None else self.ceiling
        bounded = max(replicas, lowest) if highest is None else min(max(replicas, lowest), highest)
        # Declared bounds last: an order changes an app only within what its owner allows.
        return max(least, bounded if most is None else min(bounded, most))

    def order_behind(self, reason: str, steps: Sequence[int]) -> str:
        """Id of the order that caused a hold or a change with this reason; empty if none did."""
        if reason == "paused":
            down = "scale-in" in self.paused and min(steps) < 0
            return self.ids.get("scale-in" if down else "scale-out", "")
        cause = {"off": "mode", "preview": "mode", "not-in-canary": "mode", "override": "replicas"}
        return self.ids.get(cause.get(reason, reason.removeprefix("order-")), "")


NO_EFFECT: Final = Effect()


class BreakerCommand(NamedTuple):
    """What an operator orders a breaker to do."""

    action: BreakerOrder
    order: OverrideIssued


class OrderBook:
    """Orders as learned from the bus. All times are arguments; nothing here reads a clock."""

    def __init__(self, most: int = MOST_CHANGES, window_s: float = WINDOW_S) -> None:
        self._most, self._window = most, window_s
        self._accepted: dict[Scope, dict[str, Recorded]] = {}
        self._waiting: dict[Scope, dict[Slot, Recorded]] = defaultdict(dict)
        """By the scope that is limited, in order of arrival."""
        self._changes: dict[Scope, list[float]] = defaultdict(list)
        """Times of the last changes, by the scope that is limited."""

    def learn(self, order: OverrideIssued, at: float) -> None:
        """Take in an order; raises Refused where too many wait already."""
        # Of its own scope only: at a start all orders are learned, for however many scopes.
        scope = _limited(order.kind, order.scope)
        self._advance(scope, at)
        found = Recorded(order, at)
        slot, waiting = found.slot, self._waiting[scope]
        present = self._present(slot)
        waiting.pop(slot, None)
        # Redelivered, or lifted before it took effect: no change to count.
        if (present and present.order == order) or (order.lifted and present is None):
            return
        if _stops_at_once(order, present):
            self._accept(found)
            return
        if len(waiting) >= _MOST_WAITING:
            raise Refused("too-many-orders", f"{_MOST_WAITING} orders wait already")
        waiting[slot] = found
        self._advance(scope, at)

    def forget(self, key: str, at: float) -> None:
        """Lift the order of a tombstone."""
        slot = slot_of(key)
        self._waiting[_limited(slot[0], slot[1])].pop(slot, None)
        present = self._present(slot)
        if present is not None:
            old = present.order
            lift = OverrideIssued(scope=old.scope, kind=old.kind, order=old.order, lifted=True)
            self.learn(lift, at)

    def advance(self, now: float) -> None:
        """Let waiting orders take effect as far as the limit allows by now."""
        for scope in list(self._waiting):
            self._advance(scope, now)
            if not self._waiting[scope]:
                del self._waiting[scope]

    def _advance(self, scope: Scope, now: float) -> None:
        waiting, changes = self._waiting[scope], self._changes[scope]
        while waiting:
            # First come, first served: where the first has to wait, so do the others.
            found = next(iter(waiting.values()))
            full = len(changes) >= self._most
            # By the times of the records, not by `now`: a restart that reads all orders at once
            # computes the same times, and so has the same orders in force.
            since = max(found.at, changes[-self._most] + self._window) if full else found.at
            if since > now:
                break
            del waiting[found.slot]
            changes.append(since)
            del changes[: -self._most]
            self._accept(found)

    def waiting(self, domain: str | None = None) -> list[Recorded]:
        """Orders that the limit holds back, all of them or those that may concern a domain."""
        scopes = (("domain", domain), (CLUSTER, ""), ("app", ""))
        return [
            one
            for scope, waiting in self._waiting.items()
            for one in waiting.values()
            if domain is None or scope in scopes
        ]

    def __bool__(self) -> bool:
        # Most clusters have no orders: callers skip the search for each app then.
        return bool(self._accepted)

    def in_force(self, time: datetime, now: float) -> list[Recorded]:
        """All orders in force, the widest scope first."""
        found = [one for of in self._accepted.values() for one in of.values()]
        widths = {kind: width for width, kind in enumerate(("cluster", "domain", "tier", "app"))}
        return sorted(
            (one for one in found if one.is_in_force(time, now)),
            key=lambda one: (widths[one.order.kind], one.slot),
        )

    def orders_for(self, app: AppDeclared, time: datetime, now: float) -> list[OverrideIssued]:
        """Orders in force for an app, the widest scope first."""
        tier = f"{app.domain}/{app.tier}"
        scopes = ((CLUSTER, CLUSTER), ("domain", app.domain), ("tier", tier), ("app", app.app))
        return list(self._of(scopes, time, now))

    def orders_of_domain(self, domain: str, time: datetime, now: float) -> list[OverrideIssued]:
        """Orders in force for a whole domain, the cluster's first."""
        return list(self._of(((CLUSTER, CLUSTER), ("domain", domain)), time, now))

    def breaker_command(
        self, domain: str, since: datetime | None, time: datetime, now: float
    ) -> BreakerCommand | None:
        """What to do with the breaker of a domain, or of `cluster`; None: nothing is ordered.

        `since` is when its present state began. A reset counts once: the breaker that it closed
        began its state later, and so did one that tripped again. One from the future waits until
        then, else it would close the breaker again and again before.
        """
        orders = [one for one in self.orders_of_domain(domain, time, now) if one.breaker]
        # An order to open wins over any reset, also over one of a narrower scope.
        for one in orders:
            if one.breaker == "open":
                return BreakerCommand("open", one)
        for one in orders:
            issued = None if one.issued_at is None else parse(one.issued_at)
            if since is None or (issued is not None and since < issued <= time):
                return BreakerCommand("reset", one)
        return None

    def _of(self, scopes: Sequence[Scope], time: datetime, now: float) -> Iterator[OverrideIssued]:
        for scope in scopes:
            for one in self._accepted.get(scope, {}).values():
                if one.is_in_force(time, now):
                    yield one.order

    def _present(self, slot: Slot) -> Recorded | None:
        kind, scope, order = slot
        return self._accepted.get((kind, scope), {}).get(order)

    def _accept(self, found: Recorded) -> None:
        kind, scope, order = found.slot
        orders = self._accepted.setdefault((kind, scope), {})
        orders.pop(order, None)
        if not found.order.lifted:
            orders[order] = found
        if not orders:
            del self._accepted[kind, scope]


class OrderedHandler(Handler[S]):
    """A handler that obeys operators' orders."""

    orders: OrderBook

    def learn_recorded(self, event: Event, recorded_at: float, clock: Clock) -> None:
        """Take in orders by the time of their records, everything else as it is."""
        if isinstance(event, OverrideIssued):
            self.orders.learn(event, recorded_at)
        else:
            self.learn(event, clock)

    def forget(self, kind: type[Event], key: str, clock: Clock) -> None:
        """Lift the order of a tombstone."""
        if kind is OverrideIssued:
            self.orders.forget(key, clock.date())


def slot_of(key: str) -> Slot:
    """The slot of a record's key; raises Refused if it names none."""
    kind, _, rest = key.partition("/")
    # From the right: a scope may contain a slash (`payments/0` is a tier).
    scope, _, order = rest.rpartition("/")
    if not (kind and scope and order):
        raise Refused("wrong-key", f"expected kind/scope/order, got `{key:.80}`")
    return kind, scope, order


def effect_of(orders: Sequence[OverrideIssued]) -> Effect:
    """Combine the orders for an app, the widest scope first: the stricter wins.

    Where a floor and a ceiling contradict each other, the wider scope wins, and in one scope the
    floor does: in doubt nothing is taken away.
    """
    if not orders:
        return NO_EFFECT
    ids: dict[str, str] = {}
    mode: Mode | None = None
    exact: int | None = None
    for one in orders:
        if one.mode and strictest(mode, one.mode) != mode:
            mode, ids["mode"] = one.mode, one.order_id
        for direction in paused_directions(one.pause):
            ids.setdefault(direction, one.order_id)
        if one.replicas is not None and one.kind == "app":
            exact, ids["replicas"] = one.replicas, one.order_id
    floor, ceiling = _range_of(orders, ids)
    return Effect(
        mode=mode,
        paused=frozenset(way for one in orders for way in paused_directions(one.pause)),
        floor=floor,
        ceiling=ceiling,
        replicas=exact,
        ids=ids,
    )


def strictest(one: Mode | None, other: Mode) -> Mode:
    """The mode that permits less; None permits everything."""
    return other if one is None else min(one, other, key=_BY_RESTRICTION.index)


def paused_directions(pause: str) -> tuple[str, ...]:
    """Directions that a declared or ordered pause stops."""
    return _DIRECTIONS if pause == "all" else (pause,) if pause != "none" else ()


def _range_of(
    orders: Sequence[OverrideIssued], ids: dict[str, str]
) -> tuple[int | None, int | None]:
    floor: int | None = None
    ceiling: int | None = None
    for kind in dict.fromkeys(one.kind for one in orders):
        # Floors first, so that a ceiling of the same scope gives way.
        for one in (one for one in orders if one.kind == kind and one.floor is not None):
            raised = one.floor if ceiling is None else min(one.floor or 0, ceiling)
            if raised is not None and (floor is None or raised > floor):
                floor, ids["floor"] = raised, one.order_id
        for one in (one for one in orders if one.kind == kind and one.ceiling is not None):
            lowered = max(one.ceiling or 0, floor or 0)
            if ceiling is None or lowered < ceiling:
                ceiling, ids["ceiling"] = lowered, one.order_id
    return floor, ceiling


def _stops_at_once(order: OverrideIssued, present: Recorded | None) -> bool:
    """Whether an order only stops changes, and no fewer and no shorter than the one it replaces."""
    moves = (order.replicas, order.floor, order.ceiling)
    stopped = _stopped(order)
    if order.lifted or not stopped or any(number is not None for number in moves):
        return False
    if order.mode in ("canary", "auto") or order.breaker == "reset":
        return False
    if present is None:
        return True
    old = present.order
    if any(number is not None for number in (old.replicas, old.floor, old.ceiling)):
        return False
    if order.until is not None and (old.until is None or parse(order.until) < parse(old.until)):
        return False
    return _stopped(old) <= stopped


def _stopped(order: OverrideIssued) -> set[str]:
    """What an order stops."""
    found = {f"pause {direction}" for direction in paused_directions(order.pause)}
    # `off` is the stricter mode, so it also covers an order for `preview`, not the reverse. The
    # actuator applies nothing in either.
    found |= {"off": {"preview", "off"}, "preview": {"preview"}}.get(order.mode or "", set())
    return found | ({"breaker"} if order.breaker == "open" else set())


def _limited(kind: str, scope: str) -> Scope:
    """The scope whose changes are counted together.

    A domain with its tiers, the cluster, or all apps together. Apps are not counted by domain: an
    order could name any domain, and the inventory may be read after the orders.
    """
    if kind in ("domain", "tier"):
        return "domain", scope if kind == "domain" else scope.rpartition("/")[0]
    return kind, ""
