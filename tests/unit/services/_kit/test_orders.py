"""Orders of operators: what is in force, which order wins, and how fast orders may change."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.override_issued import OverrideIssued
from schemas.topics import key_of
from services._kit.errors import Refused
from services._kit.orders import (
    LONGEST_S,
    MOST_CHANGES,
    WINDOW_S,
    OrderBook,
    effect_of,
    slot_of,
)
from services._kit.ticks import spell
from tests.service_helpers import DOMAIN, declared

# No deadline: a busy machine is not a defect.
PROPERTY = settings(max_examples=60, deadline=None)
TIME = datetime(2026, 11, 27, 8, tzinfo=UTC)
APP = declared("payments-0001", tier=2)


def order(kind: Any = "domain", scope: str = DOMAIN, **fields: Any) -> OverrideIssued:
    given = {"order_id": f"{kind}-{scope}-{sorted(fields)}", **fields}
    return OverrideIssued(scope=scope, kind=kind, **given)


def app_ceiling(number: int) -> OverrideIssued:
    return order("app", f"{DOMAIN}-{number:04}", order="ceiling", ceiling=1)


def in_force(book: OrderBook, now: float = 0.0, time: datetime = TIME) -> list[OverrideIssued]:
    return [one.order for one in book.in_force(time, now)]


def test_a_floor_does_not_replace_a_pause_of_the_same_scope() -> None:
    book = OrderBook()
    book.learn(order(order="pause", pause="all"), 0)
    book.learn(order(order="floor", floor=3), 1)
    effect = effect_of(book.orders_for(APP, TIME, 1))
    assert effect.paused == {"scale-in", "scale-out"}
    assert effect.floor == 3


def test_an_app_called_like_its_domain_has_orders_and_keys_of_its_own() -> None:
    kinds: tuple[Any, ...] = ("app", "domain", "cluster")
    keys = {key_of(order(kind, "cluster", order="pause")) for kind in kinds}
    assert len(keys) == len(kinds)
    book = OrderBook()
    for kind in kinds:
        book.learn(order(kind, "cluster", order="pause", pause="all"), 0)
    book.forget("app/cluster/pause", 1)
    assert {one.kind for one in in_force(book)} == {"domain", "cluster"}


@PROPERTY
@given(
    kind=st.sampled_from(["app", "tier", "domain", "cluster"]),
    scope=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,30}", fullmatch=True),
    what=st.sampled_from(["any", "pause", "floor", "breaker"]),
)
def test_a_key_names_exactly_one_slot(kind: Any, scope: str, what: Any) -> None:
    assert slot_of(key_of(order(kind, scope, order=what))) == (kind, scope, what)


@pytest.mark.parametrize("key", ["", "payments", "domain/payments", "//"])
def test_a_tombstone_that_names_no_order_is_refused(key: str) -> None:
    with pytest.raises(Refused, match="wrong-key"):
        OrderBook().forget(key, 0)


def test_an_order_ends_at_its_time_and_a_lifted_one_at_once() -> None:
    book = OrderBook()
    book.learn(order(order="pause", pause="all", until=spell(TIME)), 0)
    assert in_force(book, time=TIME)
    assert not in_force(book, time=TIME + timedelta(seconds=1))
    book.learn(order(order="pause", lifted=True), 1)
    assert not in_force(book, time=TIME)


@pytest.mark.parametrize("until", [None, "2099-01-01T00:00:00Z"])
def test_no_order_outlives_seven_days_whatever_it_says(until: str | None) -> None:
    book = OrderBook()
    book.learn(order(order="mode", mode="auto", until=until), 100)
    assert in_force(book, now=100 + LONGEST_S)
    assert not in_force(book, now=101 + LONGEST_S)


def test_a_flood_of_orders_takes_effect_at_the_limited_rate_only() -> None:
    book = OrderBook()
    for number in range(30):
        book.learn(app_ceiling(number), 0.7 * number / 30)
    for minute, accepted in enumerate((MOST_CHANGES, 2 * MOST_CHANGES, 30)):
        now = 1 + minute * WINDOW_S
        book.advance(now)
        assert (len(in_force(book, now)), len(book.waiting(DOMAIN))) == (accepted, 30 - accepted)


def test_a_flood_for_apps_or_for_a_domain_does_not_delay_another_domain() -> None:
    book = OrderBook()
    for number in range(30):
        book.learn(app_ceiling(number), 0)
        book.learn(order("tier", f"{DOMAIN}/{number}", order="ceiling", ceiling=1), 0)
    book.learn(order(scope="data", order="floor", floor=3), 0)
    assert order(scope="data", order="floor", floor=3) in in_force(book)


def test_a_tombstone_lifts_at_the_limited_rate_and_is_not_lost() -> None:
    book = OrderBook()
    book.learn(order(order="freeze", pause="all"), 0)
    for number in range(MOST_CHANGES):
        book.learn(order("tier", f"{DOMAIN}/{number}", order="ceiling", ceiling=1), 0)
    book.forget(f"domain/{DOMAIN}/freeze", 0)
    assert effect_of(book.orders_for(APP, TIME, 0)).paused
    book.advance(WINDOW_S)
    assert not effect_of(book.orders_for(APP, TIME, WINDOW_S)).paused


STOPS: tuple[dict[str, Any], ...] = (
    {"order": "pause", "pause": "all"},
    {"order": "pause", "pause": "scale-in"},
    {"order": "freeze", "pause": "all"},
    {"order": "mode", "mode": "off"},
    {"order": "mode", "mode": "preview"},
    {"order": "breaker", "breaker": "open"},
)


@pytest.mark.parametrize("fields", STOPS)
def test_an_order_that_only_stops_changes_never_waits(fields: dict[str, Any]) -> None:
    book = OrderBook()
    for number in range(100):
        book.learn(app_ceiling(number), 0)
    book.learn(order(**fields), 0)
    assert order(**fields) in in_force(book)


@pytest.mark.parametrize(
    ("strict", "loose"),
    [
        ({"order": "pause", "pause": "all"}, {"order": "pause", "pause": "scale-in"}),
        ({"order": "mode", "mode": "off"}, {"order": "mode", "mode": "preview"}),
        ({"order": "mode", "mode": "off"}, {"order": "mode", "mode": "auto"}),
        ({"order": "freeze", "pause": "all"}, {"order": "freeze", "lifted": True}),
        (
            {"order": "freeze", "pause": "all"},
            {"order": "freeze", "pause": "all", "until": "2026-11-27T08:00:01Z"},
        ),
        ({"order": "breaker", "breaker": "open"}, {"order": "breaker", "breaker": "reset"}),
    ],
)
def test_what_loosens_a_stop_waits_like_any_other_change(
    strict: dict[str, Any], loose: dict[str, Any]
) -> None:
    book = OrderBook()
    book.learn(order(**strict), 0)
    for number in range(MOST_CHANGES):
        book.learn(order("tier", f"{DOMAIN}/{number}", order="ceiling", ceiling=1), 0)
    book.learn(order(**loose), 0)
    assert order(**strict) in in_force(book)
    book.advance(WINDOW_S)
    assert order(**strict) not in in_force(book, WINDOW_S)


def test_lifting_a_waiting_order_withdraws_it_at_once() -> None:
    book = OrderBook()
    for number in range(30):
        book.learn(app_ceiling(number), 0)
    for number in range(30):
        lift = order("app", f"{DOMAIN}-{number:04}", order="ceiling", lifted=True)
        book.learn(lift, 0)
    # The ten that took effect are lifted at the limited rate, the others never take effect.
    assert len(book.waiting(DOMAIN)) == MOST_CHANGES


def test_too_many_waiting_orders_are_refused_instead_of_filling_the_memory() -> None:
    book = OrderBook()
    for number in range(MOST_CHANGES + 1000):
        book.learn(app_ceiling(number), 0)
    with pytest.raises(Refused, match="too-many-orders"):
        book.learn(app_ceiling(5000), 0)


def test_orders_for_scopes_that_do_not_exist_slow_no_start_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    book, looked_at = OrderBook(), list[Any]()
    advance = book._advance

    def counted(scope: Any, now: float) -> None:
        looked_at.append(scope)
        advance(scope, now)

    monkeypatch.setattr(book, "_advance", counted)
    for number in range(300):
        book.learn(order(scope=f"forged-{number}", order="floor", floor=1), 0)
    # Twice for each order, however many scopes there are.
    assert len(looked_at) == 600
    book.advance(1)
    looked_at.clear()
    book.advance(2)
    assert not looked_at


records = st.lists(
    st.tuples(
        st.sampled_from(range(4)),
        st.sampled_from(
            [*STOPS, {"order": "ceiling", "ceiling": 1}, {"order": "pause", "lifted": True}]
        ),
        st.floats(0, 50),
    ),
    max_size=40,
)


@PROPERTY
@given(records=records, later=st.floats(0, 500))
def test_a_restart_that_reads_all_records_again_has_the_same_orders_in_force(
    records: list[tuple[int, dict[str, Any], float]], later: float
) -> None:
    running, at = OrderBook(most=3), 0.0
    read: list[tuple[OverrideIssued, float]] = []
    for number, fields, pause in records:
        at += pause
        one = order("app", f"{DOMAIN}-{number}", **fields)
        read.append((one, at))
        running.learn(one, at)
        # A running process advances at every tick, a restarted one only once.
        running.advance(at + pause / 2)
    restarted = OrderBook(most=3)
    for one, when in read:
        restarted.learn(one, when)
    now = at + later
    running.advance(now)
    restarted.advance(now)
    assert in_force(running, now) == in_force(restarted, now)


@PROPERTY
@given(arrivals=st.lists(st.integers(0, 90), min_size=1, max_size=20))
def test_no_window_sees_more_changes_than_the_limit(arrivals: list[int]) -> None:
    book, seen = OrderBook(most=3), list[int]()
    for second in range(600):
        before = len(in_force(book, second))
        for number in (n for n, at in enumerate(sorted(arrivals)) if at == second):
            book.learn(order("app", f"{DOMAIN}-{number}", order="floor", floor=2), second)
        book.advance(second)
        seen += [second] * (len(in_force(book, second)) - before)
    assert len(seen) == len(arrivals)
    assert all(sum(start <= one < start + WINDOW_S for one in seen) <= 3 for start in seen)


def test_the_strictest_mode_wins_and_names_its_order() -> None:
    orders = [
        order("cluster", "cluster", mode="canary", order_id="c"),
        order(mode="off", order_id="d"),
        order("app", APP.app, mode="auto", order_id="a"),
    ]
    effect = effect_of(orders)
    assert (effect.mode, effect.order_behind("off", [1])) == ("off", "d")


def test_where_floor_and_ceiling_contradict_the_wider_scope_wins() -> None:
    wide_floor = effect_of([order(floor=10), order("app", APP.app, ceiling=2)])
    wide_ceiling = effect_of([order(ceiling=4), order("app", APP.app, floor=10)])
    assert (wide_floor.floor, wide_floor.ceiling) == (10, 10)
    assert (wide_ceiling.floor, wide_ceiling.ceiling) == (4, 4)


def test_in_one_scope_the_floor_wins_over_a_lower_ceiling() -> None:
    effect = effect_of([order(order="ceiling", ceiling=2), order(order="floor", floor=5)])
    assert effect.bounded(1, 0, None) == 5


@PROPERTY
@given(
    floor=st.none() | st.integers(0, 100),
    ceiling=st.none() | st.integers(0, 100),
    least=st.integers(0, 50),
    room=st.none() | st.integers(0, 50),
    replicas=st.integers(0, 200),
)
def test_floor_and_ceiling_never_leave_the_declared_bounds(
    floor: int | None, ceiling: int | None, least: int, room: int | None, replicas: int
) -> None:
    most = None if room is None else least + room
    effect = effect_of([order(floor=floor), order("app", APP.app, ceiling=ceiling)])
    bounded = effect.bounded(replicas, least, most)
    assert least <= bounded
    assert most is None or bounded <= most
    # Applying it again changes nothing.
    assert effect.bounded(bounded, least, most) == bounded


def test_a_tier_order_reaches_the_apps_of_its_tier_only() -> None:
    book = OrderBook()
    book.learn(order("tier", f"{DOMAIN}/2", order="floor", floor=4), 0)
    assert effect_of(book.orders_for(APP, TIME, 0)).floor == 4
    assert effect_of(book.orders_for(declared("other-0002", tier=1), TIME, 0)).floor is None


def test_a_pause_names_the_order_of_its_direction() -> None:
    effect = effect_of(
        [order(pause="scale-in", order_id="in"), order(pause="scale-out", order_id="out")]
    )
    assert effect.order_behind("paused", [-1, 0, 0]) == "in"
    assert effect.order_behind("paused", [1, 0, 0]) == "out"
    assert effect.order_behind("hold-budget", [1, 0, 0]) == ""


def reset(at: datetime, **fields: Any) -> OverrideIssued:
    return order(order="breaker", breaker="reset", issued_at=spell(at), **fields)


def test_a_reset_takes_effect_once_and_not_on_a_breaker_that_tripped_later() -> None:
    book, minute = OrderBook(), timedelta(minutes=1)
    book.learn(reset(TIME), 0)
    found = book.breaker_command(DOMAIN, TIME - minute, TIME, 0)
    assert found is not None
    assert found.action == "reset"
    assert book.breaker_command(DOMAIN, TIME + minute, TIME + minute, 0) is None


def test_a_reset_from_the_future_closes_no_breaker_before() -> None:
    book, minute = OrderBook(), timedelta(minutes=1)
    book.learn(reset(TIME + timedelta(days=1)), 0)
    assert book.breaker_command(DOMAIN, TIME - minute, TIME, 0) is None


def test_an_order_to_open_the_cluster_wins_over_a_reset_of_a_domain() -> None:
    book = OrderBook()
    book.learn(reset(TIME), 0)
    book.learn(order("cluster", "cluster", order="breaker", breaker="open"), 1)
    found = book.breaker_command(DOMAIN, None, TIME, 1)
    assert found is not None
    assert found.action == "open"
