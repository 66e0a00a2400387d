"""Output of commands: tables and progress bars for people, JSON for programs."""

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from models.inputs.errors import InputError

Cell = str | int | float
_WIDTH: Final = 80
"""Of an ordinary terminal."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Create the folder of `path` for a block that writes it; failures are one line."""
    # Options are checked before a run, but a disk can fill up during the minutes it takes.
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None


def write_file(path: Path, data: bytes) -> None:
    """Write a file, creating its folder if needed."""
    with writing(path):
        path.write_bytes(data)


def write_json(path: Path, payload: Any) -> None:
    """Write `payload` indented, with keys in their order, so that results can be diffed."""
    text = msgspec.json.format(msgspec.json.encode(payload), indent=2)
    write_file(path, text + b"\n")


def plain_console() -> Console:
    """A console for lines that programs may read: no highlighting, no markup, no line breaks."""
    return Console(highlight=False, markup=False, soft_wrap=True)


def print_line(console: Console, text: str) -> None:
    """Print text as it is; it wraps on a terminal, and stays one line in a log file."""
    console.print(text, highlight=False, markup=False, soft_wrap=not console.is_terminal)


def command_line(command: str, options: Mapping[str, object]) -> str:
    """A command with the options that have a value, as a shell takes it."""
    given = [f"{k} {shlex.quote(str(value))}" for k, value in options.items() if value is not None]
    return " ".join([command, *given])


def printable(text: str) -> str:
    """Text from the bus in one line: its control characters must not reach a terminal."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table:
    """A table with text left-aligned and numbers right-aligned."""
    result = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        # Otherwise a title is broken to the width of a narrow table.
        min_width=min(len(title), _WIDTH),
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for index, column in enumerate(columns):
        # Formatted numbers are text and align left; callers that want them right set it themselves.
        numeric = all(not isinstance(row[index], str) for row in rows)
        result.add_column(column, justify="right" if numeric else "left")
    for row in rows:
        texts = [shown(cell).split("\n") for cell in row]
        result.add_row(*("\n".join(map(printable, lines)) for lines in texts))
    return result


@contextmanager
def progress(
    description: str, total: int, console: Console | None = None
) -> Iterator[Callable[[int], None]]:
    """A progress bar with the remaining time; yields `advance(steps)`.

    A log file gets a line at the start and one at the end instead.
    """
    console = console or Console()
    if not console.is_terminal:
        started = time.monotonic()
        console.print(f"{description} ...", highlight=False)
        # A bar would fill a log file with thousands of lines.
        yield lambda _steps: None
        seconds = time.monotonic() - started
        console.print(f"{description}: done in {seconds:.1f} s", highlight=False)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(description, total=total)
        yield lambda steps: bar.advance(task, steps)


def shown(cell: Cell) -> str:
    """A cell as text: whole and large numbers with separators, others with four digits."""
    if isinstance(cell, str):
        return cell
    return f"{cell:,.0f}" if isinstance(cell, int) or abs(cell) >= 1000 else f"{cell:.4g}"


def short(value: float) -> str:
    """A number in at most five characters, for narrow columns: 9,999, 45.1k, 586k, 5.9M."""
    if round(value) < 10_000:
        return f"{value:,.0f}"
    for unit, size in (("k", 1e3), ("M", 1e6), ("G", 1e9)):
        scaled = value / size
        # Limits by what is printed: 99.96 would become 100.0.
        if round(scaled, 1) < 100:
            return f"{scaled:.1f}{unit}"
        if round(scaled) < 1000:
            return f"{scaled:.0f}{unit}"
    return f"{value:.0e}"


def flagged(value: float, limit: float, shape: str) -> str:
    """A figure as markup, red if it is above its limit."""
    text = shape.format(value)
    return f"[red]{text}[/red]" if value > limit else text
