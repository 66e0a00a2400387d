"""Orders are summarised in a few words, and their tables fit a terminal."""

import io
from typing import Any

import pytest
from rich.console import Console

from schemas.override_issued import OverrideIssued
from services.admin.orders import Trail
from services.cli.bus.order_tables import Listed, author, effect, show, show_history

LONG = OverrideIssued(
    scope="namespace/an-app-with-a-rather-long-name",
    kind="app",
    order="pause",
    order_id="0f6a1c9e42d7",
    pause="scale-in",
    issued_at="2026-11-27T08:00:00Z",
    until="2026-11-27T12:00:00Z",
    reason="no scale-in during the sale, as agreed with the owners of the shop",
    issued_by="alice",
)


def printed(function: Any, found: Any) -> str:
    console = Console(file=io.StringIO(), width=80)
    function(console, found)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_orders_fit_80_columns_and_say_what_by_whom_until_when_and_why() -> None:
    text = printed(show, Listed(time="2026-11-27T09:00:00Z", in_force=[LONG], waiting=[LONG]))
    assert max(map(len, text.splitlines())) <= 80
    for word in ("pause", "alice", "11-27", "12:00", "agreed", "1 orders wait"):
        assert word in text


def test_the_history_fits_80_columns_and_counts_what_an_order_did() -> None:
    text = printed(show_history, [Trail(order=LONG, applied=123, held=45678)])
    assert max(map(len, text.splitlines())) <= 80
    assert "123" in text
    assert "45,678" in text


@pytest.mark.parametrize("found", [Listed(time="x", in_force=[], waiting=[])])
def test_without_orders_one_line_says_so(found: Listed) -> None:
    assert printed(show, found) == "no orders in force at x\n"


def test_an_author_whom_the_broker_did_not_check_is_marked() -> None:
    assert author(LONG) == "alice (unauthenticated)"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"order": "freeze", "pause": "all"}, "freeze"),
        ({"order": "mode", "mode": "off"}, "mode off"),
        ({"order": "floor", "floor": 0}, "floor 0"),
        ({"order": "breaker", "breaker": "reset"}, "breaker reset"),
        ({"order": "pause", "lifted": True}, "lift pause"),
    ],
)
def test_an_order_is_summarised_in_a_few_words(fields: dict[str, Any], text: str) -> None:
    assert effect(OverrideIssued(scope="x", kind="app", **fields)) == text
