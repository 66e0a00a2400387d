"""`hirl bench foresight` fails where the order of its controllers is reversed."""

import json
from pathlib import Path

import pytest

from models.compare import workers
from services.cli import main

SCENARIO = """
name: spike
shows: Checkout traffic triples for three minutes.
start: Mon 10:00
length_minutes: 8
warmup_minutes: 2
events:
  - {kind: traffic, name: spike, target: {domains: [payments]}, at_minute: 1, factor: 3.0, hold_minutes: 3}
"""  # noqa: E501
OPTIONS = ["--apps", "30", "--seeds", "10-12", "--scenarios", "spike.yaml", "--json", "out.json"]


@pytest.fixture(autouse=True)
def _temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workers, "cores", lambda: 1)
    (tmp_path / "spike.yaml").write_text(SCENARIO)


def bench(controllers: str) -> int:
    return main.run(["bench", "foresight", "--controllers", controllers, *OPTIONS])


def test_the_exit_status_is_1_only_where_the_order_is_reversed() -> None:
    statuses = {}
    for order in ("hpa:0.4,hpa:0.95", "hpa:0.95,hpa:0.4"):
        statuses[order] = bench(order)
        (row,) = json.loads(Path("out.json").read_text())["foresight"]
        low = row["steps"][0]["difference"]["low"]
        assert (statuses[order] == 1) == (low > 0) == (row["verdict"] == "fails")
    assert sorted(statuses.values()) == [0, 1]


def test_one_controller_has_no_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench("hpa") == 2
    assert "controllers: expected at least two names, got 'hpa'" in capsys.readouterr().err
