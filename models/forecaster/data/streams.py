"""Series as they were recorded, before they are put on an axis."""

from typing import Final, NamedTuple

from models.cluster.arrays import F64, I64

UNDATED_ORIGIN: Final = "2021-08-02"
"""A Monday: files that only count minutes begin here, so their days and weeks are made up."""


class Options(NamedTuple):
    """What a file does not say about itself."""

    columns: tuple[str, ...] = ()
    """Which columns hold values; none: as recognised."""
    step_min: int | None = None
    """Minutes between two values; needed where no column says when."""
    start: str = UNDATED_ORIGIN
    """Time of the first value, where no column says when."""
    signed: bool = False
    """Whether values below zero are meant."""


class Stamped(NamedTuple):
    """Values with the seconds since 1970 at which their steps begin, in any order."""

    seconds: I64
    values: F64


class Stream(NamedTuple):
    """One series as it was recorded."""

    name: str
    rps: Stamped
    step_min: int | None = None
    """Where the file's layout says it; else it is seen from the stamps."""
    errors: Stamped | None = None
    latency: Stamped | None = None
