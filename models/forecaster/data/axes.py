"""Stamps become places on an axis of minutes."""

import math
from datetime import UTC, datetime
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64
from models.forecaster.series import Series
from models.inputs.errors import InputError

MAX_STEP_MIN: Final = 60
_MAX_MINUTES: Final = 20 * 366 * 24 * 60
"""Twenty years; a longer axis is a stamp that went wrong."""

_DRIFT: Final = 0.005
"""Share of a step by which the mean gap may differ from it."""


class Axis(NamedTuple):
    """Steps of one length, one after the other."""

    start_s: int
    """Seconds since 1970 of the first step."""
    step_min: int
    steps: int

    @property
    def origin_min(self) -> int:
        """The minute that holds the beginning of the first step."""
        return self.start_s // 60

    def slots(self, seconds: I64) -> I64:
        """The steps nearest to some stamps; outside 0..steps-1 where there is none."""
        step = self.step_min * 60
        slots: I64 = (seconds - self.start_s + step // 2) // step
        return slots


def axis_of(seconds: I64, where: str, step_min: int | None = None) -> Axis:
    """The axis on which a series' stamps lie; the step is the most common gap."""
    distinct = np.unique(seconds)
    step = checked_step(step_min, where) * 60 if step_min else _common_gap(distinct, where)
    start = int(distinct[0])
    # Stamps that jitter are pulled to where most of them are within a step.
    phase = _most_common((distinct - start) % step)
    start += phase - step if phase > step // 2 else phase
    steps = int((distinct[-1] - start + step // 2) // step) + 1
    if steps * step // 60 > _MAX_MINUTES:
        raise InputError(
            f"{where}: the stamps reach from {stamp(int(distinct[0]))} to "
            f"{stamp(int(distinct[-1]))}, expected at most 20 years; correct the odd ones"
        )
    return Axis(start, step // 60, steps)


def checked_step(step_min: int, where: str) -> int:
    """A step that was given, if the axis can carry it."""
    if not 1 <= step_min <= MAX_STEP_MIN:
        raise InputError(f"{where}: expected a step of 1 to {MAX_STEP_MIN} minutes, got {step_min}")
    return step_min


def on_axis(axis: Axis, seconds: I64, values: F64) -> tuple[F64, int]:
    """[minutes] values, NaN in gaps, and how many stamps shared a step with another.

    Values of one step are replaced by their mean; stamps outside the axis are left out.
    """
    slots = axis.slots(seconds)
    known = ~np.isnan(values) & (slots >= 0) & (slots < axis.steps)
    counts = np.bincount(slots[known], minlength=axis.steps)
    sums = np.bincount(slots[known], weights=values[known], minlength=axis.steps)
    means = np.full(axis.steps, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    shared = int((counts - 1).clip(0).sum())
    return np.repeat(means, axis.step_min), shared


def minute_of(series: Series, time: str) -> int:
    """The minute on a series' axis of a time such as 1998-06-20 or 1998-06-20T15:30."""
    return parsed_seconds(time, series.name) // 60 - series.origin_min


def parsed_seconds(time: str, where: str) -> int:
    """Seconds since 1970 of a time that a person wrote; without a zone it is taken as it is."""
    try:
        moment = datetime.fromisoformat(time.strip())
    except ValueError:
        raise InputError(
            f"{where}: {time!r} is no time, expected one like 2024-05-01T15:30"
        ) from None
    zone = UTC if moment.tzinfo is None else moment.tzinfo
    return math.floor(moment.replace(tzinfo=zone).timestamp())


def stamp(seconds: int) -> str:
    """A moment as a person writes it."""
    return str(np.datetime64(seconds, "s")).replace("T", " ")


def _common_gap(distinct: I64, where: str) -> int:
    if distinct.size < 2:
        raise InputError(f"{where}: expected at least two different times to see the step")
    gaps = np.diff(distinct)
    gap = _most_common(gaps)
    if gap % 60:
        gap = _jittering_gap(gaps) or gap
    if gap % 60 or gap > MAX_STEP_MIN * 60:
        raise InputError(
            f"{where}: most values are {gap / 60:g} minutes apart, expected whole minutes, "
            f"1 to {MAX_STEP_MIN}; resample the file"
        )
    return gap


def _jittering_gap(gaps: I64) -> int | None:
    """A gap of whole minutes around which gaps vary without drifting away from it."""
    near = 60 * _most_common((gaps + 30) // 60)
    if near == 0:
        return None
    steps = int(np.maximum(1, (gaps + near // 2) // near).sum())
    drifts = abs(int(gaps.sum()) / steps - near) > _DRIFT * near
    return None if drifts else near


def _most_common(values: I64) -> int:
    found, counts = np.unique(values, return_counts=True)
    return int(found[np.argmax(counts)])
