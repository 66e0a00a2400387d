"""The interface of every forecaster: what a forecast of the next half hour contains.

A value is the mean RPS of the minute that ends h minutes from now. It includes calls between apps
and retries, because apps have to serve those too. A peak is the highest such minute until then. A
forecaster gets the past, the observations and the announcements; only the oracles in
`models.forecaster.simulated` get the future.
"""

from typing import Final, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F32, F64, I32
from models.cluster.observation import Observation

HORIZONS_MIN: Final = (5, 15, 30)
"""Pods start and, except in a stampede, nodes boot within the first. The others are for nodes that
the cloud cannot deliver so soon."""
LEAST_HISTORY_MIN: Final = 180
"""Minutes of history without which nothing is learned, forecast or scored; as many as the past
windows of the network cover."""
QUANTILES: Final = (0.1, 0.5, 0.9)
"""The outer two enclose 80 %, which calibration holds them to."""
LOW, MEDIAN, HIGH = range(3)
"""Indices into QUANTILES."""
VALID_MIN: Final = 5
"""Validity of a forecast: past its shortest horizon it no longer describes the future."""
_MINUTE_S: Final = 60

S = TypeVar("S")
Texts = NDArray[np.str_]


class Serving(NamedTuple):
    """How a forecast was made, where one of several models serves each domain. Read-only."""

    model: Texts
    """[E, D] name and version of the model that served."""
    reason: Texts
    """[E, D] why the simpler model serves; empty where the preferred one does."""
    review: Texts
    """[E, D] what an operator should look at; usually empty."""
    trained_until: str
    """Time of the newest data that the preferred model was trained on."""
    width: F64
    """[E, D, H] width of the served interval over the model's own."""
    shift: F64
    """[E, D, H] correction of the median, as a share of it."""
    coverage: F64
    """[E, D, H] share of recent outcomes inside the served interval; NaN before the first."""
    skill: F64
    """[E, D] share by which the preferred model errs less than the simple one; NaN if unknown."""


class Forecast(NamedTuple):
    """E environments, D domains, A apps, H horizons, Q quantiles. Read-only."""

    model: str
    """Name and version of the model that made it."""
    made_tick: I32
    """[E]."""
    valid_until_tick: I32
    """[E] the last tick at which it may be used."""
    domain: F32
    """[E, D, H, Q] mean RPS of the minute h from now."""
    domain_peak: F32
    """[E, D, H] .9 quantile of the highest minute until then."""
    app: F32 | None = None
    """[E, A, H, Q], from models that forecast single apps."""
    app_peak: F32 | None = None
    """[E, A, H]."""
    serving: Serving | None = None
    """None where there is only one model."""


class Forecaster(Protocol[S]):
    """Called each tick; makes a new forecast each minute and repeats it in between."""

    name: str

    def start(self, observation: Observation) -> S:
        """The state before the first step."""
        ...

    def step(self, observation: Observation, state: S) -> tuple[Forecast, S]:
        """Process a tick and return the current forecast."""
        ...


def ticks_per_minute(tick_s: int) -> int:
    """Ticks per minute, at least one; a forecaster makes a new forecast after each minute."""
    return max(1, round(_MINUTE_S / tick_s))


def issue_forecast(
    model: str,
    observation: Observation,
    per_minute: int,
    domain: tuple[F32, F32],
    app: tuple[F32, F32] | None = None,
    serving: Serving | None = None,
) -> Forecast:
    """Date values and peaks per domain (and per app), and make the arrays read-only."""
    # The same arrays are handed out until the next minute and kept by callers.
    for array in (*domain, *(app or ())):
        array.flags.writeable = False
    made = observation.tick.copy()
    return Forecast(
        model=model,
        made_tick=made,
        valid_until_tick=(made + VALID_MIN * per_minute).astype(np.int32),
        domain=domain[0],
        domain_peak=domain[1],
        app=app[0] if app else None,
        app_peak=app[1] if app else None,
        serving=serving,
    )
