"""The policy of docs/examples enters the benchmark by its name, and does what it says."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from models.compare import workers
from models.features.table import domain_columns
from services.cli import main
from tests.example_files import FOLDER, example

SCENARIO = """
name: growing
shows: Traffic of payments grows.
start: Mon 10:00
length_minutes: 30
warmup_minutes: 15
events:
  - kind: traffic
    name: rise
    at_minute: 16
    target: {domains: [payments]}
    factor: 1.2
    ramp_minutes: 4
    hold_minutes: 5
"""


def test_it_asks_for_headroom_where_traffic_grows() -> None:
    module = example("own_policy")
    width = len(domain_columns(module.DOMAINS))
    observation = np.zeros(module.DOMAINS * width + 40, np.float32)
    observation[2 * width + module.GROWTH] = 0.25
    action, _ = module.Cautious().predict(observation, deterministic=True)
    assert action.tolist() == [0, 0, 0.5, 0, 0, 0, 0, 0, 0, 0]


def test_the_benchmark_takes_it_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workers, "cores", lambda: 1)
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.delitem(sys.modules, "own_policy", raising=False)
    (tmp_path / "growing.yaml").write_text(SCENARIO)
    command = ["bench", "control", "--controllers", "heuristic:calendar,own_policy:cautious"]
    options = ["--scenarios", "growing.yaml", "--apps", "100", "--seeds", "0", "--json", "out.json"]
    assert main.run([*command, *options]) == 0
    rows = json.loads((tmp_path / "out.json").read_text())["rows"]
    controllers = {str(row["controller"]) for row in rows}
    assert controllers == {"heuristic:calendar", "own_policy:cautious"}
    # It is not the plain heuristic: it asks for headroom, so pods are added earlier.
    assert len({row["scaling_actions"] for row in rows}) == 2
