"""`hirl override` and `hirl breaker`: what they accept, and how they print orders."""

import io
from datetime import timedelta
from typing import Any

import pytest
from rich.console import Console

from models.inputs.errors import InputError
from schemas.breaker_changed import BreakerChanged
from schemas.override_issued import OverrideIssued
from services.admin.orders import Scope, Trail
from services.cli.bus.breaker import Breakers, print_breakers
from services.cli.bus.override import (
    Listed,
    author,
    duration_of,
    effect,
    scope_of,
    show,
    show_history,
)
from services.cli.commands import COMMANDS
from services.cli.main import EXIT_BAD_INPUT, run

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


def test_breakers_fit_80_columns() -> None:
    one = BreakerChanged(
        tick=9, time="2026-11-27T09:00:00Z", scope="payments", state="open", since_tick=3,
        reason="missing: 0.62 of the declared apps have no valid sample, threshold 0.5",
    )  # fmt: skip
    text = printed(print_breakers, Breakers(breakers=[one]))
    assert max(map(len, text.splitlines())) <= 80
    assert "open" in text


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
def test_an_order_is_told_in_a_few_words(fields: dict[str, Any], text: str) -> None:
    assert effect(OverrideIssued(scope="x", kind="app", **fields)) == text


@pytest.mark.parametrize(("text", "minutes"), [("30m", 30), ("4h", 240), ("2d", 2880)])
def test_durations_are_read(text: str, minutes: int) -> None:
    assert duration_of(text) == timedelta(minutes=minutes)


@pytest.mark.parametrize("text", ["", "4", "h", "-4h", "4w", "1.5h"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="30m, 4h or 2d"):
        duration_of(text)


def test_exactly_one_scope_has_to_be_named() -> None:
    assert scope_of(None, None, "payments", cluster=False) == Scope("domain", "payments")
    with pytest.raises(InputError, match="got 0"):
        scope_of(None, None, None, cluster=False)
    with pytest.raises(InputError, match="got 2"):
        scope_of("a", None, None, cluster=True)


@pytest.mark.parametrize(
    "words",
    [name.split() for name in COMMANDS if name.startswith("override ") and "list" not in name],
)
def test_no_option_sets_the_author_of_an_order(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, "--help"]) == 0
    text = capsys.readouterr().out
    assert "--by" not in text
    assert "--author" not in text


def test_an_order_without_a_reason_is_refused_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["override", "freeze", "--cluster"]) == EXIT_BAD_INPUT
    assert "--reason" in capsys.readouterr().err
