"""A command is imported when it is called, and the help looks the same either way."""

import subprocess
import sys
from typing import Literal, get_origin

import pytest
import typer.main
from typer.testing import CliRunner

from models.inputs.errors import InputError
from services.cli import commands
from services.cli.commands import COMMANDS, GROUPS
from services.cli.main import EXIT_BAD_INPUT, EXIT_INTERRUPTED, app_of, run
from services.reference.command_line import commands as each_command

LIGHT = """
import sys
from services.cli.main import run
run(["--help"])
run(["bench", "--help"])
run(["status"])
run(["down"])
print({"numpy", "numba", "kafka", "aiohttp"} & set(sys.modules))
"""


def help_of(*arguments: str, loaded: bool) -> str:
    done = CliRunner().invoke(app_of(lambda _: loaded), [*arguments, "--help"], prog_name="hirl")
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize("group", ["", *GROUPS])
def test_the_help_of_a_group_has_the_first_line_of_each_command(group: str) -> None:
    arguments = group.split()
    assert help_of(*arguments, loaded=False) == help_of(*arguments, loaded=True)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_loaded_when_it_is_called(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*name.split(), "--help"]) == 0
    assert capsys.readouterr().out == help_of(*name.split(), loaded=True)


def test_each_example_is_a_line_that_can_be_copied() -> None:
    lines = help_of("override", "floor", loaded=True).splitlines()
    start = lines.index(next(line for line in lines if "Example:" in line))
    assert lines[start + 1].strip().startswith("hirl override floor 4 ")


def test_no_option_shows_the_name_of_a_type_instead_of_a_value() -> None:
    unnamed = [
        f"{name} {option.name}"
        for name, command in each_command(typer.main.get_command(app_of(lambda _: True)))
        for option in command.params
        if not (option.metavar or getattr(option, "is_flag", False))
        # The help lists literals themselves.
        if get_origin(option.type_descriptor.annotation) is not Literal
    ]
    assert unnamed == []


def test_an_unknown_command_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["nonsense"]) == EXIT_BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert "nonsense" in line


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), EXIT_INTERRUPTED), (InputError("no"), EXIT_BAD_INPUT)]
)
def test_an_error_while_loading_a_command_is_no_traceback(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(_: object) -> None:
        raise error

    monkeypatch.setattr(commands, "load", load)
    assert run(["up"]) == code


def test_every_group_has_commands_and_help() -> None:
    assert {name.rpartition(" ")[0] for name in COMMANDS} == {"", *GROUPS}


def test_help_status_and_down_load_no_models(tmp_path: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-1] == "set()"
