"""Fit daily shapes, noise and bursts to per-minute traces."""

from pathlib import Path
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.optimize import nnls

from models.cluster.arrays import F64, Mask
from models.sim.population.fit_tables import (
    AZURE_DAY,
    AZURE_PROFILES,
    NASA,
    WORLDCUP,
    Table,
    provenance,
)
from models.sim.population.fitted import Autocorrelation, Bursts, Noise, Profile, Profiles

Complex = NDArray[np.complex128]

STEPS: Final = 21
"""Quantiles are kept at 0, 5, .. 100 %."""
_DAY: Final = 1440
_BUSY_14_DAYS: Final = 14 * _DAY
# The shortest wave of a day is three hours long.
_HARMONICS: Final = 8
_SHAPES: Final = 24
_PEAK_HOUR: Final = 14.0
_LEAST_OF_DAY: Final = 0.05
"""Minimum of a profile over its mean."""
_PERIODS: Final = (1, 8, 64)
_LAGS: Final = (1, 8, 64)
_TREND_MINUTES: Final = 361
_LEAST_COUNT: Final = 20
"""Below so many requests per minute counting noise dominates."""


def even_quantiles(values: F64) -> tuple[float, ...]:
    """Values at evenly spaced probabilities."""
    return tuple(np.quantile(values, np.linspace(0, 1, STEPS)).tolist())


def fit_profiles(traces: Path) -> Profiles:
    """Group the busy functions with a daily rhythm into a few smooth profiles."""
    counts = Table(traces, AZURE_PROFILES).lists("counts")
    busy = counts[counts.sum(axis=1) >= _BUSY_14_DAYS]
    harmonics = np.fft.rfft(busy / busy.mean(axis=1, keepdims=True), axis=1)
    harmonics = 2 * harmonics[:, 1 : _HARMONICS + 1] / _DAY
    rhythmic = harmonics[_is_rhythmic(harmonics)]
    centres, weights = _group(_turn_to_peak(rhythmic))
    statistic = (
        f"functions with >= {_BUSY_14_DAYS} invocations and a daily rhythm, {_HARMONICS} "
        f"harmonics, turned to one peak hour, {_SHAPES} groups (k-means)"
    )
    return Profiles(
        sources=(provenance(AZURE_PROFILES, len(rhythmic), statistic),),
        peak_hour=_PEAK_HOUR,
        rhythmic_share=len(rhythmic) / len(busy),
        shapes=tuple(
            _profile(centre, weight) for centre, weight in zip(centres, weights, strict=True)
        ),
    )


