"""`hirl blame` names the part, and its shares add up."""

import json
from pathlib import Path

import pytest

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
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spike.yaml").write_text(SCENARIO)


def blamed(*options: str) -> int:
    return main.run(["blame", "--scenario", "spike.yaml", "--apps", "120", *options])


def test_the_shares_sum_to_one_and_the_part_is_named(capsys: Capture) -> None:
    assert blamed("--seeds", "10-11", "--json", "out.json") == 0
    found = json.loads(Path("out.json").read_text())
    shares = found["blame"]["shares"]
    assert sum(one["share"]["value"] for one in shares) == pytest.approx(1.0)
    assert found["command"].startswith("hirl blame --scenario spike.yaml")
    assert f"due to the {found['blame']['named']}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--from", "5", "--to", "5"), "minutes 5 to 5: expected a part of the 8 minutes"),
        (("--domains", "paymnts"), "domain: paymnts: expected one of payments"),
        (("--controller", "hpa"), "expected the heuristic, with a policy or without one"),
    ],
)
def test_what_cannot_be_blamed_is_said_in_one_line(
    options: tuple[str, ...], message: str, capsys: Capture
) -> None:
    assert blamed("--seeds", "10", *options) == main.EXIT_BAD_INPUT
    assert message in capsys.readouterr().err
