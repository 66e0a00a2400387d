"""How long a stopping order takes, from the broker that has it to the first plan held by it.

Each domain is paused, and one of its apps is ordered another number of replicas. So every plan of
the domain has a change that the pause holds, and the outcome names the pause that did it. Then new
pauses replace the old ones, each at a random moment between two ticks.
"""

import random
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from models.inputs.errors import InputError
from schemas.app_declared import AppDeclared
from schemas.codec import encode
from schemas.override_issued import OverrideIssued
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from schemas.topics import topic_of
from services._kit.kafka_python import KafkaProducer
from services.admin import orders
from services.admin.reader import ReadRecord, TopicReader
from services.devcluster.request import Request
from services.measure.stamps import TickWatcher, quantiles
from services.measure.testbed import MeasuredSystem, load_average, measured_system

WARM_UP_TICKS: Final = 7
"""Left out of the figures, as in `hirl bench path`: processes compile or load their kernels."""
_START_S: Final = 900.0
_TIMEOUT_TICKS: Final = 30
_TIMEOUT_S: Final = 60.0
"""Without an answer to an order for so long, the measurement ends with an error."""
_LENGTH: Final = timedelta(hours=6)
_AUTHOR: Final = orders.Author("hirl bench override", authenticated=False)


class Held(NamedTuple):
    """An order that held a plan."""

    order_ms: float
    """Time from the order to the outcome of the first plan that it held."""
    plan_ms: float
    """The part of it from the plan on."""
    missed_ms: tuple[float, ...]
    """Plans of the domain that came after the order and were not held by it: how long after."""


def measure(request: Request, count: int, folder: Path, seed: int = 0) -> dict[str, Any]:
    """Issue some orders to a running system and measure each."""
    with measured_system(request, folder) as system:
        load_before = load_average()
        tick_s = request.wall_seconds(system.run.simulation.tick_seconds)
        issued = _Issuer(system, tick_s, seed).issue(count)
        loads = [load_before, load_average()]
        # Read all topics at rest: doing it beside the services would change what is measured.
        system.stop()
        with TopicReader(system.options) as reader:
            sent, planned, applied = (
                orders.read_topic(reader, kind)
                for kind in (OverrideIssued, ScalePlanned, ScaleApplied)
            )
    return figures(held_orders(issued, sent, planned, applied)) | {"load": loads}


def figures(held: Sequence[Held]) -> dict[str, Any]:
    """Quantiles over all orders."""
    missed = [late for one in held for late in one.missed_ms]
    return {
        "orders": len(held),
        "order_to_held_ms": quantiles([one.order_ms for one in held]),
        "plan_to_held_ms": quantiles([one.plan_ms for one in held]),
        "missed_plans": len(missed),
        "longest_missed_ms": max(missed, default=0.0),
    }


def held_orders(
    issued: Iterable[str],
    sent: Iterable[ReadRecord],
    planned: Iterable[ReadRecord],
    applied: Iterable[ReadRecord],
) -> list[Held]:
    """What became of the orders with these ids, by the broker's times of all records."""
    order_at = {
        one.event.order_id: (one.event.scope, one.delivery.timestamp)
        for one in sent
        if isinstance(one.event, OverrideIssued)
    }
    planned_at = {
        (one.event.domain, one.event.tick): one.delivery.timestamp
        for one in planned
        if isinstance(one.event, ScalePlanned)
    }
    outcomes = [
        (one.event, one.delivery.timestamp)
        for one in applied
        if isinstance(one.event, ScaleApplied)
    ]
    return [_held(name, *order_at[name], planned_at, outcomes) for name in issued]


def _held(
    name: str,
    domain: str,
    at: float,
    planned_at: Mapping[tuple[str, int], float],
    outcomes: Sequence[tuple[ScaleApplied, float]],
) -> Held:
    own = [(event, done) for event, done in outcomes if event.domain == domain]
    first, done = min(
        ((event, done) for event, done in own if name in event.orders), key=lambda one: one[1]
    )
    missed = [
        planned_at[domain, event.tick] - at
        for event, _ in own
        if event.tick < first.tick and planned_at[domain, event.tick] > at
    ]
    planned = planned_at[domain, first.tick]
    return Held(1e3 * (done - at), 1e3 * (done - planned), tuple(1e3 * late for late in missed))


