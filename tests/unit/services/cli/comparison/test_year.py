"""`hirl bench year` runs the days of a file of weights and sums them up."""

import json
from pathlib import Path

import pytest

from models.compare import workers
from services.cli import main

DAY = """
name: {name}
shows: A short day.
start: Mon 10:00
length_minutes: 4
warmup_minutes: 1
"""


def test_the_figures_of_a_year_are_the_weighted_sums_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workers, "cores", lambda: 1)
    weights = tmp_path / "weights.yaml"
    weights.write_text("days: [{day: day-ordinary, days: 365, why: nothing else happens}]")
    file = tmp_path / "year.json"
    (tmp_path / "days").mkdir()
    (tmp_path / "days" / "day-ordinary.yaml").write_text(DAY.format(name="day-ordinary"))
    monkeypatch.setattr("models.sim.config.scenario.DAYS", tmp_path / "days")
    arguments = ["--controllers", "hpa,hpa:0.5", "--seeds", "0-1", "--apps", "40"]
    options = ["--weights", str(weights), "--json", str(file)]
    assert main.run(["bench", "year", *arguments, *options]) == 0
    payload = json.loads(file.read_text())
    for standing in payload["year"]:
        hours = [
            row["node_hours"]
            for row in payload["rows"]
            if row["controller"] == standing["controller"]
        ]
        assert standing["node_hours"]["value"] == pytest.approx(365 * sum(hours) / 2)
    assert payload["weights"][0]["why"] == "nothing else happens"
    assert "A year" in capsys.readouterr().out
