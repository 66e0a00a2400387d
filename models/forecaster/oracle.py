"""What really comes, said in advance: how good a forecast could be at best."""

from typing import Final

import numpy as np

from models.cluster.arrays import F32
from models.cluster.observation import Observation
from models.forecaster.future import Future
from models.forecaster.issue import issue, ticks_per_minute
from models.forecaster.port import HORIZONS_MIN, QUANTILES, Forecast

NAME: Final = "oracle"


class Oracle:
    """Holds the future in minutes; all quantiles are the truth."""

    name = NAME

    def __init__(self, future: Future, domains: int, tick_s: int) -> None:
        self._per_minute = ticks_per_minute(tick_s)
        if future.step_ticks != self._per_minute:
            raise ValueError(f"expected steps of a minute, got {future.step_ticks} ticks")
        self._app = future.rps
        self._domain = by_domain(future, domains)

    def start(self, observation: Observation) -> Forecast | None:  # noqa: ARG002  the port's shape
        """It has nothing to remember but what it said last."""
        return None

    def step(
        self, observation: Observation, state: Forecast | None
    ) -> tuple[Forecast, Forecast | None]:
        """Say it anew each minute."""
        if state is None or observation.tick[0] % self._per_minute == 0:
            domain, app = self.truth(int(observation.tick[0]) // self._per_minute)
            state = issue(self.name, observation, self._per_minute, domain, app)
        return state, state

    def truth(self, minute: int) -> tuple[tuple[F32, F32], tuple[F32, F32]]:
        """Values and peaks from a minute on, of the domains and of the apps."""
        return _ahead(self._domain, minute), _ahead(self._app, minute)


def by_domain(future: Future, domains: int) -> F32:
    """[E, S, D] the future's requests per second, summed where the apps belong by then."""
    sums = [np.where(future.domain == d, future.rps, 0).sum(axis=2) for d in range(domains)]
    return np.stack(sums, axis=2).astype(np.float32)


def _ahead(rps: F32, minute: int) -> tuple[F32, F32]:
    """[E, N, H, Q] values and [E, N, H] peaks of [E, S, N] minutes; at the end the last stays."""
    places = np.minimum(minute + np.arange(max(HORIZONS_MIN)), rps.shape[1] - 1)
    at = np.array(HORIZONS_MIN) - 1
    values = rps[:, places[at]].transpose(0, 2, 1)
    starts = (0, *HORIZONS_MIN[:-1])
    parts = [
        rps[:, places[first:end]].max(axis=1)
        for first, end in zip(starts, HORIZONS_MIN, strict=True)
    ]
    peaks: F32 = np.maximum.accumulate(np.stack(parts, axis=2), axis=2)
    return np.repeat(values[..., None], len(QUANTILES), axis=-1), peaks
