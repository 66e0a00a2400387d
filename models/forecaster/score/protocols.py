"""Published protocols: tables, windows and errors, so that figures can be compared.

Los-loop (T-GCN): speeds over the largest one, the first 80 % for training, windows inside each
split, 12 steps of past. ETT: z-scores by the first 8,640 hours, 96 hours of past, 2,880 hours each
for validation and test; all windows, all variates pooled.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from models.cluster.arrays import F64, I64
from models.forecaster.data.tables import read_table
from models.inputs.errors import InputError, input_error

Name = Literal["losloop", "etth1", "etth2"]
Split = Literal["validation", "test"]
_AT_ONCE: Final = 256
"""Windows per batch; bounds memory."""


class Protocol(NamedTuple):
    """How the published figures were measured."""

    title: str
    past: int
    """Steps of past that a model gets."""
    ahead: tuple[int, ...]
    """Steps of the tables; all steps until then are scored."""
    learned: int
    """Training rows."""
    validated: int
    """Validation rows after them; 0 if training rows are split for validation."""
    tested: int
    steps_a_day: int
    standardised: bool
    """Whether errors are of z-scores, or of values in their own unit."""
    overlaps: bool
    """Whether the first windows of a split reach back into the one before."""


_ETT: Final = Protocol("", 96, (96, 192, 336, 720), 8640, 2880, 2880, 24, True, True)
PROTOCOLS: Final[dict[Name, Protocol]] = {
    "losloop": Protocol("Los-loop", 12, (3, 6, 9, 12), 1612, 0, 404, 288, False, False),
    "etth1": _ETT._replace(title="ETTh1"),
    "etth2": _ETT._replace(title="ETTh2"),
}
HELD_BACK: Final = 0.2
"""Share of training rows for validation, if the protocol has none and the file has no test rows."""


class Data(NamedTuple):
    """A scaled table; N rows, V variates."""

    protocol: Protocol
    values: F64
    """[N, V] scaled."""
    mean: F64
    """[V]; original values are values * scale + mean."""
    scale: F64
    first_minute: int
    """Since Monday 00:00."""
    learned: int
    """Number of training rows."""
    parts: dict[Split, range]
    """Rows of the splits that are scored."""


class Scores(msgspec.Struct, frozen=True):
    """Errors of a model over all steps until one, pooled over windows and variates."""

    model: str
    split: Split
    steps: int
    windows: int
    mse: float
    rmse: float
    mae: float
    accuracy: float
    """1 - ||Y - P|| / ||Y||, as in T-GCN."""


def load(name: Name, file: Path) -> Data:
    """The table of a file, with the splits that it contains."""
    protocol = PROTOCOLS[name]
    values, minute = _table(file)
    learned, validated = protocol.learned, protocol.validated
    if values.shape[0] < learned:
        raise InputError(f"{file}: {values.shape[0]} rows, {protocol.title} has {learned} or more")
    if np.isnan(values).any():
        raise InputError(f"{file}: has empty cells; {protocol.title} has none, download it again")
    end = learned + validated
    parts: dict[Split, range] = {}
    if validated and values.shape[0] >= end:
        parts["validation"] = range(learned, end)
    if values.shape[0] >= end + protocol.tested:
        parts["test"] = range(end, end + protocol.tested)
    # Published files without test rows can still be scored on the end of the training rows.
    if not validated and not parts:
        parts["validation"] = range(round(learned * (1 - HELD_BACK)), learned)
    if not parts:
        raise InputError(f"{file}: {values.shape[0]} rows, expected {end} to have any to score")
    return _scaled(protocol, values, minute, parts)


def _scaled(protocol: Protocol, values: F64, minute: int, parts: dict[Split, range]) -> Data:
    """Z-scores by the training rows, or values over the largest one, as in T-GCN."""
    learned = values[: protocol.learned]
    if protocol.standardised:
        mean, scale = learned.mean(axis=0), learned.std(axis=0)
    else:
        mean = np.zeros(values.shape[1])
        scale = np.full(values.shape[1], values.max())
    # Rows that are held back for validation must not be trained on.
    rows = min(part.start for part in parts.values())
    return Data(protocol, (values - mean) / scale, mean, scale, minute, rows, parts)


def _table(file: Path) -> tuple[F64, int]:
    table = read_table(file)
    times = [name for name in table.columns if table.is_time(name)]
    names = [name for name in table.columns if name not in times]
    wrong = next((name for name in names if not table.is_number(name)), None)
    if wrong is not None:
        raise input_error(file, wrong, "expected a column of numbers")
    if not names:
        raise input_error(file, "", "no column with values")
    unmasked = np.zeros(table.rows, np.bool_)
    values = np.stack([table.numbers(name, unmasked, signed=True) for name in names], axis=1)
    seconds = int(table.seconds(times[0])[0]) if times else _LOS_LOOP_START_S
    # 1970 began on a Thursday.
    return values, (seconds // 60 + 3 * 1440) % (7 * 1440)


_LOS_LOOP_START_S: Final = int(np.datetime64("2012-03-01", "s").astype(np.int64))
"""Start of the published Los-loop file, which has no column of times."""


class Batch(NamedTuple):
    """B windows, V variates."""

    row: I64
    """[B] the first row ahead."""
    past: F64
    """[B, past, V]."""
    ahead: F64
    """[B, steps, V]."""


def starts_of(data: Data, rows: range, steps: int) -> I64:
    """The first row ahead of each window within some rows."""
    protocol = data.protocol
    if protocol.overlaps and rows.start >= protocol.past:
        return np.arange(rows.start, rows.stop - steps + 1)
    # The authors of T-GCN leave out the last window of a part.
    last = rows.stop - steps + (1 if protocol.overlaps else 0)
    return np.arange(rows.start + protocol.past, last)


def windows(data: Data, rows: range, steps: int) -> Iterator[Batch]:
    """All windows within some rows, in order, in batches."""
    past, starts = data.protocol.past, starts_of(data, rows, steps)
    back = sliding_window_view(data.values, past, axis=0)
    forth = sliding_window_view(data.values, steps, axis=0)
    for first in range(0, starts.size, _AT_ONCE):
        batch = starts[first : first + _AT_ONCE]
        yield Batch(batch, back[batch - past].swapaxes(1, 2), forth[batch].swapaxes(1, 2))


class Tally:
    """Sums of errors, window by window, in the unit of the protocol."""

    def __init__(self, data: Data) -> None:
        self._data = data
        self._squares = self._absolute = self._power = 0.0
        self._count = self._windows = 0

    def add(self, actual: F64, forecast: F64) -> None:
        """Add windows [B, steps, V]."""
        if not self._data.protocol.standardised:
            actual, forecast = (x * self._data.scale + self._data.mean for x in (actual, forecast))
        gap = actual - forecast
        self._squares += float(np.square(gap).sum())
        self._absolute += float(np.abs(gap).sum())
        self._power += float(np.square(actual).sum())
        self._count += gap.size
        self._windows += gap.shape[0]

    def scores(self, model: str, split: Split, steps: int) -> Scores:
        """The errors of all windows so far."""
        mse = self._squares / self._count
        return Scores(
            model=model,
            split=split,
            steps=steps,
            windows=self._windows,
            mse=mse,
            rmse=mse**0.5,
            mae=self._absolute / self._count,
            accuracy=1 - (self._squares / self._power) ** 0.5,
        )
