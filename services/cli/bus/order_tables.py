"""Orders as text: what an order does, and tables of orders that fit a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console

from schemas.override_issued import OverrideIssued
from services.cli.output import table

if TYPE_CHECKING:
    from services.admin.orders import Trail


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """Orders as `--json` writes them."""

    time: str
    """The cluster's time, by which orders end."""
    in_force: list[OverrideIssued]
    waiting: list[OverrideIssued]
    """Orders that the limit of changes per minute holds back."""


def effect(order: OverrideIssued) -> str:
    """What an order does, in a few words."""
    if order.lifted:
        return f"lift {order.order}"
    words = [f"mode {order.mode}"] if order.mode else []
    words += ["freeze"] if order.order == "freeze" else []
    words += [f"pause {order.pause}"] if order.pause != "none" and not words else []
    for name in ("floor", "ceiling", "replicas", "breaker"):
        value = getattr(order, name)
        words += [] if value is None else [f"{name} {value}"]
    return ", ".join(words) or "nothing"


def author(order: OverrideIssued) -> str:
    """Who issued it, marked where the broker did not check it."""
    name = order.issued_by or "unknown"
    return name if order.authenticated else f"{name} (unauthenticated)"


def show(console: Console, found: Listed) -> None:
    """Print the orders in force, and those that wait."""
    if not found.in_force and not found.waiting:
        console.print(f"no orders in force at {found.time}")
        return
    rows = [
        (_scope(one), effect(one), _minute(one.until), author(one), one.reason or "-")
        for one in found.in_force
    ]
    console.print(table(f"orders at {found.time}", ("for", "order", "until", "by", "why"), rows))
    if found.waiting:
        console.print(
            f"{len(found.waiting)} orders wait: too many orders were changed within a minute"
        )


def show_history(console: Console, found: Sequence["Trail"]) -> None:
    """Print orders with what they changed and held."""
    if not found:
        console.print("no orders were issued in the last 30 days")
        return
    rows = [
        (
            _minute(one.order.issued_at),
            _scope(one.order),
            effect(one.order),
            author(one.order),
            one.applied,
            one.held,
            one.order.reason or "-",
        )
        for one in found
    ]
    columns = ("issued", "for", "order", "by", "applied", "held", "why")
    console.print(table("orders and what they changed or held", columns, rows))


def _scope(order: OverrideIssued) -> str:
    return order.kind if order.kind == "cluster" else f"{order.kind} {order.scope}"


def _minute(moment: str | None) -> str:
    return "-" if moment is None else moment[5:16].replace("T", " ")
