"""Puts timestamped values on an axis of minutes."""

import math
from datetime import UTC, datetime
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64
from models.forecaster.series import Series
from models.inputs.errors import InputError

MAX_STEP_MIN: Final = 60
"""Hourly files can be read to train on their daily pattern (`training/corpus.py`)."""
_MAX_MINUTES: Final = 20 * 366 * 24 * 60
"""Twenty years; a longer axis means that a timestamp is wrong."""

_DRIFT: Final = 0.005
"""Largest difference of the mean gap from the step, as a share of it."""


class Axis(NamedTuple):
    """Consecutive steps of the same length."""

    start_s: int
    """Seconds since 1970 of the first step."""
    step_min: int
    steps: int

    @property
    def origin_min(self) -> int:
        """The minute in which the first step begins."""
        return self.start_s // 60

    def indices(self, seconds: I64) -> I64:
        """Index of the step nearest to each timestamp; may be outside 0..steps-1."""
        step = self.step_min * 60
        indices: I64 = (seconds - self.start_s + step // 2) // step
        return indices


def axis_of(seconds: I64, where: str, step_min: int | None = None) -> Axis:
    """The axis of a series' timestamps; the step is the most common gap."""
    distinct = np.unique(seconds)
    step = checked_step(step_min, where) * 60 if step_min else _common_gap(distinct, where)
    start = int(distinct[0])
    # Timestamps may jitter: use the most common offset within a step.
    phase = _most_common((distinct - start) % step)
    start += phase - step if phase > step // 2 else phase
    # Rounded like `indices`, so that the last timestamp is on the axis.
    steps = int((distinct[-1] - start + step // 2) // step) + 1
    if steps * step // 60 > _MAX_MINUTES:
        raise InputError(
            f"{where}: the times range from {stamp(int(distinct[0]))} to "
            f"{stamp(int(distinct[-1]))}, expected at most 20 years; correct the wrong ones"
        )
    return Axis(start, step // 60, steps)


def checked_step(step_min: int, where: str) -> int:
    """The step, if it is in the supported range."""
    if not 1 <= step_min <= MAX_STEP_MIN:
        raise InputError(f"{where}: expected a step of 1 to {MAX_STEP_MIN} minutes, got {step_min}")
    return step_min


def on_axis(axis: Axis, seconds: I64, values: F64) -> tuple[F64, int]:
    """[minutes] values, NaN in gaps, and how many values share a step with another.

    Values of the same step are replaced by their mean; those outside the axis are left out.
    """
    indices = axis.indices(seconds)
    valid = ~np.isnan(values) & (indices >= 0) & (indices < axis.steps)
    counts = np.bincount(indices[valid], minlength=axis.steps)
    sums = np.bincount(indices[valid], weights=values[valid], minlength=axis.steps)
    means = np.full(axis.steps, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    shared = int((counts - 1).clip(0).sum())
    return np.repeat(means, axis.step_min), shared


def minute_of(series: Series, time: str) -> int:
    """Index on a series' axis of a time such as 1998-06-20 or 1998-06-20T15:30."""
    return parsed_seconds(time, series.name) // 60 - series.origin_min


def parsed_seconds(time: str, where: str) -> int:
    """Seconds since 1970 of an ISO time; without a zone it counts as UTC."""
    try:
        moment = datetime.fromisoformat(time.strip())
    except ValueError:
        raise InputError(
            f"{where}: {time!r} is not a time, expected one like 2024-05-01T15:30"
        ) from None
    zone = UTC if moment.tzinfo is None else moment.tzinfo
    return math.floor(moment.replace(tzinfo=zone).timestamp())


def stamp(seconds: int) -> str:
    """Seconds since 1970 as `2024-05-01 15:30:00`."""
    return str(np.datetime64(seconds, "s")).replace("T", " ")


def _common_gap(distinct: I64, where: str) -> int:
    if distinct.size < 2:
        raise InputError(f"{where}: expected at least two different times to derive the step")
    gaps = np.diff(distinct)
    gap = _most_common(gaps)
    # Many timestamps jitter by seconds, so the most common gap need not be the step.
    if gap % 60:
        gap = _jittering_gap(gaps) or gap
    if gap % 60 or gap > MAX_STEP_MIN * 60:
        raise InputError(
            f"{where}: most values are {gap / 60:g} minutes apart, expected whole minutes, "
            f"1 to {MAX_STEP_MIN}; resample the file"
        )
    return gap


def _jittering_gap(gaps: I64) -> int | None:
    """The whole-minute gap that the gaps vary around without drifting, or None."""
    near = 60 * _most_common((gaps + 30) // 60)
    if near == 0:
        return None
    steps = int(np.maximum(1, (gaps + near // 2) // near).sum())
    # A gap that drifts would skip a step, or share one, every now and then.
    drifts = abs(int(gaps.sum()) / steps - near) > _DRIFT * near
    return None if drifts else near


def _most_common(values: I64) -> int:
    found, counts = np.unique(values, return_counts=True)
    return int(found[np.argmax(counts)])
