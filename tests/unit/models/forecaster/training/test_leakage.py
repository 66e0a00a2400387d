"""No input of the learned forecaster uses the future; the gate finds those that would."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from models.cluster.calendar import DAY_MINUTES
from models.forecaster.learned.encode import encode
from models.forecaster.learned.inputs import PAST, NetworkInputs
from models.forecaster.series import Announced, Series
from models.forecaster.training.leakage import leaks

I64 = NDArray[np.int64]
NEWEST = -1


def traffic(seed: int, days: float = 9.0) -> Series:
    """Noisy days with gaps, and events of which some were announced late."""
    draw = np.random.default_rng(seed)
    minutes = np.arange(int(days * DAY_MINUTES))
    rps = 50 + 40 * np.sin(2 * np.pi * minutes / DAY_MINUTES) + draw.gamma(2.0, 5.0, minutes.size)
    for first in draw.integers(0, minutes.size, 12):
        rps[first : first + draw.integers(1, 40)] = np.nan
    starts = np.sort(draw.integers(0, minutes.size, 14))
    calendar = tuple(
        Announced(int(start), int(start) + 60, 2.0, "sale", int(start - draw.integers(5, 2000)))
        for start in starts
    )
    return Series("made up", 27_000_000, 1, rps, calendar)


def origins(series: Series, seed: int, count: int = 15) -> I64:
    known = np.flatnonzero(~series.missing)
    known = known[(known > DAY_MINUTES) & (known < series.rps.size - 31)]
    return np.sort(np.random.default_rng(seed).choice(known, count, replace=False))


@given(seed=st.integers(0, 1000), days=st.sampled_from([1.5, 3.0, 9.0]))
@settings(max_examples=8, deadline=None)
def test_every_input_is_the_same_when_the_future_is_cut_off(seed: int, days: float) -> None:
    series = traffic(seed, days)
    assert leaks(encode, series, origins(series, seed)) == []


def test_inputs_of_coarse_series_do_not_leak() -> None:
    fine = traffic(1)
    coarse = fine._replace(rps=np.repeat(fine.rps[::5], 5)[: fine.rps.size], step_min=5)
    at = origins(coarse, 1) // 5 * 5 + 4
    assert leaks(encode, coarse, at[~coarse.missing[at]]) == []


def with_level(inputs: NetworkInputs, level: NDArray[np.float64]) -> NetworkInputs:
    past = inputs.past.copy()
    past[:, NEWEST, PAST.index("level")] = level
    return inputs._replace(past=past)


def centred_window(series: Series, at: I64) -> NetworkInputs:
    around = np.stack([series.rps[np.clip(at + k, 0, series.rps.size - 1)] for k in range(-2, 3)])
    return with_level(encode(series, at), np.nanmean(around, axis=0))


def full_series_scaler(series: Series, at: I64) -> NetworkInputs:
    scaled = (series.rps[at] - np.nanmean(series.rps)) / np.nanstd(series.rps)
    return with_level(encode(series, at), scaled)


def look_ahead_fill(series: Series, at: I64) -> NetworkInputs:
    known = np.flatnonzero(~series.missing)
    following = known[
        np.minimum(np.searchsorted(known, np.arange(series.rps.size)), known.size - 1)
    ]
    return encode(series._replace(rps=series.rps[following]), at)


def target_day_calendar(series: Series, at: I64) -> NetworkInputs:
    """The calendar as it stood in the end, not as it stood at the origin."""
    final = tuple(entry._replace(announced_from_min=0) for entry in series.calendar)
    return encode(series._replace(calendar=final), at)


@pytest.mark.parametrize(
    ("leaky", "found"),
    [
        (centred_window, "past.level"),
        (full_series_scaler, "past.level"),
        (look_ahead_fill, "past.level"),
        (target_day_calendar, "future.until_next"),
    ],
)
def test_a_planted_leak_is_found_and_named(
    leaky: Callable[[Series, I64], NetworkInputs], found: str
) -> None:
    series = traffic(3)
    at = origins(series, 3, 150)
    if leaky is look_ahead_fill:
        # Filling a gap from its end leaks only at origins inside the gap.
        at = np.flatnonzero(series.missing)
        at = at[(at > DAY_MINUTES) & (at < series.rps.size - 31)]
    assert found in [leak.variable for leak in leaks(leaky, series, at)]
