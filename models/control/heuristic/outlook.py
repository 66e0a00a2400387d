"""What a forecast means for the domains, relative to now."""

from typing import Final, NamedTuple

import numpy as np

from models.forecaster.port import HIGH, HORIZONS_MIN, MEDIAN, Forecast
from models.sim.apps import F64, I32

_SOON, _LATER, _HALF_HOUR = range(len(HORIZONS_MIN))
_MOST_GROWTH: Final = 4.0
_MOST_HEADROOM: Final = 0.3
_LEAST: Final = 1e-6


class Outlook(NamedTuple):
    """[E, D] each; 1 and 0 without a forecast."""

    soon: F64
    """Growth within the time that pods take to start, over now."""
    peak: F64
    """Growth to prepare nodes for."""
    headroom: F64
    """Share to add: the relative distance from the median to the high quantile."""


def look_ahead(tick: I32, rps: F64, forecast: Forecast | None) -> Outlook:
    """What the forecast says, relative to now; it never says less than now."""
    ones = np.ones_like(rps)
    if forecast is None:
        return Outlook(ones, ones, np.zeros_like(rps))
    numbers = np.isfinite(forecast.domain).all(axis=(2, 3))
    numbers &= np.isfinite(forecast.domain_peak).all(axis=2)
    usable = (tick <= forecast.valid_until_tick)[:, None] & numbers
    # What cannot be used foretells nothing, and less than now counts as now.
    values = np.where(usable[:, :, None, None], forecast.domain, 0.0)
    peaks = np.where(usable[:, :, None], forecast.domain_peak, 0.0)
    median = values[..., MEDIAN]
    soon, peak = _growth(median[..., _SOON], rps), _growth(peaks[..., _HALF_HOUR], rps)
    high = values[..., _SOON, HIGH]
    width = np.clip(high / np.maximum(median[..., _SOON], _LEAST) - 1.0, 0.0, _MOST_HEADROOM)
    return Outlook(soon, peak, width)


def _growth(then: F64, now: F64) -> F64:
    """Nothing can be said to grow from nothing: samples may not have arrived yet."""
    growth = np.clip(then / np.maximum(now, _LEAST), 1.0, _MOST_GROWTH)
    return np.where(now > _LEAST, growth, 1.0)
