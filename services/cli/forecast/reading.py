"""Files of recorded traffic as a command takes them: series, their windows, and what was odd."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from models.forecaster.data.axes import minute_of, stamp
from models.forecaster.data.layouts import UNDATED_ORIGIN
from models.forecaster.data.load import load
from models.forecaster.score.windows import Skipped, Windows, windows
from models.forecaster.series import Series
from models.inputs.errors import InputError

_TWEETS: Final = {"minute", "minute_of_day", "tweets"}
_TWEETS_NOTE: Final = (
    "minutes :02 and :32 hold batched notices of the archive, not demand: "
    "four in five bursts begin there, so read these figures apart"
)


class Source(NamedTuple):
    """What a user says about a file."""

    file: Path
    calendar: Path | None = None
    step_min: int | None = None
    start: str | None = None


class Read(NamedTuple):
    """The series of a file, and lines about what was mended or is odd."""

    series: list[Series]
    notes: list[str]


class Test(NamedTuple):
    """A series and the windows that are scored."""

    series: Series
    windows: Windows


def read(source: Source) -> Read:
    """The series of a file."""
    notes: list[str] = []
    series = load(
        source.file,
        source.calendar,
        step_min=source.step_min,
        start=source.start or UNDATED_ORIGIN,
        note=notes.append,
    )
    if not series:
        raise InputError(f"{source.file}: holds no series; give it at least one column of values")
    if _is_tweets(source.file):
        notes.append(f"{source.file}: {_TWEETS_NOTE}")
    return Read(series, [*notes, *_gaps(source.file, series)])


def _gaps(file: Path, series: list[Series]) -> Iterator[str]:
    """One line however many have some, with the worst of them."""
    shares = {each.name: float(each.missing.mean()) for each in series if each.missing.any()}
    if shares:
        worst = max(shares, key=shares.__getitem__)
        yield (
            f"{file}: {len(shares)} of {len(series)} series have gaps, at most {shares[worst]:.1%} "
            f"of the minutes ({worst}): nothing is made up for what is missing"
        )


def tests(series: list[Series], test_from: str | None) -> tuple[list[Test], list[Skipped]]:
    """The series that can be scored, and why the others cannot."""
    found: list[Test] = []
    skipped: list[Skipped] = []
    for each in series:
        start = None if test_from is None else minute_of(each, test_from)
        scored = windows(each, start) if _is_inside(each, start) else _outside(each)
        if isinstance(scored, Skipped):
            skipped.append(scored)
        else:
            found.append(Test(each, scored))
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
    """From when to when a series was recorded."""
    first, last = series.origin_min, series.origin_min + series.rps.size - 1
    return f"{stamp(first * 60)[:16]} .. {stamp(last * 60)[:16]}"


def _is_tweets(file: Path) -> bool:
    """Whether it is the archive of tweets, by its columns."""
    if file.suffix == ".parquet":
        return False
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8") as lines:
        return set(lines.readline().strip().split(",")) >= _TWEETS
