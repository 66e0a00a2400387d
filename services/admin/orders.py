"""Issue operators' orders, list those in force, and tie each to what it changed."""

import getpass
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

import msgspec
from kafka.errors import KafkaError

from models.inputs.errors import InputError
from schemas.app_declared import AppDeclared
from schemas.codec import encode
from schemas.fields import LONGEST_TEXT, Event
from schemas.override_issued import OrderKind, OverrideIssued, ScopeKind
from schemas.scale_applied import ScaleApplied
from schemas.topics import topic_of
from services._kit.errors import Refused
from services._kit.handler import CLUSTER
from services._kit.kafka_python import KafkaProducer
from services._kit.orders import LONGEST_S, OrderBook
from services._kit.ticks import parse, spell
from services.admin.reader import ReadRecord, TopicReader

LONGEST: Final = timedelta(seconds=LONGEST_S)
_SOURCE: Final = "operator"
_SEND_S: Final = 10


class Author(NamedTuple):
    """Who issues an order."""

    name: str
    authenticated: bool
    """Whether the broker checks the name; else it is the user of this machine."""


class Scope(NamedTuple):
    """What an order is for."""

    kind: ScopeKind
    name: str

    def __str__(self) -> str:
        return self.kind if self.kind == CLUSTER else f"{self.kind} {self.name}"


class Trail(msgspec.Struct, frozen=True, kw_only=True):
    """An order, and what it changed or held."""

    order: OverrideIssued
    applied: int = 0
    held: int = 0
    apps: int = 0
    first_tick: int | None = None
    last_tick: int | None = None


def author_of(options: Mapping[str, Any]) -> Author:
    """The user that the broker authenticates, else the one of this machine. Never free text."""
    user = options.get("sasl_plain_username")
    if user and str(options.get("security_protocol", "")).startswith("SASL"):
        return Author(str(user), authenticated=True)
    return Author(getpass.getuser(), authenticated=False)


def new_order(
    scope: Scope,
    order: OrderKind,
    author: Author,
    reason: str,
    now: datetime,
    until: datetime | None = None,
    **what: Any,
) -> OverrideIssued:
    """An order with a new id; without an end it only lifts."""
    if not reason.strip():
        raise InputError("--reason: expected why, in plain words; it is kept with the order")
    if len(reason) > LONGEST_TEXT:
        raise InputError(f"--reason: expected at most {LONGEST_TEXT:,} characters")
    return OverrideIssued(
        scope=scope.name,
        kind=scope.kind,
        order=order,
        order_id=what.pop("order_id", None) or secrets.token_hex(6),
        issued_at=spell(now),
        until=None if until is None else spell(until),
        reason=reason.strip(),
        issued_by=author.name,
        authenticated=author.authenticated,
        **what,
    )


def end_of(now: datetime, duration: timedelta | None, until: str | None) -> datetime:
    """When an order ends: after a duration or at a time, within the next seven days."""
    if until is None:
        end = now + (duration or timedelta())
    else:
        try:
            end = datetime.fromisoformat(until)
        except ValueError:
            raise InputError(
                f"--until: expected a time such as {spell(now)[:19]}Z, got {until}"
            ) from None
        end = end.replace(tzinfo=end.tzinfo or UTC).astimezone(UTC)
    if not now < end <= now + LONGEST:
        raise InputError(
            f"the order would end at {spell(end)[:19]}Z: expected a time after {spell(now)[:19]}Z "
            f"(the cluster's time) and within {LONGEST.days} days"
        )
    # Whole seconds: fractions are of no use to people.
    return end.replace(microsecond=0)


def inventory(records: Sequence[ReadRecord]) -> dict[str, AppDeclared]:
    """The declared apps by name, after all records of the inventory."""
    apps: dict[str, AppDeclared] = {}
    for one in records:
        event = one.event
        if isinstance(event, AppDeclared) and not event.removed:
            apps[event.app] = event
        elif isinstance(event, AppDeclared):
            apps.pop(event.app, None)
        elif event is None and not one.problem:
            apps.pop(one.delivery.key.decode(errors="replace"), None)
    return apps


