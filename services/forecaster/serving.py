"""How a forecast came about, in the words of the event."""

from typing import Any, Final

import numpy as np

from models.forecaster.port import HORIZONS_MIN, Serving

_VERSION: Final = "1"
"""Of the models that are rules: what is trained brings its own."""


def versioned(model: str) -> str:
    """Name and version."""
    return model if "/" in model else f"{model}/{_VERSION}"


def told_of(serving: Serving, place: int) -> dict[str, Any]:
    """The fields of the event about one domain."""
    return {
        "model": versioned(str(serving.model[0, place])),
        "trained_until": serving.trained_until,
        "calibration": _calibration(serving, place),
        "fallback_reason": str(serving.reason[0, place]),
        "review_reason": str(serving.review[0, place]),
    }


def _calibration(serving: Serving, place: int) -> dict[str, float]:
    """What is known of it."""
    by_horizon = {name: getattr(serving, name)[0, place] for name in ("width", "shift", "coverage")}
    found = {
        f"{name}_{minutes}": float(value)
        for name, values in by_horizon.items()
        for minutes, value in zip(HORIZONS_MIN, values, strict=True)
    }
    found["skill"] = float(serving.skill[0, place])
    return {name: value for name, value in found.items() if np.isfinite(value)}
