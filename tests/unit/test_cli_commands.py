"""A command is loaded when it is called for, and the help does not show the difference."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from models.inputs.errors import InputError
from services.cli.commands import COMMANDS
from services.cli.main import EXIT_BAD_INPUT, EXIT_INTERRUPTED, app_of, run

LIGHT = """
import sys
from services.cli.main import run
run(["--help"])
run(["status"])
run(["down"])
print({"numpy", "numba", "kafka", "aiohttp"} & set(sys.modules))
"""


def help_of(*arguments: str, loaded: bool) -> str:
    done = CliRunner().invoke(app_of(lambda _: loaded), [*arguments, "--help"], prog_name="hirl")
    assert done.exit_code == 0
    return done.stdout


def test_the_help_says_of_each_command_what_its_own_help_begins_with() -> None:
    assert help_of(loaded=False) == help_of(loaded=True)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_loaded_when_it_is_called_for(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([name, "--help"]) == 0
    assert capsys.readouterr().out == help_of(name, loaded=True)


def test_a_command_that_nobody_knows_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["nonsense"]) == EXIT_BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert "nonsense" in line


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), EXIT_INTERRUPTED), (InputError("no"), EXIT_BAD_INPUT)]
)
def test_what_ends_the_loading_of_a_command_is_no_traceback(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(app: object) -> None:
        del app
        raise error

    monkeypatch.setitem(COMMANDS, "up", COMMANDS["up"]._replace(add=add))
    assert run(["up"]) == code


def test_help_status_and_down_load_no_models(tmp_path: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-1] == "set()"
