"""`hirl bench control` runs each job once and gives the same figures on any number of cores."""

import csv
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import models
from models import jit
from models.compare import hashes, jobs, request, workers
from models.compare.catalogue import ENTRANTS, entrant_of
from models.compare.request import Options, parse_seeds, request_of
from models.sim.config.physics import Scheduling
from services.cli import main
from services.cli.comparison import control as command

Capture = pytest.CaptureFixture[str]
Bench = Callable[..., dict[str, Any]]

SCENARIO = """
name: {name}
shows: Checkout traffic triples for three minutes.
start: Mon 10:00
length_minutes: 8
warmup_minutes: 2
events:
  - kind: traffic
    name: spike
    target: {{domains: [payments]}}
    at_minute: 2
    factor: 3.0
    hold_minutes: 3
"""
OWN_ENTRANTS = """
from models.compare.catalogue import Entrant
from models.baselines.hpa.simulated import Hpa

def _at(target):
    def build(world):
        inventory = world.inventory
        return Hpa(inventory, world.layout.pools, world.cluster.tick_seconds, target=target)
    return build

eager = Entrant(_at(0.4))
"""
ROW = {
    *("scenario", "controller", "seed", "apps", "violation_minutes", "pw", "objective"),
    *("node_hours", "money", "scaling_actions", "pods_started", "reversals", "max_pending_pods"),
    *("need_to_ready_p95_s", "budget_overruns", "missing_data_decreases", "latency_p99_ms"),
    *("loops_per_day", "p3_share_while_p0_waits", "cpu_utilisation", "memory_utilisation"),
}


@pytest.fixture(autouse=True)
def _temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are stored below the working folder."""
    monkeypatch.chdir(tmp_path)
    # No pool of processes unless a test asks for one.
    monkeypatch.setattr(workers, "cores", lambda: 1)
    (tmp_path / "own_entrants.py").write_text(OWN_ENTRANTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    # Tests change this module, so each one has to import it again.
    monkeypatch.delitem(sys.modules, "own_entrants", raising=False)
    # Two targets instead of eight.
    monkeypatch.setattr(request, "FRONTIER", ("hpa:0.5", "hpa:0.75"))
    for name in ("spike", "spike-too"):
        (tmp_path / f"{name}.yaml").write_text(SCENARIO.format(name=name))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    def run(*arguments: str, controllers: str = "hpa,own_entrants:eager") -> dict[str, Any]:
        file = tmp_path / "out.json"
        given = ["--controllers", controllers, "--apps", "40", "--seeds", "0-2"]
        usual = ["--scenarios", "spike.yaml", "--json", str(file)]
        assert main.run(["bench", "control", *given, *usual, *arguments]) == 0
        payload: dict[str, Any] = json.loads(file.read_text())
        return payload

    return run


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Labels of the jobs that really ran."""
    labels: list[str] = []

    def play(job: jobs.Job) -> jobs.Finished:
        labels.append(job.label)
        return jobs.play(job)

    monkeypatch.setattr(workers, "play", play)
    return labels


def test_the_json_has_a_row_per_scenario_controller_and_seed(bench: Bench) -> None:
    payload = bench("--scenarios", "spike.yaml,spike-too.yaml")
    rows = payload["rows"]
    assert [(row["scenario"], row["controller"], row["seed"]) for row in rows] == [
        (scenario, controller, seed)
        for scenario in ("spike", "spike-too")
        for controller in ("hpa", "own_entrants:eager")
        for seed in range(3)
    ]
    assert all(set(row) >= ROW for row in rows)
    assert set(rows[0]["violation_minutes"]) == {"P0", "P1", "P2", "P3"}
    assert len(payload["world_hash"]) == 16
    assert set(payload["world_hashes"]) == {"spike", "spike-too"}
    assert payload["reference"] == "hpa"
    names = {(row["scenario"], row["controller"]) for row in payload["standings"]}
    assert ("all scenarios", "own_entrants:eager") in names


def test_ratios_are_of_the_rows_of_the_same_seeds(bench: Bench) -> None:
    payload = bench()
    hours = {
        name: sum(row["node_hours"] for row in payload["rows"] if row["controller"] == name)
        for name in ("hpa", "own_entrants:eager")
    }
    (_, eager) = payload["standings"]
    expected = hours["own_entrants:eager"] / hours["hpa"]
    assert eager["node_hours_ratio"]["value"] == pytest.approx(expected)
    assert eager["node_hours_ratio"]["low"] <= expected <= eager["node_hours_ratio"]["high"]


