"""A forecast as it is handed out: dated, valid for a while, and not to be written to."""

from typing import Final

import numpy as np

from models.cluster.arrays import F32
from models.cluster.observation import Observation
from models.forecaster.port import VALID_MIN, Forecast, Serving

_MINUTE_S: Final = 60


def ticks_per_minute(tick_s: int) -> int:
    """How many ticks make a minute; the forecast is made anew after each of them."""
    return max(1, round(_MINUTE_S / tick_s))


def issue(
    model: str,
    observation: Observation,
    per_minute: int,
    domain: tuple[F32, F32],
    app: tuple[F32, F32] | None = None,
    serving: Serving | None = None,
) -> Forecast:
    """Values and peaks per domain, and per app where there are any, as a forecast of now."""
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
