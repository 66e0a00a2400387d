"""Scale-free errors of quantiles and of the 80 % interval."""

from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np

from models.cluster.arrays import F64
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.port import HIGH, HORIZONS_MIN, LOW, MEDIAN, QUANTILES
from models.forecaster.score.windows import Windows
from models.forecaster.series import Series

_OUTSIDE: Final = 1 - (QUANTILES[HIGH] - QUANTILES[LOW])
"""Share of values that an interval should leave out."""


class Row(msgspec.Struct, frozen=True):
    """The scores of a model on a series at a horizon; None where the divisor is zero."""

    series: str
    model: str
    horizon_min: int
    q_risk_p50: float | None
    q_risk_p90: float | None
    mase: float | None
    coverage_80: float
    """Share of values within the interval from the .1 to the .9 quantile."""
    width_80: float | None
    """Mean width of that interval over the mean value."""
    interval_score: float | None
    """Mean Winkler score of that interval over the mean value."""
    windows: int


class Scores(NamedTuple):
    """Rows, and why some of their fields are None."""

    rows: tuple[Row, ...]
    notes: tuple[str, ...]


class Scale(NamedTuple):
    """The divisor of MASE: the error of a naive forecast before the test."""

    value: float
    """NaN where it is unknown."""
    naive: Literal["day", "last"]
    """Same minute yesterday, or the value before."""


def score(series: Series, model: str, windows: Windows, forecast: F64) -> Scores:
    """One row per horizon from forecasts [B, H, Q]; origins with NaN were not forecast."""
    scale = mase_scale(series, windows.test_from)
    rows, notes = [], []
    for index, horizon in enumerate(HORIZONS_MIN):
        target, quantiles = windows.target[:, index], forecast[:, index]
        valid = ~np.isnan(target) & ~np.isnan(quantiles).any(axis=1)
        if valid.any():
            row = _row(series.name, model, horizon, target[valid], quantiles[valid], scale)
            rows.append(row)
            # All targets, not only the valid ones, tell whether the whole series is zero.
            notes += _notes(row, scale, target)
    return Scores(tuple(rows), tuple(notes))


def q_risk(target: F64, forecast: F64, quantile: float) -> float:
    """Twice the quantile loss over the sum of the values; NaN if all values are zero."""
    over = target - forecast
    # Too low costs `quantile` per unit, too high 1 - `quantile`.
    loss = np.where(over > 0, quantile * over, (quantile - 1) * over)
    return _ratio(2 * loss.sum(), np.abs(target).sum())


def coverage(target: F64, low: F64, high: F64) -> float:
    """Share of values within low..high, ends included."""
    return float(np.mean((low <= target) & (target <= high)))


def relative_width(target: F64, low: F64, high: F64) -> float:
    """Mean width over mean value."""
    return _ratio((high - low).sum(), np.abs(target).sum())


def interval_score(target: F64, low: F64, high: F64) -> float:
    """Winkler score: the width plus ten times the distance outside, over the mean value."""
    outside = (low - target).clip(0) + (target - high).clip(0)
    # 2 / alpha is the Winkler score's penalty for values outside; alpha is the share left out.
    return _ratio((high - low + 2 / _OUTSIDE * outside).sum(), np.abs(target).sum())


def mase_scale(series: Series, test_from: int) -> Scale:
    """Mean absolute error before the test of yesterday's value, or of the last value if shorter."""
    before = series.rps[:test_from]
    if before.size >= 2 * DAY_MINUTES:
        daily = _naive_error(before, DAY_MINUTES)
        if not np.isnan(daily):
            return Scale(daily, "day")
    return Scale(_naive_error(before, series.step_min), "last")


def _naive_error(values: F64, lag: int) -> float:
    gaps = np.abs(values[lag:] - values[:-lag])
    valid = gaps[~np.isnan(gaps)]
    return float(valid.mean()) if valid.size else np.nan


def _row(name: str, model: str, horizon: int, target: F64, forecast: F64, scale: Scale) -> Row:
    low, middle, high = forecast[:, LOW], forecast[:, MEDIAN], forecast[:, HIGH]
    error = float(np.abs(target - middle).mean())
    return Row(
        series=name,
        model=model,
        horizon_min=horizon,
        q_risk_p50=_or_none(q_risk(target, middle, QUANTILES[MEDIAN])),
        q_risk_p90=_or_none(q_risk(target, high, QUANTILES[HIGH])),
        mase=_or_none(_ratio(error, scale.value)),
        coverage_80=coverage(target, low, high),
        width_80=_or_none(relative_width(target, low, high)),
        interval_score=_or_none(interval_score(target, low, high)),
        windows=target.size,
    )


def _notes(row: Row, scale: Scale, target: F64) -> list[str]:
    """Notes name only the series where possible, so that they appear once, not for each model."""
    notes = []
    if row.q_risk_p50 is None:
        # A slow model that runs at few origins may have met only zeros.
        subject = f"{row.series}: {row.model}" if np.nansum(target) else row.series
        notes.append(
            f"{subject}: {row.horizon_min} min: "
            "all values are zero, no error can be put in relation to them"
        )
    if row.mase is None:
        notes.append(f"{row.series}: no MASE, the naive forecast ({scale.naive}) was never wrong")
    return notes


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else np.nan


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else value
