"""`hirl hpa golden`: check our HPA against recorded answers of the real controller."""

import gzip
import zlib
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from models.baselines.hpa.golden import Case, Verdict, check, read_case
from models.inputs.errors import InputError
from services.cli.commands import examples
from services.cli.options import JsonOption
from services.cli.output import plain_console, progress, write_json

_PATTERNS = ("*.jsonl", "*.jsonl.gz")
_SHOWN = 5
"""Failed cases to print; the JSON file has all."""
_BATCH = 100

CasesArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="Folder with cases, *.jsonl and *.jsonl.gz.")
]


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Results of a folder of cases."""

    passed: int
    failed: int
    failures: list[Verdict]


@examples(
    "hirl hpa golden DIR",
)
def golden(folder: CasesArgument, json: JsonOption = None) -> None:
    """Compute cases whose answers came from the real controller; exit 1 if one differs."""
    console = plain_console()
    files = case_files(folder)
    with progress("reading", len(files), console) as advance:
        cases = []
        for file in files:
            cases += read_cases(file)
            advance(1)
    verdicts = []
    with progress("computing", len(cases), console) as advance:
        for number, case in enumerate(cases, 1):
            verdicts.append(check(case))
            if number % _BATCH == 0 or number == len(cases):
                # Not after every case: thousands of redraws would cost more than the cases.
                advance(number - _BATCH * ((number - 1) // _BATCH))
    tally = count(verdicts)
    for verdict in tally.failures[:_SHOWN]:
        console.print(f"{verdict.id}: expected {verdict.expected}; got {verdict.got}")
    if tally.failed > _SHOWN:
        console.print(f"... and {tally.failed - _SHOWN:,} more")
    if json is not None:
        write_json(json, tally)
    console.print(f"{tally.passed} passed, {tally.failed} failed")
    if tally.failed:
        raise typer.Exit(1)


def count(verdicts: list[Verdict]) -> Tally:
    """Count passed and failed verdicts."""
    failures = [verdict for verdict in verdicts if not verdict.passed]
    return Tally(passed=len(verdicts) - len(failures), failed=len(failures), failures=failures)


def case_files(folder: Path) -> list[Path]:
    """The case files of a folder."""
    if not folder.is_dir():
        raise InputError(f"{folder}: expected a folder with case files ({', '.join(_PATTERNS)})")
    files = sorted(file for pattern in _PATTERNS for file in folder.glob(pattern))
    if not files:
        raise InputError(f"{folder}: has no case files, expected {' or '.join(_PATTERNS)}")
    return files


def read_cases(file: Path) -> list[Case]:
    """All cases of a file."""
    lines = enumerate(_lines(file), 1)
    return [_case(file, number, line) for number, line in lines if line.strip()]


def _lines(file: Path) -> list[bytes]:
    try:
        data = file.read_bytes()
        return (gzip.decompress(data) if file.suffix == ".gz" else data).splitlines()
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "incomplete gzip file"
        raise InputError(f"{file}: cannot be read ({reason})") from None


def _case(file: Path, number: int, line: bytes) -> Case:
    try:
        return read_case(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: line {number}: not a valid case: {error}") from None
