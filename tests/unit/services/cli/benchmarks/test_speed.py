"""`hirl bench sim` and `hirl bench decisions` measure speed and refuse bad options."""

import json
from pathlib import Path

import pytest

from models.compare import speed
from services.cli import main
from services.cli.benchmarks import speed as command

Capture = pytest.CaptureFixture[str]


def test_a_small_bench_writes_every_figure(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "SIZES", (20, 40))
    monkeypatch.setattr(speed, "SEEDS_PER_JOB", 3)
    # Timing single stages would compile each of them.
    monkeypatch.setattr(speed, "_stages", lambda _run, _ticks: [])
    file = tmp_path / "bench.json"
    arguments = ["bench", "sim", "--envs", "4", "--apps", "20", "--ticks", "30"]
    assert main.run([*arguments, "--json", str(file)]) == 0
    payload = json.loads(file.read_text())
    assert (payload["envs"], payload["apps"]) == (4, 20)
    assert payload["env_ticks_per_s"] > 0
    assert payload["peak_rss_mb"] > 0
    sizes = [(row["apps"], row["envs"]) for row in payload["by_apps"]]
    assert sizes == [(20, 3), (20, 4), (40, 2)]
    assert len(payload["world_hash"]) == 16
    assert "env-ticks/s" in capsys.readouterr().out


@pytest.mark.parametrize(("option", "value"), [("--envs", "0"), ("--apps", "3"), ("--ticks", "1")])
def test_sizes_that_are_too_small_are_refused(capsys: Capture, option: str, value: str) -> None:
    assert main.run(["bench", "sim", option, value]) == main.EXIT_BAD_INPUT
    assert option in capsys.readouterr().err


def test_decisions_are_timed_for_each_size_and_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "SIZES", (20, 40))
    file = tmp_path / "times.json"
    code = main.run(
        ["bench", "decisions", "--controllers", "hpa", "--minutes", "1", "--json", str(file)]
    )
    assert code == 0
    rows = json.loads(file.read_bytes())["rows"]
    assert [(row["controller"], row["apps"]) for row in rows] == [("hpa", 20), ("hpa", 40)]
    assert all(row["tick_ms"] > 0 and row["minute_ms"] > 0 for row in rows)


def test_an_unknown_controller_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["bench", "decisions", "--controllers", "hpq"]) == 2
    assert "did you mean hpa" in capsys.readouterr().err
