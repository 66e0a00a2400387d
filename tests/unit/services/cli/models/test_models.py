"""`hirl models` on files: keys, a store, checks and the gate; refusals are one line each."""

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from models.compare.families import HEURISTIC, family_of
from models.compare.provenance import family_code
from models.forecaster.learned.artefact import SHIPPED, SHIPPED_VERSION
from models.inputs.errors import InputError
from models.policies import contract
from models.registry.evidence import Cost, Evidence, Runs
from models.registry.gate import Limits
from models.registry.keys import Trust
from models.registry.load import Samples, verified, write_samples
from models.registry.manifest import MANIFEST, MODEL, SAMPLES, read_manifest
from models.registry.session import Session
from services.cli.main import EXIT_BAD_INPUT, run
from services.cli.models.gate import check_passes
from services.cli.models.options import Place
from tests.planted_models import (
    commander_files,
    commander_network,
    files_of,
    linear_policy,
    manifest_of,
    samples_of,
    soldier_files,
    soldier_network,
)

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a key and a store, which the environment names."""
    monkeypatch.setenv("HIRL_MODEL_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("HIRL_MODEL_KEYS", str(tmp_path / "release.key.pub"))
    assert run(["models", "keygen", str(tmp_path / "release.key")]) == 0
    return tmp_path


def planted(folder: Path, headroom: float = 1.0) -> Path:
    """A trained policy, not signed."""
    network = linear_policy(headroom, headroom)
    files = files_of(network, manifest_of(network), key=None, extra=samples_of(headroom))
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def added(place: Path, headroom: float = 1.0) -> str:
    folder = planted(place / f"model-{headroom}", headroom)
    assert run(["models", "add", str(folder), "--key", str(place / "release.key")]) == 0
    return read_manifest((folder / MANIFEST).read_bytes(), "x").version


def refused(capsys: Capture, *arguments: str) -> str:
    capsys.readouterr()
    assert run(list(arguments)) == EXIT_BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_a_model_is_added_listed_shown_and_verified(place: Path, capsys: Capture) -> None:
    version = added(place, 1.25)
    assert run(["models", "list", "--json", str(place / "list.json")]) == 0
    (entry,) = json.loads((place / "list.json").read_text())
    assert (entry["version"], entry["kind"]) == (version, "commander-policy")
    capsys.readouterr()
    assert run(["models", "verify", version[:12]]) == 0
    assert "is in order" in capsys.readouterr().out
    assert run(["models", "show", version[:6], "--json", str(place / "show.json")]) == 0
    shown: dict[str, Any] = json.loads((place / "show.json").read_text())
    assert shown["version"] == version
    assert shown["signed_by"] == entry["signed_by"]


def test_the_shipped_forecaster_is_an_artefact_like_any_other(place: Path, capsys: Capture) -> None:
    folder = shutil.copytree(SHIPPED, place / "copy")
    assert "is not signed" in refused(capsys, "models", "verify", str(folder))
    assert run(["models", "add", str(folder), "--key", str(place / "release.key")]) == 0
    assert run(["models", "verify", SHIPPED_VERSION[:12]]) == 0


def test_what_a_service_would_refuse_is_listed_with_its_reason(place: Path) -> None:
    version = added(place)
    network = place / "store" / "commander-policy" / version / MODEL
    network.write_bytes(network.read_bytes()[:-5])
    assert run(["models", "list", "--json", str(place / "list.json")]) == 0
    (entry,) = json.loads((place / "list.json").read_text())
    assert "was changed or truncated" in entry["problem"]


def test_a_model_that_differs_from_its_samples_is_not_in_order(
    place: Path, capsys: Capture
) -> None:
    network = linear_policy(1.0, 1.0)
    folder = place / "wrong"
    folder.mkdir()
    files = files_of(network, manifest_of(network), key=None, extra=samples_of(1.1))
    for name, data in files.items():
        (folder / name).write_bytes(data)
    assert run(["models", "add", str(folder), "--key", str(place / "release.key")]) == 0
    version = read_manifest(files[MANIFEST], "x").version
    assert "differs from its samples" in refused(capsys, "models", "verify", version[:12])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["models", "verify", "nothing"], "is neither a folder nor"),
        (["models", "verify", "0" * 12], "no versions"),
        (["models", "verify", "../../no/such"], "is neither a folder nor"),
        (["models", "keygen", "{place}/release.key"], "exists already"),
        (["models", "promote", "0" * 12, "--reason", "x"], "no versions"),
        (["models", "rollback", "breaker", "--reason", "x"], "expected one of forecaster"),
        (["models", "evaluate", "{place}/missing"], "is neither a folder nor"),
        (["models", "rules", "soldier", "gate.drift=2", "--reason", "x"], "<= 1"),
        (["models", "rules", "soldier", "drift=2", "--reason", "x"], "expected NAME=VALUE"),
    ],
)
def test_mistakes_are_one_line(
    place: Path, capsys: Capture, arguments: list[str], complaint: str
) -> None:
    given = [one.replace("{place}", str(place)) for one in arguments]
    assert complaint in refused(capsys, *given)


def test_the_gate_refuses_what_nobody_measured_and_writes_why(place: Path, capsys: Capture) -> None:
    version = added(place)
    report = place / "gate"
    assert run(["models", "evaluate", version[:12], "--report", str(report)]) == 1
    out = capsys.readouterr().out
    assert "refused: p0: no evidence" in out
    verdict = json.loads((report / "gate.json").read_text())
    assert verdict["accepted"] is False
    passed = {check["name"] for check in verdict["checks"] if check["passed"]}
    # Measured from the artefact itself; ten samples are too few.
    assert "decision time" in passed
    assert "parity" not in passed
    assert "Refused" in (report / "gate.html").read_text()
    found = Place(str(place / "store"), None).artefact(version)
    with pytest.raises(InputError, match="the gate refuses it: subject: no evidence"):
        check_passes(found, None, Limits(), None, equal_ok=False)


def test_evidence_of_another_form_is_refused_in_one_line(place: Path, capsys: Capture) -> None:
    version = added(place)
    (place / "evidence.json").write_text('{"parity": "small"}')
    options = ("--evidence", str(place / "evidence.json"))
    assert "parity" in refused(capsys, "models", "evaluate", version[:12], *options)


def test_a_model_that_fails_on_its_own_samples_is_refused_in_one_line(
    place: Path, capsys: Capture
) -> None:
    network = linear_policy(float("1e30"), 1.0)
    folder = place / "broken"
    folder.mkdir()
    files = files_of(network, manifest_of(network), key=None, extra=samples_of(1.0))
    for name, data in files.items():
        (folder / name).write_bytes(data)
    assert run(["models", "add", str(folder), "--key", str(place / "release.key")]) == 0
    version = read_manifest(files[MANIFEST], "x").version
    line = refused(capsys, "models", "evaluate", version[:12])
    assert "its own samples: headroom: 1e+30 is above" in line


def test_evidence_about_another_artefact_promotes_nothing(place: Path) -> None:
    measured, other = added(place, 1.0), added(place, 1.1)
    (place / "evidence.json").write_text(json.dumps({"artefact": measured}))
    options = ("--evidence", str(place / "evidence.json"), "--json", str(place / "verdict.json"))
    for version, passed in ((measured, True), (other, False)):
        assert run(["models", "evaluate", version[:12], *options]) == 1
        checks = json.loads((place / "verdict.json").read_text())["checks"]
        assert {one["name"]: one["passed"] for one in checks}["subject"] is passed


def test_a_claim_to_parity_is_no_measurement_where_there_are_no_samples(place: Path) -> None:
    files = commander_files(commander_network(), None)
    (place / "model").mkdir()
    for name, data in files.items():
        (place / "model" / name).write_bytes(data)
    assert run(["models", "add", str(place / "model"), "--key", str(place / "release.key")]) == 0
    version = read_manifest(files[MANIFEST], "x").version
    claims = {"artefact": version, "parity": 0.0, "states": 1000, "decision_ms": 0.1}
    (place / "evidence.json").write_text(json.dumps(claims))
    options = ("--evidence", str(place / "evidence.json"), "--json", str(place / "verdict.json"))
    assert run(["models", "evaluate", version[:12], *options]) == 1
    checks = json.loads((place / "verdict.json").read_text())["checks"]
    passed = {one["name"] for one in checks if one["passed"]}
    assert "subject" in passed
    assert passed.isdisjoint({"parity", "decision time"})


SCENARIOS = ["calm", "sale", "cascade"]
BASE = np.random.default_rng(0).uniform(900, 1100, (3, 10))
MINUTES = np.random.default_rng(1).uniform(18, 22, (3, 10))
BETTER = 0.9 * np.random.default_rng(2).normal(1.0, 0.01, BASE.shape)
VERDICTS: dict[str, tuple[Any, Any, list[str], str]] = {
    "better but worse for P0 in one scenario": (
        BETTER, [[0.5], [1.3], [0.5]], [], "P0 must not get worse in sale",
    ),
    "equal within noise": (BETTER / 0.9, 1.0, [], "not known to be better"),
    "equal, and equal will do": (BETTER / 0.9, 1.0, ["--equal-ok"], ""),
    "better everywhere": (BETTER, 0.8, [], ""),
}  # fmt: skip


def answered(files: dict[str, bytes]) -> dict[str, bytes]:
    """A hundred states, with the answers that the network gives."""
    random, sizes = np.random.default_rng(0), {"rows": 100, "domains": 5, "pools": 3}
    states = {
        one.name: random.uniform(
            -1, 1, [sizes[n] if isinstance(n, str) else n for n in one.shape]
        ).astype(np.float32)
        for one in contract.INPUTS
    }
    artefact = verified(files, Trust(unsigned=True), "planted")
    return {SAMPLES: write_samples(Samples(states, Session(artefact).run(states)))}


@pytest.mark.parametrize("case", VERDICTS)
def test_the_gate_judges_planted_models_by_their_evidence(
    place: Path, capsys: Capture, case: str
) -> None:
    objective, p0, options, reason = VERDICTS[case]
    network = commander_network(headroom=0.99)
    files = commander_files(network, None)
    files = commander_files(network, None, answered(files))
    (place / "model").mkdir()
    for name, data in files.items():
        (place / "model" / name).write_bytes(data)
    assert run(["models", "add", str(place / "model"), "--key", str(place / "release.key")]) == 0
    version = read_manifest(files[MANIFEST], "x").version
    ours, theirs = (BASE * objective).tolist(), BASE.tolist()
    runs = Runs(scenarios=SCENARIOS, candidate=ours, incumbent=theirs)
    minutes = (MINUTES * np.array(p0)).tolist()
    found = Evidence(
        artefact=version, world_sha256="w", code_sha256=family_code(family_of(HEURISTIC)),
        drift={"domain.rps": 0.01}, objective=runs, equal_cost=runs,
        p0_minutes=Runs(scenarios=SCENARIOS, candidate=minutes, incumbent=MINUTES.tolist()),
        budget_overruns=0, spend_overruns=0, oscillation=0.01,
        cost=Cost(trajectories=[0.5, 0.51] * 20, cap=1.0, epsilon=0.02),
    )  # fmt: skip
    (place / "evidence.json").write_bytes(msgspec.json.encode(found))
    capsys.readouterr()
    arguments = ["--evidence", str(place / "evidence.json"), *options]
    code = run(["models", "evaluate", version[:12], *arguments])
    out = capsys.readouterr().out
    refusals = [line for line in out.splitlines() if line.startswith("refused")]
    if reason:
        assert code == 1
        assert any(reason in line for line in refusals)
    else:
        assert refusals == []
        assert code == 0
        assert "may be promoted" in out


@pytest.mark.parametrize("kind", ["commander", "soldier"])
def test_answers_of_a_policy_are_timed(
    place: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    # A person may open what nobody signed.
    monkeypatch.delenv("HIRL_MODEL_KEYS")

    files = (
        commander_files(commander_network(), None)
        if kind == "commander"
        else soldier_files(soldier_network(), None)
    )
    (place / kind).mkdir()
    for name, data in files.items():
        (place / kind / name).write_bytes(data)
    options = ["--calls", "100", "--domains", "12", "--json", str(place / "time.json")]
    assert run(["models", "time", str(place / kind), *options]) == 0
    found = json.loads((place / "time.json").read_text())
    assert 0 < found["p50_ms"] <= found["p99_ms"]


def test_a_forecaster_is_not_timed_as_a_policy(capsys: Capture) -> None:
    assert "is no policy" in refused(capsys, "models", "time", str(SHIPPED))
