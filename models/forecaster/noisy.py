"""The truth with errors of a known size: how good a forecast has to be to be of use."""

from typing import Final

import numpy as np

from models.cluster.arrays import F32
from models.cluster.observation import Observation
from models.forecaster.future import Future
from models.forecaster.issue import issue, ticks_per_minute
from models.forecaster.oracle import Oracle
from models.forecaster.port import HIGH, LOW, Forecast
from models.jit import kernel
from models.sim.draws import as_normal, draw, stream

NAME: Final = "noisy"
ERRORS: Final = (0.06, 0.10, 0.15)
"""Log standard deviation of the error at each horizon."""
_APP_ERROR: Final = 2.0
"""An app's own error over its domain's: small numbers are harder to foretell."""
_KNOT_MIN: Final = 15
"""Minutes between two draws, joined in between: a model that errs keeps erring for a while."""
_FORECAST: Final = 19
"""Purpose of these draws, beyond those of the world."""
_DOMAINS, _APPS = range(2)
_Z: Final = 1.2816
"""Of the .9 quantile of a normal."""


class Noisy:
    """The oracle, off by as much as a decent model would be; the same seed errs alike."""

    name = NAME

    def __init__(self, future: Future, seeds: list[int], domains: int, tick_s: int) -> None:
        self._oracle = Oracle(future, domains, tick_s)
        self._seeds = seeds
        self._per_minute = ticks_per_minute(tick_s)

    def start(self, observation: Observation) -> Forecast | None:  # noqa: ARG002  the port's shape
        """It has nothing to remember but what it said last."""
        return None

    def step(
        self, observation: Observation, state: Forecast | None
    ) -> tuple[Forecast, Forecast | None]:
        """Say it anew each minute, a little wrong."""
        if state is None or observation.tick[0] % self._per_minute == 0:
            minute = int(observation.tick[0]) // self._per_minute
            domain, app = self._oracle.truth(minute)
            domain = self._err(domain, _DOMAINS, minute, 1.0)
            app = self._err(app, _APPS, minute, _APP_ERROR)
            state = issue(self.name, observation, self._per_minute, domain, app)
        return state, state

    def _err(self, truth: tuple[F32, F32], kind: int, minute: int, size: float) -> tuple[F32, F32]:
        """Multiply log-normal errors in; the quantiles know how large they tend to be."""
        values, peaks = truth
        errors = np.zeros(peaks.shape[:2], np.float32)
        for e, seed in enumerate(self._seeds):
            _draw_errors(seed, kind, minute, errors[e])
        deviation = size * np.array(ERRORS, np.float32)
        off = np.exp(errors[..., None] * deviation)
        factors = np.repeat(off[..., None], values.shape[-1], axis=-1)
        factors[..., LOW] *= np.exp(-_Z * deviation)
        factors[..., HIGH] *= np.exp(_Z * deviation)
        noisy = (values * factors).astype(np.float32)
        highest = np.maximum(peaks * factors[..., HIGH], noisy[..., HIGH])
        return noisy, np.maximum.accumulate(highest, axis=-1).astype(np.float32)


@kernel
def _draw_errors(seed: int, kind: int, minute: int, errors: F32) -> None:
    """Standard normals that change slowly: two knots, mixed so that the variance stays."""
    errs = stream(seed, _FORECAST)
    knot, at = minute // _KNOT_MIN, minute % _KNOT_MIN / _KNOT_MIN
    weight = 1.0 / np.sqrt(at * at + (1.0 - at) * (1.0 - at))
    for entity in range(errors.size):
        last = as_normal(draw(errs, entity, kind, knot))
        following = as_normal(draw(errs, entity, kind, knot + 1))
        errors[entity] = weight * ((1.0 - at) * last + at * following)
