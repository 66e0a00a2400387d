from pathlib import Path

import msgspec
import pytest

from services.cli.benchmarks import decisions as bench_decisions
from services.cli.main import run


def test_decisions_are_timed_for_each_size_and_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_decisions, "SIZES", (20, 40))
    file = tmp_path / "times.json"
    code = run(
        ["bench", "decisions", "--controllers", "hpa", "--minutes", "1", "--json", str(file)]
    )
    assert code == 0
    rows = msgspec.json.decode(file.read_bytes())["rows"]
    assert [(row["controller"], row["apps"]) for row in rows] == [("hpa", 20), ("hpa", 40)]
    assert all(row["tick_ms"] > 0 and row["minute_ms"] > 0 for row in rows)


def test_an_unknown_controller_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "decisions", "--controllers", "hpq"]) == 2
    assert "did you mean hpa" in capsys.readouterr().err
