"""Boosted trees of the library LightGBM, on exactly the inputs of the learned forecaster.

What they differ in from it is the kind of model, and that they know this one series only.
"""

from importlib import import_module
from typing import Any, Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64
from models.forecaster.learned.encode import encode
from models.forecaster.learned.inputs import Inputs, flat, from_log, to_log
from models.forecaster.port import LEAST_HISTORY_MIN, QUANTILES
from models.forecaster.score.peers.port import Absent, Fitted, H, Q, Tell, untold
from models.forecaster.score.windows import origins, sample, targets
from models.forecaster.series import Series
from models.inputs.errors import InputError

MOST_ROWS: Final = 60_000
LEAST_ROWS: Final = 400
"""Four leaves' worth; with less, a tree is a mean."""
_ROUNDS: Final = 200
_THREADS: Final = 1
"""More wait for each other, on a busy machine a hundred times longer than they work."""
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
        for place, models in enumerate(self.models):
            for quantile, model in enumerate(models or ()):
                # The number of threads is one for the whole process: what is not said here would
                # be all cores, for models that are being trained at the same time too.
                logs[:, place, quantile] = model.predict(rows, num_threads=_THREADS)
        # Each quantile is a model of its own: they may cross where there is little to learn from.
        return from_log(inputs, np.sort(logs, axis=2))


class Boosted(NamedTuple):
    """The peer."""

    name: str = "lightgbm"
    most_origins: int | None = None
    tell: Tell = untold

    def fit(self, series: Series, until_min: int) -> Fitted | Absent:
        """Learn from origins whose outcomes too are before `until_min`."""
        past = series.until(until_min)
        at = origins(past, LEAST_HISTORY_MIN - 1, until_min)
        came = targets(past, at)
        rows = np.flatnonzero(~np.isnan(came).all(axis=1))
        if rows.size < LEAST_ROWS:
            return Absent(f"{rows.size} windows before the test, expected {LEAST_ROWS}")
        rows = rows[sample(rows, MOST_ROWS)]
        inputs, came = encode(past, at[rows]), came[rows]
        return FittedBoosted(
            [_of_horizon(inputs, came[:, place], self._part(place)) for place in range(H)]
        )

    def _part(self, place: int) -> Tell:
        """What a horizon is of the whole."""
        return lambda share: self.tell((place + share) / H)


def _of_horizon(inputs: Inputs, came: F64, tell: Tell) -> list[Any] | None:
    """A model per quantile; errors count as much as the traffic they are about."""
    known = ~np.isnan(came) & ~np.isnan(inputs.scale)
    if known.sum() < LEAST_ROWS:
        return None
    library, weight = _library(), (inputs.scale + inputs.offset)[known]
    table = library.Dataset(
        flat(inputs)[known],
        to_log(inputs, came)[known],
        weight=weight / weight.mean(),
        params={"verbosity": -1, "num_threads": _THREADS},
        free_raw_data=False,
    )
    models = []
    for place, quantile in enumerate(QUANTILES):
        models.append(library.train(_SETTINGS | {"alpha": quantile}, table, _ROUNDS))
        tell((place + 1) / Q)
    return models


def _library() -> Any:
    """Imported here: only those who compare with it need it."""
    try:
        return import_module("lightgbm")
    except ImportError:
        raise InputError("the peer lightgbm needs it: pip install 'hirl-scale[peers]'") from None