def _curves(harmonics: Complex) -> F64:
    """[rows, 1440] days from complex harmonics 1.. (cosine amplitude, minus sine amplitude)."""
    spectrum = np.zeros((len(harmonics), _DAY // 2 + 1), dtype=np.complex128)
    spectrum[:, 0] = _DAY
    spectrum[:, 1 : _HARMONICS + 1] = harmonics * _DAY / 2
    return np.asarray(np.fft.irfft(spectrum, _DAY, axis=1), dtype=np.float64)


def _is_rhythmic(harmonics: Complex) -> Mask:
    """Not flat (timers), nor active for minutes only (jobs), which harmonics cannot describe."""
    curves = _curves(harmonics)
    swings = np.abs(harmonics[:, 0]) > 0.1
    return np.asarray(swings & (curves.max(axis=1) < 4) & (curves.min(axis=1) > -0.3))


def _turn_to_peak(harmonics: Complex) -> Complex:
    """Shift each day so that its first harmonic peaks at the common hour."""
    # So that groups are by shape, not by time of the peak. `traits` shifts the apps again.
    shift = np.angle(harmonics[:, :1]) + 2 * np.pi * _PEAK_HOUR / 24
    order = np.arange(1, _HARMONICS + 1)
    return np.asarray(harmonics * np.exp(-1j * order * shift))


def _group(harmonics: Complex) -> tuple[Complex, F64]:
    """k-means that starts from evenly spaced amplitudes, so it needs no random start."""
    order = np.argsort(np.abs(harmonics[:, 0]), kind="stable")
    picks = order[np.linspace(0, len(order) - 1, _SHAPES).astype(int)]
    centres = harmonics[picks]
    for _ in range(50):
        distance = np.abs(harmonics[:, None, :] - centres[None]) ** 2
        member = distance.sum(axis=2).argmin(axis=1)
        centres = np.stack(
            [
                harmonics[member == group].mean(axis=0) if (member == group).any() else centre
                for group, centre in enumerate(centres)
            ]
        )
    return centres, np.bincount(member, minlength=_SHAPES) / len(harmonics)


def _profile(centre: Complex, weight: float) -> Profile:
    """Damp the swing until the day stays positive. Unlike clipping, this keeps the mean."""
    lowest = float(_curves(centre[None]).min())
    damped = centre * min(1.0, (1 - _LEAST_OF_DAY) / (1 - lowest))
    return Profile(
        weight=float(weight), cos=tuple(damped.real.tolist()), sin=tuple((-damped.imag).tolist())
    )


def fit_noise(traces: Path) -> Noise:
    """Octave weights from two long traces, and the noise of apps from many functions."""
    measured = tuple(_autocorrelation(traces, file) for file in (WORLDCUP, NASA))
    correlation = np.mean([trace.correlation for trace, _ in measured], axis=0)
    spread = _excess_std(Table(traces, AZURE_DAY).minutes())
    statistic = f"autocorrelation of log residuals from the {_TREND_MINUTES}-minute mean"
    per_app = "relative std of 10-minute counts around their 2-hour mean, Poisson part removed"
    return Noise(
        sources=(
            provenance(WORLDCUP, measured[0][1], statistic),
            provenance(NASA, measured[1][1], statistic),
            provenance(AZURE_DAY, len(spread), per_app),
        ),
        periods_minutes=_PERIODS,
        weights=octave_weights(correlation),
        traces=tuple(trace for trace, _ in measured),
        app_std=even_quantiles(spread),
    )


def _autocorrelation(traces: Path, file: str) -> tuple[Autocorrelation, int]:
    table = Table(traces, file)
    counts, present = table.numbers("requests"), table.numbers("missing") == 0
    window = np.ones(_TREND_MINUTES)
    weight = np.convolve(present, window, "same")
    trend = np.convolve(np.where(present, counts, 0), window, "same") / np.maximum(weight, 1)
    # At gaps and ends the running mean covers too few minutes.
    use = present & (weight > 0.9 * _TREND_MINUTES) & (trend >= _LEAST_COUNT)
    # Half a request keeps the logarithm finite in minutes without any.
    residual = np.where(use, np.log((counts + 0.5) / np.maximum(trend, 0.5)), np.nan)
    residual -= np.nanmean(residual)
    # The variance of the load is what remains without that of Poisson counting.
    variance = float(np.nanmean(residual**2) - np.mean(1 / trend[use]))
    found = [float(np.nanmean(residual[lag:] * residual[:-lag])) / variance for lag in _LAGS]
    name = file.rsplit("/", maxsplit=1)[-1].split(".", maxsplit=1)[0]
    # An estimate without the Poisson part may exceed 1.
    correlation = tuple(min(1.0, value) for value in found)
    section = Autocorrelation(
        trace=name, std=variance**0.5, lags_minutes=_LAGS, correlation=correlation
    )
    return section, int(use.sum())


def octave_weights(correlation: F64) -> tuple[float, float, float]:
    """Amplitudes of three octaves whose sum has variance 1 and about this correlation."""
    rows = [[_knot_covariance(p, lag) for p in _PERIODS] for lag in (0, *_LAGS)]
    matrix = np.array(rows)
    matrix[1:] /= matrix[0]
    matrix[0] = 1
    # The total must be 1; the correlations are met as well as three octaves allow.
    priority = np.array([100.0, 1, 1, 1])
    # Not a plain least-squares fit, because a share of the variance cannot be negative.
    shares, _ = nnls(matrix * priority[:, None], np.array([1.0, *correlation]) * priority)
    alone = np.array(rows[0])
    first, second, third = np.sqrt(shares / shares.sum() / alone).tolist()
    return first, second, third


def _knot_covariance(period: int, lag: int) -> float:
    """Covariance of interpolated unit knots at a lag in minutes, mean over phases."""
    phase = np.arange(period)
    knots = np.arange(-1, lag // period + 3)
    here = np.maximum(0, 1 - np.abs(phase[:, None] / period - knots))
    there = np.maximum(0, 1 - np.abs((phase[:, None] + lag) / period - knots))
    return float((here * there).sum(axis=1).mean())


def _excess_std(minutes: F64) -> F64:
    """Relative noise of functions whose counts vary more than by chance; timers vary less."""
    tens = minutes[minutes.sum(axis=1) >= 2 * _DAY].reshape(-1, _DAY // 10, 10).sum(axis=2)
    # Counts of ten minutes: about two hours, centred.
    width = 13
    padded = np.pad(tens, ((0, 0), (width // 2, width // 2)), mode="reflect")
    trend = sliding_window_view(padded, width, axis=1).mean(axis=2)
    # The trend contains the count itself, hence width / (width - 1). A Poisson count has a variance
    # equal to its mean, which is subtracted.
    own = ((tens - trend) ** 2).mean(axis=1) * width / (width - 1) - trend.mean(axis=1)
    relative = own / (trend**2).mean(axis=1)
    return np.asarray(np.sqrt(relative[relative > 0]), dtype=np.float64)


def fit_bursts(traces: Path) -> Bursts:
    """Runs of minutes above twice the running 2-hour median and beyond counting noise."""
    minutes = Table(traces, AZURE_DAY).minutes()
    busy = minutes[minutes.sum(axis=1) >= _DAY]
    normal = _running_median(busy)
    # A function that is mostly idle has no normal level to exceed.
    steady = (normal > 0).mean(axis=1) > 0.9
    busy, normal = busy[steady], normal[steady]
    # Four standard deviations of a Poisson count.
    hot = busy > 2 * normal + 4 * np.sqrt(normal)
    sizes = [_peaks(row, hot[index], normal[index]) for index, row in enumerate(busy)]
    statistic = "runs of minutes above 2 x median + 4 sqrt(median), median of 121 minutes"
    return Bursts(
        sources=(provenance(AZURE_DAY, len(busy), statistic),),
        per_day=even_quantiles(np.array([float(len(size)) for size in sizes])),
        size=even_quantiles(np.concatenate([np.array(size) for size in sizes])),
    )


def _running_median(rows: F64) -> F64:
    padded = np.pad(rows, ((0, 0), (60, 60)), mode="reflect")
    return np.asarray(np.median(sliding_window_view(padded, 121, axis=1), axis=2))


def _peaks(row: F64, hot: Mask, normal: F64) -> list[float]:
    """Height of each run of hot minutes over normal, minus 1."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], hot.astype(int), [0]])))
    over = row / np.maximum(normal, 1) - 1
    return [float(over[a:b].max()) for a, b in zip(edges[::2], edges[1::2], strict=True)]
