"""What a forecast means for the domains, relative to now."""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I32
from models.forecaster.port import HIGH, HORIZONS_MIN, MEDIAN, Forecast

_SOON: Final = HORIZONS_MIN.index(5)
"""Within which pods start and, but for a stampede, nodes boot."""
_MOST_GROWTH: Final = 4.0
_MOST_HEADROOM: Final = 0.1
"""Every app of a domain is sized for it, also for what is there already: with more, what an unsure
forecast saves for P0 costs P1 several times as much."""
_LEAST: Final = 1e-6


class Outlook(NamedTuple):
    """[E, D] each; 1 and 0 without a forecast."""

    soon: F64
    """Growth within the time that pods take to start, over now."""
    headroom: F64
    """Share to add: the relative distance from the median to the high quantile."""


def look_ahead(tick: I32, rps: F64, forecast: Forecast | None) -> Outlook:
    """What the forecast says, relative to now; it never says less than now."""
    if forecast is None:
        return Outlook(np.ones_like(rps), np.zeros_like(rps))
    usable = (tick <= forecast.valid_until_tick)[:, None]
    usable = usable & np.isfinite(forecast.domain).all(axis=(2, 3))
    # What cannot be used foretells nothing, and less than now counts as now.
    values = np.where(usable[:, :, None], forecast.domain[:, :, _SOON], 0.0)
    median, high = values[..., MEDIAN], values[..., HIGH]
    width = np.clip(high / np.maximum(median, _LEAST) - 1.0, 0.0, _MOST_HEADROOM)
    return Outlook(_growth(median, rps), width)


def affordable(outlook: Outlook, work: F64, spare: F64) -> Outlook:
    """The same with less headroom where little is `spare` [E], in cores beside the `work` [E, D].

    A forecast is least sure right after a surprise. What is asked for then is too late for that
    surprise, and takes nodes from those who lack what is there already. All domains are cut alike:
    comfort of the highest priority before the work of others costs more than it saves.
    """
    asked = (outlook.headroom * work).sum(axis=1)
    share = np.clip(spare / np.maximum(asked, _LEAST), 0.0, 1.0)
    return outlook._replace(headroom=outlook.headroom * share[:, None])


def _growth(then: F64, now: F64) -> F64:
    """Nothing can be said to grow from nothing: samples may not have arrived yet."""
    growth = np.clip(then / np.maximum(now, _LEAST), 1.0, _MOST_GROWTH)
    return np.where(now > _LEAST, growth, 1.0)
