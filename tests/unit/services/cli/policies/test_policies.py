"""`hirl bench policy` passes only what is better, `hirl train` says what it needs."""

import json
from pathlib import Path

import numpy as np
import pytest

from models.compare import workers
from models.policies.contract import SOLDIER_INPUTS
from models.policies.packing import version_in
from models.registry.evidence import read_evidence
from models.registry.load import Samples, write_samples
from models.registry.manifest import SAMPLES
from services.cli import main
from services.cli.policies import train
from tests.unit.models.policies.policy_files import write_soldier

Capture = pytest.CaptureFixture[str]
SCENARIO = """
name: quiet
shows: Nothing happens.
start: Mon 10:00
length_minutes: 4
warmup_minutes: 2
"""
OPTIONS = ["--apps", "30", "--seeds", "10-11", "--scenarios", "quiet.yaml", "--json", "out.json"]


@pytest.fixture(autouse=True)
def _temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workers, "cores", lambda: 1)
    (tmp_path / "quiet.yaml").write_text(SCENARIO)


def bench(*options: str) -> int:
    return main.run(["bench", "policy", "--forecast", "none", *options, *OPTIONS])


def test_a_policy_that_changes_nothing_has_the_figures_of_the_heuristic_and_does_not_pass() -> None:
    write_soldier(Path("same"), 1.0)
    assert bench("--soldier", "same") == 1
    found = json.loads(Path("out.json").read_text())
    assert not found["passes"]
    for row in found["gate"]:
        assert row["objective"]["value"] == row["p0_minutes"]["value"] == 0.0
    failed = {check["name"] for check in found["checks"] if not check["passed"]}
    assert {"objective", "equal cost"} <= failed


def test_the_evidence_is_what_the_gate_of_the_registry_reads() -> None:
    folder = write_soldier(Path("same"), 1.0)
    states = {
        port.name: np.zeros([1 if axis == "rows" else int(axis) for axis in port.shape], np.float32)
        for port in SOLDIER_INPUTS
    }
    samples = Samples(states, {})
    (folder / SAMPLES).write_bytes(write_samples(samples))
    assert bench("--soldier", "same", "--evidence", "evidence.json") == 1
    found = read_evidence(Path("evidence.json"))
    assert found.artefact == version_in(folder)
    assert found.objective is not None
    assert found.objective.scenarios == ["quiet"]
    assert found.budget_overruns == 0


def test_evidence_is_about_one_policy(capsys: Capture) -> None:
    both = ("--soldier", "a", "--commander", "b", "--evidence", "evidence.json")
    assert bench(*both) == main.EXIT_BAD_INPUT
    assert "judge them one by one" in capsys.readouterr().err


def test_without_a_policy_the_command_says_how_to_get_one(capsys: Capture) -> None:
    assert bench() == main.EXIT_BAD_INPUT
    assert "hirl train commander" in capsys.readouterr().err


def test_training_without_torch_names_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(train, "find_spec", lambda _name: None)
    assert main.run(["train", "commander"]) == main.EXIT_BAD_INPUT
    assert "make train-env" in capsys.readouterr().err
