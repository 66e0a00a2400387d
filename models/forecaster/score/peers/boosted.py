"""Boosted trees (LightGBM) on exactly the inputs of the learned forecaster.

They differ from it in the kind of model, and in that they are trained on this series only.
"""

from importlib import import_module
from typing import Any, Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64
from models.forecaster.learned.encode import encode
from models.forecaster.learned.inputs import NetworkInputs, flat, from_log, to_log
from models.forecaster.port import LEAST_HISTORY_MIN, QUANTILES
from models.forecaster.score.evaluation import Absent, Fitted, H, Progress, Q, no_progress
from models.forecaster.score.windows import origins, sample, targets
from models.forecaster.series import Series
from models.inputs.errors import InputError

MOST_ROWS: Final = 60_000
"""Bounds the time to fit nine models per series."""
LEAST_ROWS: Final = 400
"""Enough for four leaves; with fewer, a tree is just a mean."""
# Usual values; they were not tuned for these traces, so the peer may have more to give.
_ROUNDS: Final = 200
_THREADS: Final = 1
"""On a busy machine more threads wait for each other a hundred times longer than they work."""
_SETTINGS: Final = {
    "objective": "quantile",
    "learning_rate": 0.05,
    "num_leaves": 31,
    "min_data_in_leaf": 100,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "num_threads": _THREADS,
    "deterministic": True,
    "force_col_wise": True,
    "seed": 0,
    "verbosity": -1,
}


class FittedBoosted(NamedTuple):
    """One model per horizon and quantile; None for a horizon finer than the series' step."""

    models: list[list[Any] | None]

    def predict(self, series: Series, at: I64) -> F64:
        """[B, H, Q]."""
        inputs = encode(series, at)
        rows = flat(inputs)
        logs = np.full((at.size, H, Q), np.nan)
        for index, models in enumerate(self.models):
            for quantile, model in enumerate(models or ()):
                # LightGBM has one setting for the whole process: without it, this call would switch
                # models that are being trained at the same time to all cores too.
                logs[:, index, quantile] = model.predict(rows, num_threads=_THREADS)
        # Each quantile is a separate model, so with little data they may cross.
        return from_log(inputs, np.sort(logs, axis=2))


class Boosted(NamedTuple):
    """The peer."""

    name: str = "lightgbm"
    most_origins: int | None = None
    progress: Progress = no_progress

    def fit(self, series: Series, until_min: int) -> Fitted | Absent:
        """Learn from origins whose outcomes are before `until_min` too."""
        past = series.until(until_min)
        # Targets beyond the cut series are NaN and dropped below, so nothing of the test is
        # learned.
        at = origins(past, LEAST_HISTORY_MIN - 1, until_min)
        actual = targets(past, at)
        rows = np.flatnonzero(~np.isnan(actual).all(axis=1))
        if rows.size < LEAST_ROWS:
            return Absent(f"{rows.size} windows before the test, expected {LEAST_ROWS}")
        rows = rows[sample(rows, MOST_ROWS)]
        inputs, actual = encode(past, at[rows]), actual[rows]
        return FittedBoosted(
            [_of_horizon(inputs, actual[:, index], self._part(index)) for index in range(H)]
        )

    def _part(self, index: int) -> Progress:
        """Progress of one horizon as a part of the whole."""
        return lambda share: self.progress((index + share) / H)


def _of_horizon(inputs: NetworkInputs, actual: F64, progress: Progress) -> list[Any] | None:
    """A model per quantile; rows are weighted by their traffic."""
    # Without a scale there is no logarithm to learn.
    valid = ~np.isnan(actual) & ~np.isnan(inputs.scale)
    if valid.sum() < LEAST_ROWS:
        return None
    library, weight = _library(), (inputs.scale + inputs.offset)[valid]
    table = library.Dataset(
        flat(inputs)[valid],
        to_log(inputs, actual)[valid],
        weight=weight / weight.mean(),
        params={"verbosity": -1, "num_threads": _THREADS},
        free_raw_data=False,
    )
    models = []
    for index, quantile in enumerate(QUANTILES):
        models.append(library.train(_SETTINGS | {"alpha": quantile}, table, _ROUNDS))
        progress((index + 1) / Q)
    return models


def _library() -> Any:
    """Import lightgbm lazily: it is an optional dependency."""
    try:
        return import_module("lightgbm")
    except ImportError:
        raise InputError("the peer lightgbm needs it: pip install 'hirl-scale[peers]'") from None
