"""The port of every forecaster: what is said about the next half hour, and in which form.

A value is the mean RPS of the minute that ends h minutes from now, calls between apps and
retries included, because that is what the apps have to carry. A peak is the highest such minute
until then. A forecaster knows the past, what it observes and what was announced; only `oracle`
and its noisy sibling are handed the future.
"""

from typing import Final, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F32, F64, I32
from models.cluster.observation import Observation

HORIZONS_MIN: Final = (5, 15, 30)
LEAST_HISTORY_MIN: Final = 180
"""Minutes that must be known before anything is learned, forecast or scored."""
QUANTILES: Final = (0.1, 0.5, 0.9)
LOW, MEDIAN, HIGH = range(3)
"""Indices into QUANTILES."""
VALID_MIN: Final = 5
"""A forecast that is older than its shortest horizon says nothing about the future."""

S = TypeVar("S")


Texts = NDArray[np.str_]


class Serving(NamedTuple):
    """How a forecast came about, where more than one model can serve. Read-only."""

    model: Texts
    """[E, D] name and version of what served."""
    reason: Texts
    """[E, D] why a simpler model serves; empty where the chosen one does."""
    review: Texts
    """[E, D] what somebody should look at; mostly empty."""
    trained_until: str
    """The last data that the chosen model learned from."""
    width: F64
    """[E, D, H] of the interval that is served, over the one that the model said."""
    shift: F64
    """[E, D, H] share of the median by which it was corrected."""
    coverage: F64
    """[E, D, H] share of the last outcomes in the served interval; NaN before the first."""
    skill: F64
    """[E, D] share by which the chosen model errs less than the simple one; NaN if unknown."""


class Forecast(NamedTuple):
    """E environments, D domains, A apps, H horizons, Q quantiles. Read-only."""

    model: str
    """Name and version of what made it."""
    made_tick: I32
    """[E]."""
    valid_until_tick: I32
    """[E] the last tick at which it may be used."""
    domain: F32
    """[E, D, H, Q] mean RPS of the minute h from now."""
    domain_peak: F32
    """[E, D, H] the .9 quantile of the highest minute until then."""
    app: F32 | None = None
    """[E, A, H, Q], where the model looks at single apps."""
    app_peak: F32 | None = None
    """[E, A, H]."""
    serving: Serving | None = None
    """None where there is but one model."""


class Forecaster(Protocol[S]):
    """Called each tick; the forecast is made anew each minute and handed out in between."""

    name: str

    def start(self, observation: Observation) -> S:
        """The state before the first step."""
        ...

    def step(self, observation: Observation, state: S) -> tuple[Forecast, S]:
        """Take in a tick and say what is to come."""
        ...