def test_an_interrupt_before_the_first_job_says_that_a_rerun_resumes(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(workers, "try_out", interrupted)
    arguments = ["--controllers", "hpa", "--apps", "40", "--scenarios", "spike.yaml"]
    assert main.run(["bench", "control", *arguments]) == main.EXIT_INTERRUPTED
    assert "run again to resume" in capsys.readouterr().out


def test_stored_jobs_are_not_run_again(bench: Bench, played: list[str], capsys: Capture) -> None:
    first = bench()
    assert len(played) == 2
    capsys.readouterr()
    second = bench()
    assert len(played) == 2
    assert "2 of 2 jobs are stored in" in capsys.readouterr().out
    assert second["rows"] == first["rows"]
    bench("--fresh")
    assert len(played) == 4


def test_an_interrupted_run_resumes_with_the_missing_jobs(bench: Bench, played: list[str]) -> None:
    bench(controllers="hpa")
    bench()
    assert [label.split(",")[0] for label in played] == ["hpa", "own_entrants:eager"]


def test_a_changed_world_or_changed_code_reruns_its_jobs(
    bench: Bench, played: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = bench()
    text = (tmp_path / "spike.yaml").read_text()
    (tmp_path / "spike.yaml").write_text(text.replace("factor: 3.0", "factor: 2.5"))
    after = bench()
    assert len(played) == 4
    assert after["world_hash"] != before["world_hash"]
    monkeypatch.setattr(command, "code_hashes", lambda names: dict.fromkeys(names, "other"))
    bench()
    assert len(played) == 6


def test_the_code_hash_covers_the_module_of_a_users_entrant(tmp_path: Path) -> None:
    name = "own_entrants:eager"
    before = hashes.code_hashes(["hpa", name, f"{name}@priority", "hpa:0.6"])
    assert before[name] == before[f"{name}@priority"] != before["hpa"] == before["hpa:0.6"]
    (tmp_path / "own_entrants.py").write_text(OWN_ENTRANTS.replace("0.4", "0.3"))
    after = hashes.code_hashes(["hpa", name])
    assert after["hpa"] == before["hpa"]
    assert after[name] != before[name]


@pytest.mark.parametrize("package", ["control", "sim"])
def test_every_file_that_decides_simulates_or_scores_is_in_a_hash(package: str) -> None:
    root = Path(models.__file__).parent
    of_world = set(jit.sources(root / "sim" / "world.py"))
    of_code = set(hashes.deciding_files())
    assert of_world.isdisjoint(of_code)
    assert set((root / package).rglob("*.py")) <= of_world | of_code


def test_a_job_with_a_truncated_file_is_run_again(
    bench: Bench, played: list[str], tmp_path: Path
) -> None:
    bench()
    truncated = next((tmp_path / ".hirl" / "bench-control").iterdir())
    truncated.write_bytes(truncated.read_bytes()[:100])
    bench()
    assert len(played) == 3


def test_several_processes_give_the_same_figures_bit_for_bit(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    serial = bench("--seeds", "0-5")
    monkeypatch.setattr(workers, "cores", lambda: 2)
    parallel = bench("--seeds", "0-5", "--fresh")
    assert parallel["rows"] == serial["rows"]
    assert parallel["standings"] == serial["standings"]


def test_a_seed_does_not_depend_on_the_seeds_beside_it(bench: Bench) -> None:
    alone = bench("--seeds", "2")
    assert [row for row in bench()["rows"] if row["seed"] == 2] == alone["rows"]


def test_an_entrant_on_another_scheduler_has_another_world_hash(bench: Bench) -> None:
    payload = bench(controllers="hpa,hpa@priority,hpa@fifo")
    by = payload["world_hashes"]["spike"]
    assert by["hpa"] == by["hpa@fifo"] != by["hpa@priority"]
    assert entrant_of("hpa@priority+preemption").scheduling == Scheduling(
        "priority", preemption=True
    )


def test_the_frontier_runs_beside_the_controllers(bench: Bench) -> None:
    payload = bench("--frontier", "--seeds", "0")
    assert [point["controller"] for point in payload["frontier"]] == ["hpa:0.5", "hpa:0.75"]
    assert {row["controller"] for row in payload["standings"]} == {"hpa", "own_entrants:eager"}
    hpa = payload["standings"][0]
    at_equal_cost = [p for p in payload["frontier"] if p["node_hours"] == hpa["node_hours"]]
    best = min(point["p0_minutes"] for point in at_equal_cost)
    assert hpa["hpa_p0_at_equal_node_hours"] == pytest.approx(best)


def test_the_csv_has_the_same_rows(bench: Bench, tmp_path: Path) -> None:
    rows = bench("--csv", str(tmp_path / "out.csv"))["rows"]
    with (tmp_path / "out.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [float(line["violation_minutes_P0"]) for line in lines] == [
        row["violation_minutes"]["P0"] for row in rows
    ]
    assert [line["controller"] for line in lines] == [row["controller"] for row in rows]


def test_the_report_explains_every_plot_and_is_self_contained(
    bench: Bench, tmp_path: Path, capsys: Capture
) -> None:
    payload = bench("--report", str(tmp_path / "report"), "--frontier", "--seeds", "0,1")
    report = tmp_path / "report" / "control.html"
    assert f"report: {report}" in capsys.readouterr().out
    html = report.read_text()
    for title in (
        "One spike, side by side",
        "Who violates, by priority",
        "Nodes against violations",
        "Oscillation",
        "Who held capacity while P0 waited",
        "Is J no worse?",
        "Scenario by scenario",
    ):
        assert f"<h2>{title}</h2>" in html
    assert html.count("<svg") == 5
    assert payload["world_hash"] in html
    assert "--controllers hpa,own_entrants:eager" in html
    assert not re.search(r"(src|href)=\"(?!#)|@import|url\((?!#)|<script|<link", html)
    identifiers = re.findall(r"\bid=\"([^\"]+)\"", html)
    assert len(set(identifiers)) == len(identifiers), "two plots share an id"


def test_a_chosen_reference_also_runs(bench: Bench) -> None:
    payload = bench("--against", "hpa:0.6")
    assert payload["reference"] == "hpa:0.6"
    assert payload["standings"][-1]["p0_ratio"]["value"] == 1


def test_a_quick_run_lists_what_it_leaves_out() -> None:
    quick = request_of(Options(quick=True))
    assert (quick.seeds, quick.cluster.apps, quick.frontier) == ((10, 11, 12), 310, ())
    assert quick.reduced[0] == "seeds 10-12 instead of 10-19"
    assert not request_of(Options(quick=True, seeds="0-9")).reduced[0].startswith("seeds")
    full = request_of(Options())
    assert (len(full.seeds), len(full.frontier), full.reduced) == (10, 2, ())
    assert full.controllers == tuple(ENTRANTS)


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("0-3", (0, 1, 2, 3)), ("3", (3,)), ("5,0,2", (0, 2, 5)), ("0-2, 1-3", (0, 1, 2, 3))],
)
def test_seed_lists_and_ranges_are_parsed(text: str, seeds: tuple[int, ...]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--controllers", "hpaa"], "controller: hpaa: did you mean hpa? "),
        (["--controllers", "hpa@lifo"], "controller: hpa@lifo: expected one of fifo, priority"),
        (["--controllers", "hpa:0.05"], "controller: hpa:0.05: expected a target from 0.1"),
        (["--controllers", ","], "controllers: expected at least one name, got ','"),
        (["--against", "hpaa"], "controller: hpaa: did you mean hpa? "),
        (["--scenarios", "clam"], "scenario: clam: did you mean calm? "),
        (["--scenarios", "calm,./spike.yaml,spike.yaml"], "another scenario is called spike too"),
        (["--seeds", "9-0"], "seeds: 9-0: expected the lower seed first"),
        (["--seeds", "a-b"], "seeds: expected a list such as 0-9, 3 or 0,2,5, got 'a-b'"),
        (["--seeds", "-1"], "seeds: expected a list such as 0-9, 3 or 0,2,5, got '-1'"),
        (["--seeds", "0-99999"], "seeds: 0-99999: expected at most 1,000 seeds"),
        (["--apps", "4"], "apps: expected at least 5, one per domain, got 4"),
        (["--json", "spike.yaml/out.json"], "cannot be written (spike.yaml is not a folder)"),
        (["--csv", "."], "cannot be written (is a folder)"),
        (["--report", "spike.yaml"], "cannot be written (spike.yaml is not a folder)"),
    ],
)
def test_bad_input_is_refused_in_one_line_before_anything_runs(
    capsys: Capture, played: list[str], arguments: list[str], expected: str
) -> None:
    assert main.run(["bench", "control", *arguments]) == main.EXIT_BAD_INPUT
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert expected in line
    assert captured.out == ""
    assert played == []


def test_another_cluster_is_simulated(bench: Bench, tmp_path: Path) -> None:
    out = tmp_path / "other"
    assert main.run(["world", "generate", "--domains", "3", "--out", str(out)]) == 0
    files = ["--cluster", str(out / "cluster.yaml"), "--physics", str(out / "physics.yaml")]
    short = tmp_path / "short.yaml"
    text = SCENARIO.format(name="short").replace("domains: [payments]", "domains: [domain-0]")
    short.write_text(text)
    payload = bench(*files, "--scenarios", "short.yaml", "--seeds", "0", controllers="hpa")
    assert [row["apps"] for row in payload["rows"]] == [40]
    assert f"--cluster {out / 'cluster.yaml'}" in payload["command"]
