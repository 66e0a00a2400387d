"""The entry point of `hirl`: builds the app and maps errors to exit codes.

The commands are listed in `commands.py`.
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


def app_of(is_called: Callable[[str], bool]) -> typer.Typer:
    """The command line with the called commands; the others only appear in the help."""
    app = typer.Typer(
        name="hirl",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        # Unexpected errors keep the ordinary traceback; expected ones are mapped in `run`.
        pretty_exceptions_enable=False,
        help="Plan capacity for large shared clusters, and simulate them.",
        epilog="Examples: [bold]hirl up --lock-step[/bold] runs the whole system, "
        "[bold]hirl race[/bold] lets controllers run side by side, "
        "[bold]hirl simulate --scenario cascade[/bold] runs a scenario, "
        "[bold]hirl world show[/bold] prints the example cluster. "
        "Each command has its own [bold]--help[/bold].",
    )
    app.callback()(_root)
    assemble(app, is_called)
    return app


def _print_version(requested: bool) -> None:
    if requested:
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
    """Run one command line; return 0, 2 for errors that the user can fix, or 130 for Ctrl-C."""
    # Options of `hirl` and of its groups take no values, so the first words are the command.
    words = [word for word in arguments if not word.startswith("-")]
    called = {" ".join(words[:1]), " ".join(words[:2])}
    try:
        # Inside `try`, because loading a command can fail or be interrupted.
        app = app_of(called.__contains__)
        # Not standalone: typer would print errors in a box of several lines and exit by itself.
        code = app(list(arguments), prog_name="hirl", standalone_mode=False)
    except InputError as error:
        return _report(str(error))
    except typer.TyperException as error:
        return _report(error.format_message())
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    return code if isinstance(code, int) else 0


def _report(message: str) -> int:
    # Empty when a group was called without a command: typer has printed its help.
    if message:
        # One line whatever the message: scripts and logs read it by line.
        # Printable, because a message may quote a binary file, which could change the terminal.
        line = "".join(c if c.isprintable() else "?" for c in " ".join(message.split()))
        print(f"hirl: error: {line}", file=sys.stderr)  # noqa: T201  (the only print)
    return EXIT_BAD_INPUT


def main() -> None:
    """Run the console script."""
    sys.exit(run(sys.argv[1:]))
