"""Orders have an author that is not typed in, an end, an existing scope, and an audit trail."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from models.inputs.errors import InputError
from schemas.app_declared import AppDeclared
from schemas.fields import Event
from schemas.override_issued import OverrideIssued
from schemas.scale_applied import ScaleApplied
from schemas.topics import key_of, topic_of
from services._kit.records import Delivery
from services._kit.ticks import parse, spell
from services.admin import orders
from services.admin.orders import Author, Scope
from services.admin.reader import ReadRecord
from tests.service_helpers import declared
from tests.unit.services.system_helpers import example

NOW = datetime(2026, 11, 27, 8, tzinfo=UTC)
ALICE = Author("alice", authenticated=True)
PAYMENTS = Scope("domain", "payments")


def read(event: Event | None, at: float = 0.0, key: str = "", kind: Any = None) -> ReadRecord:
    topic = topic_of(kind or event or AppDeclared).name
    name = key or (key_of(event) if event else "")
    return ReadRecord(event, Delivery(topic, 0, 0, name.encode(), b"", (), at))


def test_the_author_is_the_user_whom_the_broker_authenticates() -> None:
    options = {"security_protocol": "SASL_SSL", "sasl_plain_username": "alice"}
    assert orders.author_of(options) == ALICE


@pytest.mark.parametrize(
    "options",
    [{}, {"security_protocol": "SSL"}, {"sasl_plain_username": "alice"}],
)
def test_without_authentication_the_author_is_the_machines_user_and_marked(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "bob")
    assert orders.author_of(options) == Author("bob", authenticated=False)


def test_an_order_has_an_id_an_author_an_end_and_a_reason() -> None:
    end = NOW + timedelta(hours=1)
    first, second = (
        orders.new_order(PAYMENTS, "pause", ALICE, " sale ", NOW, end, pause="all")
        for _ in range(2)
    )
    assert first.order_id != second.order_id
    assert (first.issued_by, first.authenticated, first.reason) == ("alice", True, "sale")
    assert (first.issued_at, first.until) == (spell(NOW), spell(end))


def test_an_order_without_a_reason_is_refused() -> None:
    with pytest.raises(InputError, match="--reason"):
        orders.new_order(PAYMENTS, "pause", ALICE, "  ", NOW, NOW)


def test_an_order_with_a_reason_that_no_event_carries_is_refused() -> None:
    with pytest.raises(InputError, match="--reason: expected at most 2,000"):
        orders.new_order(PAYMENTS, "pause", ALICE, "x" * 2001, NOW, NOW)


@pytest.mark.parametrize(
    ("hours", "until"),
    [(0, None), (7 * 24 + 1, None), (4, "2026-11-27T07:59:00Z"), (4, "2026-12-04T08:00:01Z")],
)
def test_an_order_has_to_end_within_seven_days(hours: int, until: str | None) -> None:
    with pytest.raises(InputError, match="within 7 days"):
        orders.end_of(NOW, timedelta(hours=hours), until)


@pytest.mark.parametrize(
    "until", ["2026-11-28T09:00:00Z", "2026-11-28T09:00", "2026-11-28 10:00+01:00"]
)
def test_an_end_may_be_a_time_with_or_without_a_zone(until: str) -> None:
    assert spell(orders.end_of(NOW, None, until)) == "2026-11-28T09:00:00Z"


def test_a_wrong_time_is_explained() -> None:
    with pytest.raises(InputError, match="--until: expected a time such as 2026-11-27T08:00:00Z"):
        orders.end_of(NOW, None, "tomorrow")


INVENTORY = {
    app.app: app
    for app in (
        declared("payments-0001", tier=0),
        declared("payments-0002", tier=1),
        AppDeclared(app="payments", domain="data", ordinal=3),
    )
}


@pytest.mark.parametrize(
    ("scope", "names"),
    [
        (Scope("app", "payments"), ["payments"]),
        (Scope("tier", "payments/1"), ["payments-0002"]),
        (Scope("domain", "payments"), ["payments-0001", "payments-0002"]),
        (Scope("cluster", "cluster"), list(INVENTORY)),
    ],
)
def test_an_order_touches_the_apps_of_its_scope(scope: Scope, names: list[str]) -> None:
    assert orders.touched(INVENTORY, scope) == names


@pytest.mark.parametrize(
    "scope", [Scope("domain", "paymets"), Scope("tier", "payments/9"), Scope("app", "x")]
)
def test_a_scope_without_apps_is_refused_with_what_exists(scope: Scope) -> None:
    with pytest.raises(InputError, match=r"such as .*payments"):
        orders.touched(INVENTORY, scope)


def test_removed_apps_are_not_touched() -> None:
    records = [
        read(declared("payments-0001")),
        read(declared("payments-0002")),
        read(declared("payments-0003")),
        read(declared("payments-0001", removed=True)),
        read(None, key="payments-0002", kind=AppDeclared),
    ]
    assert list(orders.inventory(records)) == ["payments-0003"]


def test_the_clusters_time_goes_on_after_its_last_tick() -> None:
    last = example(ScaleApplied)
    at = parse("2026-11-18T02:00:00Z").timestamp()
    found = orders.cluster_time([read(last, at)], at + 30)
    assert found == parse(last.time) + timedelta(seconds=30)


def test_without_any_tick_the_clusters_time_is_the_machines() -> None:
    assert orders.cluster_time([], NOW.timestamp()) == NOW


def test_the_book_of_the_command_line_keeps_the_limit_of_the_services() -> None:
    records = [
        read(OverrideIssued(scope=f"a-{n}", kind="app", order="floor", floor=1), n / 30)
        for n in range(2000)
    ]
    book = orders.book_of(records, 70.0)
    assert len(book.in_force(NOW, 70.0)) == 20


def applied(tick: int, outcomes: list[Any], ids: list[str]) -> ScaleApplied:
    number = len(ids)
    return ScaleApplied(
        tick=tick, time="2026-11-27T08:00:00Z", domain="payments", decision_id=f"d/{tick}",
        epoch=1, apps=[f"a-{n}" for n in range(number)], outcomes=outcomes,
        reasons=["x"] * number, replicas=[1] * number, cpu_request=[1] * number,
        memory_request=[1] * number, replicas_before=[1] * number, orders=ids,
    )  # fmt: skip


def test_each_order_is_tied_to_what_it_changed_and_held() -> None:
    issued = [
        OverrideIssued(scope="payments", kind="domain", order="pause", order_id=name)
        for name in ("one", "two", "three")
    ]
    events = [
        applied(5, ["held", "applied", "held"], ["one", "two", ""]),
        applied(6, ["held", "held"], ["one", "one"]),
        # Delivered twice.
        applied(6, ["held", "held"], ["one", "one"]),
    ]
    one, two, three = orders.trails(issued, events)
    assert (one.applied, one.held, one.apps, one.first_tick, one.last_tick) == (0, 3, 2, 5, 6)
    assert (two.applied, two.held) == (1, 0)
    assert (three.applied, three.held, three.first_tick) == (0, 0, None)


def test_what_an_order_held_does_not_count_again_for_its_lift() -> None:
    paused = OverrideIssued(scope="payments", kind="domain", order="pause", order_id="one")
    trails = orders.trails([paused, paused], [applied(5, ["held"], ["one"])])
    assert [one.held for one in trails] == [1, 0]
