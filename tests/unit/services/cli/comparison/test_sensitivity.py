"""`hirl bench sensitivity` runs each changed world once and compares in each."""

import json
from pathlib import Path
from typing import Any

import pytest

from models.compare import workers
from services.cli import main

SCENARIO = """
name: {name}
shows: Checkout traffic triples for three minutes.
start: Mon 10:00
length_minutes: 6
warmup_minutes: 2
events:
  - {{kind: traffic, name: spike, target: {{domains: [payments]}}, at_minute: 1, factor: {factor}, hold_minutes: 3}}
"""  # noqa: E501
OPTIONS = [
    *("--controllers", "hpa:0.5", "--against", "hpa", "--apps", "30", "--seeds", "10-11"),
    *("--scenarios", "one.yaml,two.yaml"),
]
CELLS = ["--cells", "window-60,pod-start-120"]


@pytest.fixture(autouse=True)
def _temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workers, "cores", lambda: 1)
    for name, factor in (("one", 3.0), ("two", 2.0)):
        (tmp_path / f"{name}.yaml").write_text(SCENARIO.format(name=name, factor=factor))


def run(*more: str) -> dict[str, Any]:
    options = [*OPTIONS, *CELLS, "--json", "out.json", *more]
    assert main.run(["bench", "sensitivity", *options]) == 0
    payload: dict[str, Any] = json.loads(Path("out.json").read_text())
    return payload


def test_every_cell_has_both_controllers_in_every_scenario_and_seed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = run("--plot", "out.svg")
    cells = {cell["name"]: cell for cell in found["cells"]}
    assert list(cells) == ["as-described", "window-60", "pod-start-120"]
    for cell in cells.values():
        assert sorted((r["scenario"], r["controller"], r["seed"]) for r in cell["rows"]) == [
            (scenario, controller, seed)
            for scenario in ("one", "two")
            for controller in ("hpa", "hpa:0.5")
            for seed in (10, 11)
        ]
        (figures,) = cell["figures"]
        hours = {
            name: sum(r["node_hours"] for r in cell["rows"] if r["controller"] == name)
            for name in ("hpa", "hpa:0.5")
        }
        assert figures["node_hours_ratio"]["value"] == pytest.approx(
            hours["hpa:0.5"] / hours["hpa"]
        )
    # A world with the same values has the same rows, others have their own.
    assert cells["window-60"]["unchanged"]
    assert cells["window-60"]["rows"] == cells["as-described"]["rows"]
    assert cells["pod-start-120"]["rows"] != cells["as-described"]["rows"]
    assert Path("out.svg").read_text().startswith("<svg")
    printed = capsys.readouterr().out
    lines = [
        line for line in printed.splitlines() if line.startswith(tuple(f" {n}" for n in cells))
    ]
    assert len(lines) == 3
    assert max(map(len, lines)) <= 80


def test_results_are_reused_also_by_other_cells_and_by_bench_control(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = run()
    # Two scenarios and controllers in two worlds: window-60 is the world as described.
    assert "8 jobs on" in capsys.readouterr().out
    second = run()
    assert "8 of 8 jobs are stored" in capsys.readouterr().out
    assert first == second
    assert main.run(["bench", "control", *OPTIONS, "--no-frontier"]) == 0
    assert "4 of 4 jobs are stored" in capsys.readouterr().out


def test_an_unknown_cell_ends_before_anything_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["bench", "sensitivity", *OPTIONS, "--cells", "no-grac"]) == 2
    assert "cells: no-grac: did you mean no-grace?" in capsys.readouterr().err
    assert not Path(".hirl").exists()
