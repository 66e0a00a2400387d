"""The `hirl` command: one app, and how errors leave the process.

A group or command lives in its own file and is named in `commands.py`.
"""

import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from models.inputs.errors import InputError
from services.cli.commands import assemble

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130
"""128 + SIGINT, as shells expect."""


def app_of(wanted: Callable[[str], bool]) -> typer.Typer:
    """The command line, with the commands that are wanted; the others stand in the help only."""
    app = typer.Typer(
        name="hirl",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        help="Plan capacity for large shared clusters, and simulate them.",
        epilog="Examples: [bold]hirl up --lock-step[/bold] runs the whole system, "
        "[bold]hirl race[/bold] lets controllers run side by side, "
        "[bold]hirl simulate --scenario cascade[/bold] runs a scenario, "
        "[bold]hirl world show[/bold] prints the example cluster. "
        "Each command has its own [bold]--help[/bold].",
    )
    app.callback()(_root)
    assemble(app, wanted)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hirl {version('hirl-scale')}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    pass


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code is 0, 2 for what the user can mend, 130 for Ctrl-C."""
    # Options of `hirl` itself take no values, so the first word is the command.
    command = next((word for word in arguments if not word.startswith("-")), "")
    try:
        # Loading the command takes a while, and may find out that something is not there.
        app = app_of(lambda name: name == command)
        code = app(list(arguments), prog_name="hirl", standalone_mode=False)
    except InputError as error:
        return _refuse(str(error))
    except typer.TyperException as error:
        return _refuse(error.format_message())
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    return code if isinstance(code, int) else 0


def _refuse(message: str) -> int:
    # Empty when a group was called without a command: its help is already printed.
    if message:
        line = " ".join(message.split())
        print(f"hirl: error: {line}", file=sys.stderr)  # noqa: T201  (the one place that may)
    return EXIT_BAD_INPUT


def main() -> None:
    """Entry point of the console script."""
    sys.exit(run(sys.argv[1:]))
