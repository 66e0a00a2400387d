"""The table of `hirl chaos` fits into a terminal and says everything that happened."""

import io

import pytest
from rich.console import Console

from services.cli.benchmarks.chaos import show
from services.cli.main import run
from services.measure.chaos.faults import all_faults
from services.measure.chaos.report import NotInjected, Report, Row

ROW = Row(
    fault="rebalance aggregator", times=12, lost=10, doubled=10, wrong_decreases=10, holds=1234,
    silenced=10, next_tick_s=123.456, next_tick_most_s=239.9,
)  # fmt: skip
REPORT = Report(
    rows=[ROW], minutes=61.2, ticks=12_345, changes=2345, dead=["soldier"], dead_letters=123_456,
    hostile_records=100_000, skipped=[NotInjected("release soldier", "git is not installed")],
    died=["kill soldier: stands still"], interrupted=False,
)  # fmt: skip


def printed(report: Report) -> str:
    output = io.StringIO()
    show(Console(file=output, width=80, force_terminal=False, highlight=False), report)
    return output.getvalue()


def test_the_table_fits_into_80_columns() -> None:
    text = printed(REPORT)
    row = next(line for line in text.splitlines() if "rebalance aggregator" in line)
    assert len(row.rstrip()) <= 80
    assert row.split()[-8:] == ["12", "10", "10", "10", "1,234", "10", "123.5", "239.9"]


def test_what_was_skipped_ended_early_or_died_is_named() -> None:
    text = printed(REPORT)
    assert "skipped release soldier: git is not installed" in text
    assert "ended early after kill soldier: stands still" in text
    assert "did not come back: soldier" in text
    assert "100,000 hostile records" in text


def test_list_names_every_kind_and_starts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chaos", "--list"]) == 0
    assert capsys.readouterr().out.split("\n")[:-1] == [fault.name for fault in all_faults(1)]
    assert run(["chaos", "--list", "--faults", "pause,clock of"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert len(listed) == 8
    assert run(["chaos", "--list", "--faults", "earthquake"]) == 2
