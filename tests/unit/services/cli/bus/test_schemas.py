"""`hirl schemas` generates, checks and releases the contracts."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from models.inputs.errors import InputError
from schemas import generate
from services.cli.bus import schemas
from services.cli.main import app_of
from services.measure.codec import frame

BUDGET = "hirl.budget-granted.v1.json"


def run(*arguments: str) -> tuple[int, list[str], BaseException | None]:
    result = CliRunner().invoke(
        app_of(lambda name: name.startswith("schemas")), ["schemas", *arguments]
    )
    error = result.exception if isinstance(result.exception, InputError) else None
    return result.exit_code, result.output.splitlines(), error


def test_generate_writes_outdated_files_and_check_only_reports_them(tmp_path: Path) -> None:
    folder = ["--folder", str(tmp_path)]
    assert len(run("generate", *folder)[1]) == len(generate.files())
    assert run("generate", "--check", *folder)[0] == 0
    (tmp_path / "json" / BUDGET).write_text("{}")
    # A file of a topic that no longer exists counts as outdated.
    (tmp_path / "json" / "removed-topic.json").write_text("{}")
    _, lines, error = run("generate", "--check", *folder)
    assert len(lines) == 2
    assert "2 generated files are out of date" in str(error)
    assert (tmp_path / "json" / BUDGET).read_text() == "{}"
    run("generate", *folder)
    assert generate.differing(tmp_path) == []


def test_check_prints_each_breaking_change_and_exits_with_code_2(tmp_path: Path) -> None:
    folder = ["--folder", str(tmp_path)]
    assert "expected a folder per release" in str(run("check", *folder)[2])
    assert run("release", "0.1.0", *folder)[0] == 0
    assert run("check", *folder)[:2] == (0, ["compatible with 0.1.0"])
    file = tmp_path / "released" / "0.1.0" / BUDGET
    old = json.loads(file.read_text())
    old["properties"]["quota"] = {"type": "integer"}
    old["properties"]["share"]["maximum"] = 100
    file.write_text(json.dumps(old))
    figures = tmp_path / "changes.json"
    code, lines, _ = run("check", *folder, "--json", str(figures))
    assert code == schemas.EXIT_BROKEN
    assert len(lines) == 2
    assert lines[0] == "hirl.budget-granted.v1: $.share: `maximum` was 100, is 1 (since 0.1.0)"
    assert lines[1].startswith("hirl.budget-granted.v1: $.quota: the field was removed")
    assert len(json.loads(figures.read_text())) == 2
    assert "2 breaking changes" in str(run("release", "0.2.0", *folder)[2])


@pytest.mark.parametrize(
    ("version", "words"),
    [("0.1.0", "already released"), ("next", "expected a version of three numbers")],
)
def test_a_release_needs_a_new_version_of_three_numbers(
    tmp_path: Path, version: str, words: str
) -> None:
    generate.release("0.1.0", tmp_path)
    assert words in str(run("release", version, "--folder", str(tmp_path))[2])


def test_speed_measures_a_frame_of_37_columns(tmp_path: Path) -> None:
    small = frame(5)
    columns = len(small.pods.__struct_fields__) + len(small.measured) + len(small.features) + 2
    assert columns == 37
    file = tmp_path / "speed.json"
    assert run("speed", "--apps", "5", "--json", str(file))[0] == 0
    assert [row["format"] for row in json.loads(file.read_text())] == ["JSON", "msgpack"]
