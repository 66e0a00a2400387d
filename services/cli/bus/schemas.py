"""`hirl schemas`: generate the contracts, check that they are compatible, and release them."""

import re
from pathlib import Path
from typing import Annotated

import typer

from models.inputs.errors import InputError
from schemas import compatibility, generate
from services.cli.commands import examples
from services.cli.options import JsonOption, folder_of, writable_folder
from services.cli.output import Cell, plain_console, table, write_json, writing
from services.measure.codec import Speed, frame_speeds

EXIT_BROKEN = 2

FolderOption = Annotated[
    Path,
    typer.Option("--folder", metavar="DIR", callback=folder_of, help="Folder of the schemas."),
]


@examples(
    "hirl schemas generate --check",
)
def generate_command(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 2 if a file differs.")
    ] = False,
    folder: FolderOption = generate.FOLDER,
) -> None:
    """Write a JSON Schema per topic and the AsyncAPI document."""
    console = plain_console()
    changed = generate.differing(folder) if check else _write(folder)
    for path in changed:
        console.print(f"{path}: {'out of date' if check else 'written'}")
    if check and changed:
        raise InputError(
            f"{len(changed)} generated files are out of date: run hirl schemas generate"
        )
    if not changed:
        console.print(f"{len(generate.files())} generated files are up to date")


@examples(
    "hirl schemas check",
)
def check(folder: FolderOption = generate.FOLDER, json: JsonOption = None) -> None:
    """Compare the events with every release; print breaking changes and exit with code 2."""
    console = plain_console()
    releases = compatibility.released(folder)
    if not releases:
        raise InputError(f"{folder / 'released'}: expected a folder per release, found none")
    changes = compatibility.breaking_changes(folder)
    for change in changes:
        console.print(str(change))
    if json is not None:
        write_json(json, changes)
    if changes:
        raise typer.Exit(EXIT_BROKEN)
    console.print(f"compatible with {', '.join(releases)}")


@examples(
    "hirl schemas release 0.2.0",
)
def release(
    version: Annotated[
        str, typer.Argument(metavar="VERSION", help="Three numbers, such as 0.2.0.")
    ],
    folder: FolderOption = generate.FOLDER,
) -> None:
    """Store the current schemas as a release; later schemas must be compatible with it."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise InputError(f"{version}: expected a version of three numbers, such as 0.2.0")
    writable_folder(folder)
    if (folder / "released" / version).exists():
        raise InputError(f"{version}: already released; a release never changes")
    # A release is a promise for all later ones, so a broken one must not become part of it.
    if changes := compatibility.breaking_changes(folder):
        raise InputError(f"{len(changes)} breaking changes: run hirl schemas check")
    with writing(folder):
        written = generate.release(version, folder)
    plain_console().print(f"{written}: written; set VERSION in schemas/asyncapi.py to {version}")


@examples(
    "hirl schemas speed --apps 310 --apps 3100",
)
def speed(
    apps: Annotated[
        list[int] | None, typer.Option(min=1, metavar="N", help="Apps of a frame.")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Measure how long a frame takes to encode and decode, as JSON and as msgpack."""
    rows = [row for count in apps or [310, 3100] for row in frame_speeds(count)]
    header = ["apps", "format", "records", "KiB", "encode ms", "decode ms"]
    plain_console().print(
        table("frame of a domain, 37 columns", header, [_cells(row) for row in rows])
    )
    if json is not None:
        write_json(json, rows)


def _write(folder: Path) -> list[str]:
    with writing(writable_folder(folder)):
        return generate.write(folder)


def _cells(row: Speed) -> list[Cell]:
    return [row.apps, row.format, row.records, row.kib, row.encode_ms, row.decode_ms]
