"""Forecasters that know the true future: exactly (`oracle`), or with known errors (`noisy`).

They bound what forecasting can be worth: the oracle says how much a perfect forecast would help,
the noisy one how accurate a forecast has to be to help at all.
"""

from typing import Final

import numpy as np

from models.cluster.arrays import F32
from models.cluster.observation import Observation
from models.forecaster.port import (
    HIGH,
    HORIZONS_MIN,
    LOW,
    QUANTILES,
    Forecast,
    issue_forecast,
    ticks_per_minute,
)
from models.forecaster.simulated.future import Future
from models.jit import kernel
from models.sim.draws import as_normal, draw, stream

NOISE: Final = (0.06, 0.10, 0.15)
"""Standard deviation of the noisy forecaster's log error at each horizon."""
_APP_NOISE: Final = 2.0
"""Error of an app over that of a domain: small numbers are harder to forecast."""
_KNOT_MIN: Final = 15
"""Minutes between two draws; errors are interpolated in between, because real models err the same
way for a while."""
_FORECAST: Final = 19
"""Purpose of these draws; outside those that the simulator uses (`models.sim.draws.Purpose`)."""
_DOMAINS, _APPS = range(2)
_Z: Final = 1.2816
"""The .9 quantile of the standard normal distribution."""


class Oracle:
    """Holds the future by the minute; all quantiles are the true value."""

    name = "oracle"

    def __init__(self, future: Future, domains: int, tick_s: int) -> None:
        self._per_minute = ticks_per_minute(tick_s)
        # Horizons are looked up by index, which is only right for steps of a minute.
        if future.step_ticks != self._per_minute:
            raise ValueError(f"expected steps of a minute, got {future.step_ticks} ticks")
        self._app = future.rps
        self._domain = by_domain(future, domains)

    def start(self, observation: Observation) -> Forecast | None:  # noqa: ARG002  the port's shape
        """The state is the last forecast; there is none yet."""
        return None

    def step(
        self, observation: Observation, state: Forecast | None
    ) -> tuple[Forecast, Forecast | None]:
        """Forecast each minute; repeat the last forecast in between."""
        if state is None or observation.tick[0] % self._per_minute == 0:
            domain, app = self.ahead(int(observation.tick[0]) // self._per_minute)
            state = issue_forecast(self.name, observation, self._per_minute, domain, app)
        return state, state

    def ahead(self, minute: int) -> tuple[tuple[F32, F32], tuple[F32, F32]]:
        """The forecast of a minute: values and peaks, for domains and for apps."""
        return _ahead(self._domain, minute), _ahead(self._app, minute)


class Noisy(Oracle):
    """The oracle, as wrong as a decent model would be; the same seed gives the same errors."""

    name = "noisy"

    def __init__(self, future: Future, seeds: list[int], domains: int, tick_s: int) -> None:
        super().__init__(future, domains, tick_s)
        self._seeds = seeds

    def ahead(self, minute: int) -> tuple[tuple[F32, F32], tuple[F32, F32]]:
        """The true values and peaks with errors, for domains and for apps."""
        domain, app = super().ahead(minute)
        return (
            self._with_errors(domain, _DOMAINS, minute, 1.0),
            self._with_errors(app, _APPS, minute, _APP_NOISE),
        )

    def _with_errors(
        self, truth: tuple[F32, F32], kind: int, minute: int, size: float
    ) -> tuple[F32, F32]:
        """Multiply by log-normal errors; the outer quantiles reflect their size."""
        values, peaks = truth
        errors = np.zeros(peaks.shape[:2], np.float32)
        for e, seed in enumerate(self._seeds):
            _draw_errors(seed, kind, minute, errors[e])
        deviation = size * np.array(NOISE, np.float32)
        off = np.exp(errors[..., None] * deviation)
        factors = np.repeat(off[..., None], values.shape[-1], axis=-1)
        factors[..., LOW] *= np.exp(-_Z * deviation)
        factors[..., HIGH] *= np.exp(_Z * deviation)
        noisy = (values * factors).astype(np.float32)
        # A peak is at least the value of its own minute, and at least the peak of earlier horizons.
        highest = np.maximum(peaks * factors[..., HIGH], noisy[..., HIGH])
        return noisy, np.maximum.accumulate(highest, axis=-1).astype(np.float32)


def by_domain(future: Future, domains: int) -> F32:
    """[E, S, D] requests per second, summed over the apps that belong to each domain by then."""
    sums = [np.where(future.domain == d, future.rps, 0).sum(axis=2) for d in range(domains)]
    return np.stack(sums, axis=2).astype(np.float32)


def _ahead(rps: F32, minute: int) -> tuple[F32, F32]:
    """[E, N, H, Q] values and [E, N, H] peaks from [E, S, N] minutes.

    Beyond the last minute its value is repeated.
    """
    indices = np.minimum(minute + np.arange(max(HORIZONS_MIN)), rps.shape[1] - 1)
    at = np.array(HORIZONS_MIN) - 1
    values = rps[:, indices[at]].transpose(0, 2, 1)
    starts = (0, *HORIZONS_MIN[:-1])
    # Maxima between horizons, accumulated below, so that every minute is read once.
    parts = [
        rps[:, indices[first:end]].max(axis=1)
        for first, end in zip(starts, HORIZONS_MIN, strict=True)
    ]
    peaks: F32 = np.maximum.accumulate(np.stack(parts, axis=2), axis=2)
    return np.repeat(values[..., None], len(QUANTILES), axis=-1), peaks


@kernel
def _draw_errors(seed: int, kind: int, minute: int, errors: F32) -> None:
    """Standard normals that change slowly: two knots, mixed so that the variance stays 1."""
    errs = stream(seed, _FORECAST)
    knot, at = minute // _KNOT_MIN, minute % _KNOT_MIN / _KNOT_MIN
    weight = 1.0 / np.sqrt(at * at + (1.0 - at) * (1.0 - at))
    for entity in range(errors.size):
        last = as_normal(draw(errs, entity, kind, knot))
        following = as_normal(draw(errs, entity, kind, knot + 1))
        errors[entity] = weight * ((1.0 - at) * last + at * following)