def touched(apps: Mapping[str, AppDeclared], scope: Scope) -> list[str]:
    """Names of the apps that an order is for; raises InputError where there are none."""
    names: dict[str, Callable[[AppDeclared], str]] = {
        "app": lambda app: app.app,
        "tier": lambda app: f"{app.domain}/{app.tier}",
        "domain": lambda app: app.domain,
        "cluster": lambda _: CLUSTER,
    }
    name_of = names[scope.kind]
    found = [app.app for app in apps.values() if name_of(app) == scope.name]
    if not found:
        # An empty selection is a mistake: it never means everything.
        known = sorted({name_of(app) for app in apps.values()})
        near = get_close_matches(scope.name, known) or known[:5]
        hint = f"such as {', '.join(near)}" if near else "the inventory is empty: does it run?"
        raise InputError(f"--{scope.kind}: no app belongs to {scope.name}; {hint}")
    return found


def book_of(records: Sequence[ReadRecord], now: float) -> OrderBook:
    """The orders as every service keeps them, with the same limit."""
    book = OrderBook()
    for one in records:
        try:
            if isinstance(one.event, OverrideIssued):
                book.learn(one.event, one.delivery.timestamp)
            elif one.event is None and not one.problem:
                book.forget(one.delivery.key.decode(errors="replace"), one.delivery.timestamp)
        except Refused:
            # Services dead-letter it, so it is not in force.
            continue
    book.advance(now)
    return book


def trails(orders: Sequence[OverrideIssued], applied: Sequence[ScaleApplied]) -> list[Trail]:
    """Each order in the order of issue, with the changes that name it."""
    entries: dict[str, list[tuple[int, str, str]]] = {}
    # An event may be delivered twice: it has the same decision id then.
    for event in {(one.decision_id, one.part.number): one for one in applied}.values():
        for app, outcome, order in zip(event.apps, event.outcomes, event.orders, strict=False):
            if order:
                entries.setdefault(order, []).append((event.tick, app, outcome))
    # To the first order of an id: what lifts it has the same id, and changes nothing.
    return [_trail(order, entries.pop(order.order_id, [])) for order in orders]


def _trail(order: OverrideIssued, found: Sequence[tuple[int, str, str]]) -> Trail:
    ticks = [tick for tick, _, _ in found]
    return Trail(
        order=order,
        applied=sum(outcome == "applied" for _, _, outcome in found),
        held=sum(outcome != "applied" for _, _, outcome in found),
        apps=len({app for _, app, _ in found}),
        first_tick=min(ticks, default=None),
        last_tick=max(ticks, default=None),
    )


def cluster_time(newest: Sequence[ReadRecord], now: float) -> datetime:
    """The cluster's present time: that of its last tick, plus what has passed since then.

    Orders end by event time, which for a simulated cluster is not the time of this machine.
    """
    times = [
        parse(one.event.time).timestamp() - one.delivery.timestamp
        for one in newest
        if isinstance(one.event, ScaleApplied)
    ]
    # The median: one domain with a wrong time must not move everybody's orders.
    ahead = sorted(times)[len(times) // 2] if times else 0.0
    return datetime.fromtimestamp(now + ahead, UTC).replace(microsecond=0)


def read_applied(reader: TopicReader) -> list[ScaleApplied]:
    """All outcomes that the topic still holds."""
    return reader.read_all(ScaleApplied)


def read_topic(reader: TopicReader, kind: type[Any]) -> list[ReadRecord]:
    """All records of an event's topic."""
    return reader.read_to_end([topic_of(kind).name])


def publish(options: dict[str, Any], orders: Sequence[Event], source: str = _SOURCE) -> None:
    """Send orders of one kind and wait until the broker has them all."""
    try:
        producer = KafkaProducer(**options, acks="all", max_block_ms=_SEND_S * 1000)
    except KafkaError as error:
        raise _not_sent(error, orders) from None
    try:
        sent = [
            producer.send(record.topic, key=record.key, value=record.value,
                          headers=list(record.headers))
            for order in orders
            for record in encode(order, source)
        ]  # fmt: skip
        for one in sent:
            one.get(timeout=_SEND_S)
    except KafkaError as error:
        raise _not_sent(error, orders) from None
    finally:
        producer.close(timeout=1)


def _not_sent(error: KafkaError, orders: Sequence[Event]) -> InputError:
    return InputError(
        f"the order was not sent ({error}): does Kafka run, and may this user write to "
        f"{topic_of(orders[0]).name}? Pass --credentials of a user who may"
    )
