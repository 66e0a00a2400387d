"""Commands check paths before they start, not after minutes."""

import errno
import os
from pathlib import Path

import pytest

from models.inputs.errors import InputError
from services.cli import main, options
from services.cli.output import writing
from services.cli.simulation import validate as command

Capture = pytest.CaptureFixture[str]
SIMULATE = ("simulate", "--scenario", "calm", "--apps", "20")
WITH_JSON = (
    SIMULATE,
    ("world", "show"),
    ("world", "failures"),
    ("world", "validate"),
    ("bench", "sim"),
)


def refused(capsys: Capture, *arguments: str) -> str:
    """The one line of a command that printed nothing else."""
    assert main.run(arguments) == main.EXIT_BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == "", "the run had started"
    (line,) = captured.err.splitlines()
    return line.removeprefix("hirl: error: ")


@pytest.mark.parametrize("arguments", WITH_JSON, ids=" ".join)
def test_a_json_file_that_cannot_be_created_is_refused_first(
    capsys: Capture, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "file").touch()
    target = tmp_path / "file" / "new" / "x.json"
    message = refused(capsys, *arguments, "--json", str(target))
    assert message == f"{target}: cannot be written ({tmp_path / 'file'} is not a folder)"


WRITERS = (
    ("schemas", "generate", "--folder"),
    ("schemas", "release", "9.0.0", "--folder"),
    ("world", "months", "--out"),
    ("world", "show", "--json"),
    ("bench", "control", "--csv"),
    ("simulate", "--scenario", "calm", "--report"),
    ("calibrate", "--out"),
    ("calibrate", "--storage"),
    ("train", "forecaster", "--out"),
    ("kafka", "up", "--home"),
)


@pytest.mark.parametrize("arguments", WRITERS, ids=" ".join)
def test_output_below_a_file_is_refused_in_one_line(
    capsys: Capture, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "file").touch()
    message = refused(capsys, *arguments, str(tmp_path / "file" / "new" / "x"))
    assert "cannot be written (" in message
    assert message.endswith(f"{tmp_path / 'file'} is not a folder)")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
@pytest.mark.parametrize("arguments", WRITERS, ids=" ".join)
def test_output_where_nothing_can_be_created_is_refused_first(
    capsys: Capture, arguments: tuple[str, ...]
) -> None:
    """Even root, who has every permission, can create nothing in /proc."""
    message = refused(capsys, *arguments, "/proc/none/x")
    assert message.startswith("/proc/none/x")
    assert "cannot be written (nothing can be created in /proc: " in message


@pytest.mark.parametrize(
    "arguments",
    [
        ("schemas", "generate", "--folder"),
        ("schemas", "generate", "--check", "--folder"),
        ("schemas", "check", "--folder"),
        ("schemas", "release", "9.0.0", "--folder"),
        ("kafka", "up", "--home"),
        ("kafka", "down", "--home"),
        ("kafka", "status", "--home"),
    ],
    ids=" ".join,
)
def test_a_file_is_no_folder(capsys: Capture, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "file").touch()
    message = refused(capsys, *arguments, str(tmp_path / "file"))
    assert message == f"{tmp_path / 'file'}: is a file, expected a folder"


def test_stopping_kafka_where_none_was_creates_no_folder(tmp_path: Path) -> None:
    assert main.run(["kafka", "down", "--home", str(tmp_path / "none")]) == 0
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("up", ".hirl/run: cannot be written (.hirl is not a folder)"),
        ("bench path", ".hirl: is a file, expected a folder"),
        ("bench size", ".hirl: is a file, expected a folder"),
        ("chaos", ".hirl: is a file, expected a folder"),
    ],
)
def test_a_system_is_not_started_where_its_folder_cannot_be_created(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".hirl").touch()
    assert refused(capsys, *command.split()) == line


def test_a_disk_that_fills_up_while_writing_is_one_line(tmp_path: Path) -> None:
    target = tmp_path / "new" / "x.csv"
    expected = pytest.raises(InputError, match=r"x\.csv: cannot be written \(No space left")
    with expected, writing(target):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert target.parent.is_dir(), "the folder is created"


def test_a_folder_is_no_json_file(capsys: Capture, tmp_path: Path) -> None:
    message = refused(capsys, "world", "show", "--json", str(tmp_path))
    assert message == f"{tmp_path}: cannot be written (is a folder)"


@pytest.mark.parametrize("arguments", [SIMULATE, ("world", "validate")], ids=" ".join)
def test_a_report_folder_that_cannot_be_created_is_refused_first(
    capsys: Capture, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "file").touch()
    message = refused(capsys, *arguments, "--report", str(tmp_path / "file"))
    assert "report.html: cannot be written (" in message


def test_a_report_without_matplotlib_is_refused_first(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "find_spec", lambda _name: None)
    message = refused(capsys, *SIMULATE, "--report", str(tmp_path))
    assert message == "report: needs matplotlib, install the extra `report`"


def test_a_path_without_permission_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests may run as root, who may write anywhere, so `os.access` is replaced."""
    monkeypatch.setattr(os, "access", lambda _path, mode: mode == os.F_OK)
    with pytest.raises(InputError, match="no permission to write to"):
        options.writable_file(tmp_path / "x.json")


@pytest.mark.parametrize("arguments", [("validate",), ("fit",)])
def test_a_folder_without_tables_is_refused_first(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setattr(command, "_parts", lambda *_: pytest.fail("the run had started"))
    message = refused(capsys, "world", *arguments, "--traces", str(tmp_path))
    assert message == f"{tmp_path}: expected a folder with the folders sim and dev in it"


def test_a_bad_trace_is_refused_before_the_world_is_built(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("minute,rps\n0,1\n5,none\n10,3\n")
    scenario = tmp_path / "mine.yaml"
    scenario.write_text(
        "{name: mine, shows: A trace., start: 'Mon 10:00', length_minutes: 10,"
        " replay: [{file: trace.csv, target: {domains: [payments]}}]}"
    )
    message = refused(capsys, "simulate", "--scenario", str(scenario))
    assert message.startswith(f"{tmp_path / 'trace.csv'}: line 3: ")


def test_missing_folders_are_created_for_a_json_file(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "x.json"
    assert main.run(["world", "show", "--json", str(target)]) == 0
    assert target.read_bytes().startswith(b"{")
