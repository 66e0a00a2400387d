"""`hirl counterfactual` compares, and says what a bad change should be."""

import json
from pathlib import Path

import pytest

from services.cli import main

SCENARIO = """
name: quiet
shows: Nothing happens.
start: Mon 10:00
length_minutes: 6
warmup_minutes: 2
"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quiet.yaml").write_text(SCENARIO)


def changed(*options: str) -> int:
    given = ["--scenario", "quiet.yaml", "--apps", "120", "--seeds", "10-11"]
    return main.run(["counterfactual", *given, *options])


def test_the_figures_of_both_runs_are_written(capsys: Capture) -> None:
    options = ("--at", "1", "--minutes", "4", "--change", "need.payments=0.5")
    assert changed(*options, "--json", "out.json") == 0
    found = json.loads(Path("out.json").read_text())
    assert found["command"].endswith("--change need.payments=0.5")
    objective = found["differences"][-1]
    assert objective["figure"] == "J"
    assert objective["changed"] - objective["as_it_was"] == pytest.approx(
        objective["difference"]["value"]
    )
    shown = capsys.readouterr().out
    assert "too narrow to judge" in shown
    assert "beyond doubt" not in shown


def test_a_bad_change_is_one_line(capsys: Capture) -> None:
    assert changed("--at", "1", "--change", "size=2") == main.EXIT_BAD_INPUT
    assert "change: size=2: expected one of headroom" in capsys.readouterr().err
