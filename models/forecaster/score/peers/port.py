"""The port of every peer: fitted on the past of a test, then asked at many origins at once."""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from models.cluster.arrays import F64, I64
from models.forecaster.port import HORIZONS_MIN, QUANTILES
from models.forecaster.series import Series

H: Final = len(HORIZONS_MIN)
Q: Final = len(QUANTILES)
Tell = Callable[[float], None]
"""Peers that take long call it with the share of their work that is done."""


def untold(_: float) -> None:
    """For those who do not wait."""


class Fitted(Protocol):
    """A peer that is ready to forecast."""

    def predict(self, series: Series, at: I64) -> F64:
        """[B, H, Q] forecasts made at the end of minutes `at`, from nothing later than these."""
        ...


class Absent(NamedTuple):
    """Why a peer has nothing to say about a series."""

    reason: str


class Peer(Protocol):
    """A model that is compared with ours."""

    @property
    def name(self) -> str:
        """As it is called in tables."""
        ...

    @property
    def most_origins(self) -> int | None:
        """How many origins it can afford; None: any number."""
        ...

    def fit(self, series: Series, until_min: int) -> Fitted | Absent:
        """Learn from the minutes before `until_min`."""
        ...
