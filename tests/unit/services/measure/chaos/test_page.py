"""The page says where its figures come from, and everything that the table says."""

from datetime import date

import pytest

from services.measure.chaos import releases
from services.measure.chaos.page import origin, page_of
from services.measure.chaos.report import NotInjected, Report, Row
from services.measure.chaos.subject import Skipped

ROW = Row(
    fault="kill soldier", times=12, lost=1, doubled=2, wrong_decreases=3, holds=1234, silenced=4,
    next_tick_s=2.345, next_tick_most_s=9.87,
)  # fmt: skip
REPORT = Report(
    rows=[ROW], minutes=61.2, ticks=12_345, changes=2345, dead=["breaker"], dead_letters=123_456,
    hostile_records=100_000, skipped=[NotInjected("release soldier", "git is not installed")],
    died=["kill soldier: stands still"], interrupted=True,
)  # fmt: skip


def test_the_page_begins_as_every_page_of_results_and_has_the_whole_table() -> None:
    text = page_of(REPORT, origin("hirl chaos --seed 3", "calm, 60 apps", date(2026, 11, 18)))
    lines = text.splitlines()
    assert lines[0].startswith("# ")
    heads = [line.split("|")[1].strip() for line in lines[4:9]]
    assert heads == ["Date", "Commit", "Command", "World hash", "Machine"]
    assert "| Command | `hirl chaos --seed 3` |" in lines
    assert "| kill soldier | 12 | 1 | 2 | 3 | 1234 | 4 | 2.3 | 9.9 |" in lines
    assert "1 lost, 2 made twice, 3 wrong decreases, 4 silenced domains" in text
    assert "9.9 s at most (kill soldier)" in text
    assert "It was interrupted." in text
    assert lines[-3:] == [
        "- Skipped release soldier: git is not installed",
        "- Ended early after kill soldier: stands still",
        "- Did not come back: breaker",
    ]


def test_an_unknown_commit_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_git(*_: str) -> bytes:
        raise Skipped("git is not installed")

    monkeypatch.setattr(releases, "_git", no_git)
    assert origin("hirl chaos", "calm", date(2026, 11, 18))["Commit"] == "not recorded"
