"""`hirl breaker show` fits a terminal, and says so when there is nothing to show."""

import io

from rich.console import Console

from schemas.breaker_changed import BreakerChanged
from services.cli.bus.breaker import Breakers, print_breakers


def printed(found: Breakers) -> str:
    out = io.StringIO()
    print_breakers(Console(file=out, width=80), found)
    return out.getvalue()


def test_breakers_fit_80_columns() -> None:
    one = BreakerChanged(
        tick=9, time="2026-11-27T09:00:00Z", scope="payments", state="open", since_tick=3,
        reason="missing: 0.62 of the declared apps have no valid sample, threshold 0.5",
    )  # fmt: skip
    text = printed(Breakers(breakers=[one]))
    assert max(map(len, text.splitlines())) <= 80
    assert "open" in text


def test_without_breakers_one_line_says_so() -> None:
    assert "no breaker has reported yet" in printed(Breakers(breakers=[]))
