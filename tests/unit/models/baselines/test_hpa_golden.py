"""Our HPA against recorded answers of the Kubernetes controller, and `hirl hpa golden`."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from models.baselines.hpa.golden import check
from services.cli.comparison.hpa import case_files, read_cases
from services.cli.main import run

RECORDED = Path(__file__).parents[5] / "shared" / "reference" / "hpa-golden"

POD = {
    "name": "p0", "phase": "Running", "deletion_timestamp_set": False, "ready_condition": "True",
    "ready_transition_age_s": 1000, "start_age_s": 1010.5, "request_millis": 1000,
    "usage_millis": 800, "metric_age_s": 20, "metric_window_s": 30,
}  # fmt: skip
CALL: dict[str, Any] = {
    "id": "call", "function": "resource_utilization", "resource": "cpu", "current_replicas": 1,
    "target_utilization_pct": 50, "target_average_value_millis": None, "tolerance_up": 0.1,
    "tolerance_down": 0.1, "cpu_initialization_period_s": 300,
    "delay_of_initial_readiness_status_s": 30, "pods": [POD], "metrics_without_pod": [],
    "expected": {"error": False, "replicas": 2, "utilization_pct": 80, "average_value_millis": 800},
}  # fmt: skip
SEQUENCE: dict[str, Any] = {
    "id": "sequence", "min_replicas": 1, "max_replicas": 9, "initial_replicas": 1,
    "behavior": {"scale_up": None, "scale_down": None}, "downscale_stabilization_window_s": 300,
    "scale_to_zero_enabled": False, "update_latency_millis": 0,
    "overrides": [{"step": 2, "replicas": 2}], "time_millis": [0, 15000, 30000],
    "raw_desired": [20, None, 2], "current": [1, 5, 2], "final": [5, 5, 2], "rescaled": [1, 0, 0],
}  # fmt: skip
WRONG = {**CALL, "id": "wrong", "expected": {**CALL["expected"], "replicas": 3}}
WRONG_TICK = {**SEQUENCE, "id": "wrong-tick", "final": [5, 5, 4], "rescaled": [1, 0, 1]}


def write(folder: Path, *cases: dict[str, Any], name: str = "cases.jsonl.gz") -> Path:
    text = "\n".join(map(json.dumps, cases)).encode()
    (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return folder


@pytest.mark.skipif(not RECORDED.is_dir(), reason="no recorded answers in ../shared")
def test_our_hpa_reproduces_every_recorded_answer() -> None:
    cases = [case for file in case_files(RECORDED) for case in read_cases(file)]
    verdicts = [check(case) for case in cases]
    assert [verdict for verdict in verdicts if not verdict.passed] == []
    assert len(verdicts) > 5000


def test_plain_and_compressed_files_of_both_case_kinds_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, CALL, SEQUENCE)
    write(tmp_path, CALL, name="more.jsonl")
    assert run(["hpa", "golden", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "3 passed, 0 failed"


def test_failures_are_shown_and_fail_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tmp_path / "out" / "figures.json"
    write(tmp_path, CALL, WRONG, WRONG_TICK)
    assert run(["hpa", "golden", str(tmp_path), "--json", str(figures)]) == 1
    text = capsys.readouterr().out
    assert text.splitlines()[-1] == "1 passed, 2 failed"
    assert (
        "wrong: expected 3 replicas, 80 %, 800 millis a pod; "
        "got 2 replicas, 80 %, 800 millis a pod" in text
    )
    assert "wrong-tick: expected tick 2 at 30000 ms: 2 to 4, rescaled; got tick 2" in text
    found = json.loads(figures.read_bytes())
    assert (found["passed"], found["failed"]) == (1, 2)
    assert [failure["id"] for failure in found["failures"]] == ["wrong", "wrong-tick"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not a valid case: Input data was truncated"),
        (
            '{"id": 1, "function": "x"}',
            "line 2: not a valid case: Expected `str`",
        ),
        ('{"id": "a"}', "line 2: not a valid case: Object missing required"),
        (
            json.dumps({**SEQUENCE, "final": [1]}),
            "line 2: not a valid case: expected lists of one length",
        ),
        (json.dumps({**CALL, "target_utilization_pct": None}), "expected the target of the"),
        (json.dumps({**SEQUENCE, "overrides": [{"step": 9, "replicas": 1}]}), "at steps of"),
    ],
)
def test_an_invalid_case_is_reported_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(f"{json.dumps(CALL)}\n{line}\n", encoding="utf-8")
    assert run(["hpa", "golden", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"hirl: error: {file}: line 2: not a valid case: ")
    assert message in error
    assert error.count("\n") == 1


def test_folders_without_readable_cases_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["hpa", "golden", str(tmp_path / "none")]) == 2
    assert "none: expected a folder with case files" in capsys.readouterr().err
    assert run(["hpa", "golden", str(tmp_path)]) == 2
    assert "has no case files, expected *.jsonl or *.jsonl.gz" in capsys.readouterr().err
    (tmp_path / "broken.jsonl.gz").write_bytes(b"no gzip")
    assert run(["hpa", "golden", str(tmp_path)]) == 2
    assert "broken.jsonl.gz: cannot be read" in capsys.readouterr().err
