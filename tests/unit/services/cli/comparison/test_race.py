"""`hirl race` runs controllers in lock-step, as if each ran alone, and shows them side by side."""

import io
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from rich.console import Console

from models.compare.catalogue import enter
from models.compare.jobs import Job
from models.compare.race import Race
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import load_scenario
from models.sim.results.summary import summarise
from services.cli import main
from services.cli.comparison import race as command
from services.cli.comparison.race_view import LiveView, play
from services.cli.simulation.live import Pace

Capture = pytest.CaptureFixture[str]

SCENARIO = """
name: short
shows: Checkout traffic triples for three minutes & falls.
start: Mon 10:00
length_minutes: 8
warmup_minutes: 2
calendar:
  - {name: sale, domains: [payments], at_minute: 5, length_minutes: 3, expected_factor: 2}
events:
  - kind: traffic
    name: spike
    target: {domains: [payments]}
    at_minute: 2
    factor: 3.0
    hold_minutes: 3
"""
NAMES = ("hpa-calibrated", "practitioner", "heuristic:calendar")


class RaceOutput(NamedTuple):
    """What a race prints and writes."""

    text: str
    payload: dict[str, Any]
    html: str
    report: Path


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("race") / "short.yaml"
    file.write_text(SCENARIO)
    return file


@pytest.fixture(scope="module")
def output(scenario: Path) -> RaceOutput:
    folder, file, out = scenario.parent / "report", scenario.parent / "out.json", io.StringIO()
    arguments = ["--scenario", str(scenario), "--apps", "40", "--seed", "3"]
    # `capsys` is not available to a fixture of the module.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(command, "Console", lambda **options: Console(file=out, **options))
        code = main.run(["race", *arguments, "--json", str(file), "--report", str(folder)])
    assert code == 0
    report = folder / "race-short-3.html"
    return RaceOutput(out.getvalue(), json.loads(file.read_text()), report.read_text(), report)


def test_the_table_has_every_controller_and_its_ratio_to_the_first(output: RaceOutput) -> None:
    table = output.text[output.text.index("short, seed 3") :]
    assert all(name in table for name in NAMES)
    (line,) = (line for line in table.splitlines() if line.startswith(" node-hours"))
    first, *others = (row["node_hours"] for row in output.payload["rows"])
    expected = [f"{first:.1f}", *(f"{value:.1f} ({value / first:.2f})" for value in others)]
    assert line.split() == ["node-hours", *" ".join(expected).split()]
    assert f"report: {output.report}" in output.text


def test_without_a_terminal_each_controller_has_a_line_each_ten_minutes(output: RaceOutput) -> None:
    assert "compil" in output.text.splitlines()[0], "the first line does not explain the wait"
    for name in NAMES:
        (line,) = (
            line for line in output.text.splitlines() if line.startswith(f"Mon 10:08  {name}:")
        )
        assert re.search(r"P0 demand [\d,]+/s.* pods pending.* nodes .* J [\d,.]+$", line)


def test_lock_step_equals_separate_runs_bit_for_bit(output: RaceOutput, scenario: Path) -> None:
    cluster = with_apps(load_sim_cluster(), 40)
    for name, row in zip(NAMES, output.payload["rows"], strict=True):
        match = enter(name, cluster, load_scenario(scenario, cluster), [3])
        (alone,) = summarise(match.world, name, match.play())
        assert row == msgspec.json.decode(msgspec.json.encode(alone))
        assert output.payload["world_hashes"]["short"][name] == match.world.hash


def test_the_json_names_worlds_rows_failures_and_the_command(
    output: RaceOutput, scenario: Path
) -> None:
    payload = output.payload
    assert [row["controller"] for row in payload["rows"]] == list(NAMES)
    assert len(payload["world_hash"]) == 16
    assert payload["reference"] == NAMES[0]
    assert list(payload["failures"]) == list(NAMES)
    assert payload["command"] == (
        f"hirl race --scenario {scenario} --controllers {','.join(NAMES)} --seed 3 --apps 40"
    )


def test_the_report_is_self_contained_and_shows_every_controller(output: RaceOutput) -> None:
    assert all(f"<h3>{name}</h3>" in output.html for name in NAMES)
    assert all(output.html.count(name) > 3 for name in NAMES)
    assert "Checkout traffic triples for three minutes &amp; falls." in output.html
    assert output.payload["command"] in output.html
    assert not re.search(r"(src|href)=\"(?!#)|@import|url\((?!#)|<script|<link", output.html)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--controllers", "hpa,practitoner"],
            "controller: practitoner: did you mean practitioner? ",
        ),
        (["--controllers", "hpa,pid,hpa"], "controllers: hpa: expected each controller once"),
        (["--controllers", " , "], "controllers: expected at least one name, got ' , '"),
        (["--scenario", "clam"], "scenario: clam: did you mean calm? "),
        (["--seed", "-1"], "Invalid value for '--seed': Input should be greater than or equal"),
        (["--apps", "3"], "apps: expected at least 5, one per domain, got 3"),
    ],
)
def test_bad_input_is_refused_in_one_line_before_anything_is_built(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, arguments: list[str], expected: str
) -> None:
    # Calling it would fail: nothing may be built before the input is checked.
    monkeypatch.setattr(command, "_prepare", None)
    assert main.run(["race", *arguments]) == main.EXIT_BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"hirl: error: {expected}")


@pytest.mark.parametrize("names", [NAMES, (*NAMES, "hpa:0.6", "static@priority+preemption")])
def test_on_a_terminal_the_race_is_drawn_at_its_pace_and_nothing_is_cut(
    scenario: Path, names: tuple[str, ...]
) -> None:
    cluster = with_apps(load_sim_cluster(), 40)
    chosen = load_scenario(scenario, cluster)
    race = Race([Job(name, cluster, chosen, (3,), True, "", "") for name in names])
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=50)
    seconds = [0.0]

    def sleep(pause: float) -> None:
        seconds[0] += pause

    play(race, LiveView(console, race, Pace(0.02, lambda: seconds[0], sleep)))
    assert seconds[0] == pytest.approx(60 * 0.02)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "Mon 10:08 accounted" in text
    assert re.search(r"Mon 09:5\d warm-up", text)
    assert "P0 demand" in text
    assert all(f"{name}: " in text for name in names)
    assert "…" not in text, "the view is cut on an ordinary terminal"


def test_every_failure_is_reported_once_in_the_tick_it_begins(scenario: Path) -> None:
    cluster = with_apps(load_sim_cluster(), 40)
    chosen = load_scenario(scenario, cluster)
    race = Race([Job(name, cluster, chosen, (3,), True, "", "") for name in ("hpa", "static")])
    begun = []
    while not race.finished:
        begun += race.step()
    for lane in race.lanes:
        seen = [failure.finding.name for failure in begun if failure.controller == lane.name]
        assert sorted(seen) == sorted(finding.name for finding in lane.findings())
    assert begun, "a spike of three times the traffic caused no failure"


def test_counts_of_decisions_are_available_during_a_run(scenario: Path) -> None:
    cluster = with_apps(load_sim_cluster(), 40)
    match = enter("practitioner", cluster, load_scenario(scenario, cluster), [3])
    world, run = match.world, match.begin()
    counted = []
    while not run.finished:
        run.step()
        counted.append(int(run.decisions().missing_data_decreases[0]))
    assert world.tick == world.timeline.total_ticks == len(counted)
    assert counted == sorted(counted)
