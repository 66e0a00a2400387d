"""Options of the forecast commands, and the series of the files that they name."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from models.forecaster.data.axes import minute_of, stamp
from models.forecaster.data.layouts import UNDATED_ORIGIN
from models.forecaster.data.load import load
from models.forecaster.score.windows import Skipped, Windows, windows
from models.forecaster.series import Series
from models.inputs.errors import InputError

_TWEETS: Final = {"minute", "minute_of_day", "tweets"}
_TWEETS_NOTE: Final = (
    "minutes :02 and :32 hold batched notices of the archive, not demand: "
    "four in five bursts begin there, so judge these figures separately"
)


class Source(NamedTuple):
    """A file of traffic and how to read it."""

    file: Path
    calendar: Path | None = None
    step_min: int | None = None
    start: str | None = None


class Read(NamedTuple):
    """The series of a file, and notes about repairs and oddities."""

    series: list[Series]
    notes: list[str]


class ScoredSeries(NamedTuple):
    """A series and the windows to score."""

    series: Series
    windows: Windows


def read(source: Source) -> Read:
    """Read the series of a file."""
    notes: list[str] = []
    series = load(
        source.file,
        source.calendar,
        step_min=source.step_min,
        start=source.start or UNDATED_ORIGIN,
        note=notes.append,
    )
    if not series:
        raise InputError(
            f"{source.file}: contains no series; expected at least one column of values"
        )
    if _is_tweets(source.file):
        notes.append(f"{source.file}: {_TWEETS_NOTE}")
    return Read(series, [*notes, *_gaps(source.file, series)])


def _gaps(file: Path, series: list[Series]) -> Iterator[str]:
    """One line about all series with gaps, naming the worst."""
    shares = {each.name: float(each.missing.mean()) for each in series if each.missing.any()}
    if shares:
        worst = max(shares, key=shares.__getitem__)
        yield (
            f"{file}: {len(shares)} of {len(series)} series have gaps, at most {shares[worst]:.1%} "
            f"of the minutes ({worst}); missing values are not filled in"
        )


def scored_series(
    series: list[Series], test_from: str | None
) -> tuple[list[ScoredSeries], list[Skipped]]:
    """The series that can be scored, and for the others the reason why not."""
    found: list[ScoredSeries] = []
    skipped: list[Skipped] = []
    for each in series:
        start = None if test_from is None else minute_of(each, test_from)
        # One date for all series of a file; some may begin later or end earlier.
        scored = windows(each, start) if _is_inside(each, start) else _outside(each)
        if isinstance(scored, Skipped):
            skipped.append(scored)
        else:
            found.append(ScoredSeries(each, scored))
    # Some skipped series are notes; with none left there is nothing to report.
    if not found:
        first = skipped[0]
        more = f" (and {len(skipped) - 1} more like it)" if len(skipped) > 1 else ""
        raise InputError(f"{first.series}: nothing to score: {first.reason}{more}")
    return found, skipped


def _is_inside(series: Series, minute: int | None) -> bool:
    return minute is None or 0 <= minute < series.rps.size


def _outside(series: Series) -> Skipped:
    return Skipped(series.name, f"the test must begin within {span(series)}")


def span(series: Series) -> str:
    """First and last time of a series."""
    first, last = series.origin_min, series.origin_min + series.rps.size - 1
    return f"{stamp(first * 60)[:16]} .. {stamp(last * 60)[:16]}"


def _is_tweets(file: Path) -> bool:
    """Whether the columns are those of the tweet archive."""
    # The archive is CSV, and Parquet has no header line to read.
    if file.suffix == ".parquet":
        return False
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8") as lines:
        return set(lines.readline().strip().split(",")) >= _TWEETS


SeriesOption = Annotated[
    Path,
    typer.Option(
        "--series",
        metavar="FILE",
        help="Recorded traffic: CSV, CSV.gz or Parquet, one series or many, wide or long.",
    ),
]
CalendarOption = Annotated[
    Path | None,
    typer.Option(
        "--calendar",
        metavar="FILE",
        help="Announcements: starts_at and optionally ends_at, kind, factor, series.",
    ),
]
ArtefactOption = Annotated[
    Path,
    typer.Option(
        "--artefact",
        metavar="DIR",
        help="Folder of a learned model, as `hirl train forecaster` writes it.",
        show_default="the shipped one",
    ),
]
StepOption = Annotated[
    int | None,
    typer.Option(
        "--step-min",
        metavar="N",
        min=1,
        help="Minutes between two rows, if the file has no time column.",
    ),
]
StartOption = Annotated[
    str | None,
    typer.Option(
        "--start", metavar="TIME", help="Time of the first row, if the file has no time column."
    ),
]
