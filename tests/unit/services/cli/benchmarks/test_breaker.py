"""`hirl bench breaker` prints times to trip, and J with and without breakers."""

import json
from pathlib import Path

import pytest

from services.cli import main

SHORT = """
name: short
shows: Nothing happens.
start: Thu 11:30
length_minutes: 2
warmup_minutes: 2
"""


def test_every_figure_is_printed_and_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    scenario, file = tmp_path / "short.yaml", tmp_path / "bench.json"
    scenario.write_text(SHORT)
    arguments = ["--scenarios", str(scenario), "--seeds", "1", "--apps", "20"]
    assert main.run(["bench", "breaker", *arguments, "--json", str(file)]) == 0
    payload = json.loads(file.read_text())
    assert payload["trip_times_s"]["errors"] == [150, 220, 300, 450]
    (row,) = payload["rows"]
    assert (row["scenario"], row["trips"]) == ("short", {})
    assert "Seconds to trip" in capsys.readouterr().out
