"""`hirl bench frontier`: its JSON, its plot, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from models.compare import workers
from services.cli import main

SCENARIO = """
name: spike
shows: Checkout traffic triples for three minutes.
start: Mon 10:00
length_minutes: 6
warmup_minutes: 2
events:
  - {kind: traffic, name: spike, target: {domains: [payments]}, at_minute: 1, factor: 3.0, hold_minutes: 3}
"""  # noqa: E501
OPTIONS = ["--apps", "30", "--seeds", "10-11", "--scenarios", "spike.yaml"]
LINES = ["--families", "hpa-calibrated,pid", "--knobs", "0.6,1.3", "--against", "pid"]


@pytest.fixture(autouse=True)
def _temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workers, "cores", lambda: 1)
    (tmp_path / "spike.yaml").write_text(SCENARIO)


def test_every_family_has_a_point_per_knob_scenario_and_seed() -> None:
    files = ["--json", "out.json", "--plot", "out.svg"]
    assert main.run(["bench", "frontier", *LINES, *OPTIONS, *files]) == 0
    found: dict[str, Any] = json.loads(Path("out.json").read_text())
    assert list(found["families"]) == ["hpa-calibrated", "pid"]
    for points in found["families"].values():
        assert sorted((point["knob"], point["seed"]) for point in points) == [
            (knob, seed) for knob in (0.6, 1.0, 1.3) for seed in (10, 11)
        ]
        assert set(points[0]) == {
            *("knob", "scenario", "seed", "node_hours", "violation_minutes", "pw", "objective")
        }
        # Every knob is another controller.
        assert len({point["pw"] for point in points if point["seed"] == 10}) == 3
    assert [one["family"] for one in found["equal"]] == ["hpa-calibrated", "pid"]
    assert found["equal"][1]["node_hours_at_equal_p0"] == pytest.approx(1.0)
    assert Path("out.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--against", "hpa"], "against: hpa: expected one of hpa-calibrated,pid"),
        (["--knobs", "a"], "knobs: expected numbers such as 0.8,1,1.2, got 'a'"),
        (["--families", "pid,static"], "expected one of"),
    ],
)
def test_bad_options_end_before_anything_runs(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["bench", "frontier", *LINES, *OPTIONS, *options]) == 2
    assert message in capsys.readouterr().err
