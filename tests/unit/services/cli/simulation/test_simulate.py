"""`hirl simulate` runs a scenario, reports its figures and refuses bad input."""

import io
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from models.baselines.hpa.simulated import hpa_of
from models.compare.run import run
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import load_scenario
from models.sim.results.recording import Recorder
from models.sim.world import World
from services.cli import main
from services.cli.simulation import live

Capture = pytest.CaptureFixture[str]

SCENARIO = """
name: short
shows: A spike that lasts three minutes & ends.
start: Mon 10:00
length_minutes: 10
warmup_minutes: 2
calendar:
  - {name: sale, domains: [payments], at_minute: 5, length_minutes: 3, expected_factor: 2}
events:
  - kind: traffic
    name: spike
    target: {domains: [payments]}
    at_minute: 3
    factor: 2.0
    hold_minutes: 3
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = tmp_path / "short.yaml"
    file.write_text(SCENARIO)
    return file


def refused(capsys: Capture, *arguments: str) -> str:
    """The one line on stderr of a command that must fail with code 2."""
    assert main.run(["simulate", *arguments]) == main.EXIT_BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    return line.removeprefix("hirl: error: ")


def test_a_run_ends_with_its_figures_as_text_and_json(
    capsys: Capture, scenario: Path, tmp_path: Path
) -> None:
    file = tmp_path / "out.json"
    arguments = ["--scenario", str(scenario), "--apps", "40", "--seed", "3", "--json", str(file)]
    assert main.run(["simulate", *arguments]) == 0
    text = capsys.readouterr().out
    assert "short under hpa, 40 apps, seed 3: A spike" in text
    assert "Mon 10:08  payments" in text
    assert "J = PW + node-hours" in text
    payload = json.loads(file.read_text())
    (row,) = payload["rows"]
    assert (row["scenario"], row["controller"], row["seed"], row["apps"]) == ("short", "hpa", 3, 40)
    assert set(row["violation_minutes"]) == {"P0", "P1", "P2", "P3"}
    assert row["node_hours"] > 0
    assert payload["world_hash"] in text


def test_the_report_is_self_contained(capsys: Capture, scenario: Path, tmp_path: Path) -> None:
    folder = tmp_path / "report"
    arguments = ["--scenario", str(scenario), "--apps", "40", "--report", str(folder)]
    assert main.run(["simulate", *arguments]) == 0
    report = folder / "short-hpa-0.html"
    assert f"report: {report}" in capsys.readouterr().out
    html = report.read_text()
    assert "A spike that lasts three minutes &amp; ends." in html
    assert f"hirl simulate --scenario {scenario} --controller hpa --seed 0 --apps 40" in html
    assert html.count("<svg") == 2
    assert not re.search(r"(src|href)=\"(?!#)|@import|url\((?!#)|<script|<link", html)
    identifiers = re.findall(r"\bid=\"([^\"]+)\"", html)
    assert len(set(identifiers)) == len(identifiers), "two plots share an id"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--scenario", "calm", "--controller", "hpaa"], "controller: hpaa: did you mean hpa? "),
        (["--scenario", "clam"], "scenario: clam: did you mean calm? "),
        (
            ["--scenario", "calm", "--seed", "-1"],
            "Invalid value for '--seed': Input should be greater than or equal to 0",
        ),
        (["--scenario", "calm", "--apps", "3"], "apps: expected at least 5, one per domain, got 3"),
        (["--scenario", "none.yaml"], "none.yaml: cannot be read"),
        ([], "Missing option '--scenario'"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    capsys: Capture, arguments: list[str], expected: str
) -> None:
    assert expected in refused(capsys, *arguments)


def test_on_a_terminal_the_run_is_drawn_at_its_pace(scenario: Path) -> None:
    cluster = with_apps(load_sim_cluster(), 40)
    world = World(cluster, load_scenario(scenario, cluster), [0])
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=40)
    seconds, recorder = [0.0], Recorder(world)

    def sleep(pause: float) -> None:
        seconds[0] += pause

    def on_tick(world: World) -> None:
        recorder(world)
        view.show(recorder.recording, world.tick - 1, [])

    with live.LiveView(console, world, "hpa", 0.02, lambda: seconds[0], sleep) as view:
        run(world, hpa_of(world), on_tick=on_tick)
    assert seconds[0] == pytest.approx(72 * 0.02)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "Mon 10:10 accounted" in text
    assert "…" not in text, "the view is cut on an ordinary terminal"


def test_a_sparkline_is_scaled_to_its_highest_value() -> None:
    values = np.linspace(0, 7, 8)
    assert live.sparkline(values, 1) == "▁▂▃▄▅▆▇█"
    assert live.sparkline(values, 4) == "▄█"


def test_large_numbers_of_a_run_are_not_cut_at_80_columns() -> None:
    names = ("payments-core", "recommendations")
    domains = [SimpleNamespace(name=name, priority="P0") for name in names]
    pools = ("general", "memory-heavy", "accelerated", "spot-general")
    cluster = SimpleNamespace(domains=domains, pool_names=pools)
    world: Any = SimpleNamespace(cluster=cluster, timeline=SimpleNamespace(ticks=lambda _: 6.0))
    row, nodes = np.ones((80, 2)), np.full((80, 4), 12_345)
    recording: Any = SimpleNamespace(
        rps=5_851_234 * row, p99_over_target=123.45 * row, violating=row,
        ready=np.full((80, 2), 45_123), pending=np.full((80, 2), 12_345),
        nodes_ready=nodes, nodes_booting=nodes, nodes_asked=nodes,
    )  # fmt: skip
    console = Console(file=io.StringIO(), width=80)
    console.print(live.domain_table(world, recording, 79), live.pool_table(world, recording, 79))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "…" not in text
    for number in ("5.9M", "123.45", "100.0%", "45,123", "12,345"):
        assert number in text
