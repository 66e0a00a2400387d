"""What the forecaster publishes, as far as it can be believed."""

from typing import Any, Final

import msgspec
import numpy as np

from models.control.plausible import forecast_problem
from models.forecaster.port import HORIZONS_MIN, QUANTILES, Forecast, Serving
from schemas.demand_forecast import DemandForecast
from schemas.domain_observed import DomainObserved
from services.forecaster.model import Recorded

_RULE_VERSION: Final = "1"
"""Version of the rules; a trained model has its own."""


def forecast_event(
    domain: str, index: int, frame: DomainObserved, forecast: Forecast, origin: int
) -> DemandForecast:
    """The forecast of a domain, which has this index in the arrays, after a frame of any domain.

    `origin` is the tick from which the model counts.
    """
    event = DemandForecast(
        tick=frame.tick,
        time=frame.time,
        trace_id=frame.trace_id,
        domain=domain,
        model=_versioned(forecast.model),
        valid_until_tick=int(forecast.valid_until_tick[0]) + origin,
        horizons_minutes=list(HORIZONS_MIN),
        quantiles=list(QUANTILES),
        rps=forecast.domain[0, index].tolist(),
        peak_rps=forecast.domain_peak[0, index].tolist(),
    )
    if forecast.serving is None:
        return event
    return msgspec.structs.replace(event, **_serving_fields(forecast.serving, index))


def believable(
    event: DemandForecast, history: Recorded, observed: float, largest_factor: float
) -> DemandForecast:
    """Replace an implausible forecast with one that predicts nothing and asks for a review.

    `observed` is the most traffic of the recent minutes.
    """
    highest = max((observed, *(rps for rps in history.rps if rps is not None)))
    problem = forecast_problem(event.rps, event.peak_rps, highest, largest_factor)
    if not problem:
        review = event.review_reason or history.problem
        return msgspec.structs.replace(event, review_reason=review)
    # Zero never lowers anything: less than now counts as now.
    nothing = [[0.0] * len(row) for row in event.rps]
    return msgspec.structs.replace(
        event, rps=nothing, peak_rps=[0.0] * len(event.peak_rps), review_reason=problem
    )


def _versioned(model: str) -> str:
    return model if "/" in model else f"{model}/{_RULE_VERSION}"


def _serving_fields(serving: Serving, domain: int) -> dict[str, Any]:
    """How a domain's forecast was made: which model served it, why, and its calibration."""
    by_horizon = {
        name: getattr(serving, name)[0, domain] for name in ("width", "shift", "coverage")
    }
    calibration = {
        f"{name}_{minutes}": float(value)
        for name, values in by_horizon.items()
        for minutes, value in zip(HORIZONS_MIN, values, strict=True)
    }
    calibration["skill"] = float(serving.skill[0, domain])
    return {
        "model": _versioned(str(serving.model[0, domain])),
        "trained_until": serving.trained_until,
        # Unknown values are left out: JSON has no NaN.
        "calibration": {n: value for n, value in calibration.items() if np.isfinite(value)},
        "fallback_reason": str(serving.reason[0, domain]),
        "review_reason": str(serving.review[0, domain]),
    }