class _Issuer:
    """Issues orders to a system, one per domain at a time."""

    def __init__(self, system: MeasuredSystem, tick_s: float, seed: int) -> None:
        self._system, self._rng = system, random.Random(seed)
        self._domains, self._tick_s = system.run.simulation.domains, tick_s
        self._waiting: dict[str, str] = {}
        """Domain by order that has held nothing yet."""

    def issue(self, count: int) -> list[str]:
        """Ids of the orders, each of which held a plan."""
        with TopicReader(self._system.options) as reader:
            TickWatcher(reader, self._domains, self._system.check).wait(WARM_UP_TICKS - 1, _START_S)
            apps = orders.inventory(orders.read_topic(reader, AppDeclared))
            now = orders.cluster_time(reader.newest_records(ScaleApplied), time.time())
            self._now, self._until = now, now + _LENGTH
            with KafkaProducer(**self._system.options, acks="all") as self._producer:
                for domain in self._domains:
                    self._send(self._pause(domain))
                    self._send(self._another_number(domain, apps))
                reader.seek([topic_of(ScaleApplied).name], from_beginning=False)
                return self._issue_between_ticks(reader, count)

    def _issue_between_ticks(self, reader: TopicReader, count: int) -> list[str]:
        """Issue orders at random moments after a domain's tick, to cover all parts of a tick."""
        issued: list[str] = []
        next_at = dict.fromkeys(self._domains, float("inf"))
        timeout_s = max(_TIMEOUT_S, _TIMEOUT_TICKS * self._tick_s)
        deadline = time.monotonic() + timeout_s
        # The first pauses only have to hold something, then each domain has its turn.
        while len(issued) < count or self._waiting:
            self._system.check()
            if time.monotonic() > deadline:
                raise InputError(f"no plan is held by an order of {sorted(self._waiting.values())}")
            for domain in self._held_by(reader):
                next_at[domain] = time.monotonic() + self._rng.uniform(0, self._tick_s)
                deadline = time.monotonic() + timeout_s
            for domain, at in next_at.items():
                if at <= time.monotonic() and len(issued) < count:
                    next_at[domain] = float("inf")
                    issued.append(self._send(self._pause(domain)))
        return issued

    def _held_by(self, reader: TopicReader) -> list[str]:
        """Domains whose order has held a plan since the last call."""
        found = []
        for record in reader.poll(0.05):
            if isinstance(record.event, ScaleApplied):
                done = self._waiting.keys() & set(record.event.orders)
                found += [self._waiting.pop(name) for name in done]
        return found

    def _pause(self, domain: str) -> OverrideIssued:
        scope = orders.Scope("domain", domain)
        order = self._order(scope, "pause", pause="all")
        # The new pause replaces the domain's last one, which then holds nothing more.
        self._waiting = {name: one for name, one in self._waiting.items() if one != domain}
        self._waiting[order.order_id] = domain
        return order

    def _another_number(self, domain: str, apps: Mapping[str, AppDeclared]) -> OverrideIssued:
        """Replicas that an app does not have, so that there is always a change to hold."""
        app = next(one for one in apps.values() if one.domain == domain and one.max_replicas)
        return self._order(orders.Scope("app", app.app), "replicas", replicas=app.max_replicas)

    def _order(self, scope: orders.Scope, kind: Any, **what: Any) -> OverrideIssued:
        return orders.new_order(
            scope, kind, _AUTHOR, "a measurement", self._now, self._until, **what
        )

    def _send(self, order: OverrideIssued) -> str:
        for record in encode(order, "bench"):
            self._producer.send(
                record.topic, key=record.key, value=record.value, headers=list(record.headers)
            ).get(10)
        return order.order_id
