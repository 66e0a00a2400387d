"""Recorded traffic on an axis of minutes, with what was announced about it.

Every series has one value per minute, whatever it was recorded in: a value that stands for five
minutes is repeated five times, and `step_min` remembers it. So features, windows and services
count in minutes and nothing else.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F64

Mask = NDArray[np.bool_]

ALWAYS: Final = -(2**40)
"""An announcement of which nobody knows when it was made was known from the beginning."""
UNKNOWN: Final = -1
"""A priority or a domain that the model was not told."""


class Announced(NamedTuple):
    """An entry of a calendar; it may differ from what happens."""

    start_min: int
    """Minute on the series' axis at which it is said to begin."""
    end_min: int
    """The minute after its last."""
    factor: float = 1.0
    """Announced traffic over what would be normal; 1 where nobody said."""
    kind: str = ""
    """Events of one kind are expected to look alike."""
    known_from_min: int = ALWAYS
    """The first minute at which it was in the calendar."""


class Series(NamedTuple):
    """N minutes; minute 0 begins at `origin_min`."""

    name: str
    origin_min: int
    """Minutes since 1970-01-01 00:00 on the clock of the people who make the traffic."""
    step_min: int
    """Minutes that one recorded value stands for."""
    rps: F64
    """[N] mean rate of the minute, in any unit; NaN where it is missing."""
    calendar: tuple[Announced, ...] = ()
    """By start."""
    errors: F64 | None = None
    """[N] share of requests that failed; NaN where unknown."""
    latency: F64 | None = None
    """[N] in any unit; NaN where unknown."""
    priority: int = UNKNOWN
    """0 to 3."""
    domain: int = UNKNOWN
    """Place among the cluster's domains."""

    @property
    def missing(self) -> Mask:
        """[N] minutes without a value."""
        return np.isnan(self.rps)

    def until(self, minute: int) -> "Series":
        """What was known at the end of minute `minute` - 1: no later value or announcement."""
        return self._replace(
            rps=self.rps[:minute],
            calendar=tuple(entry for entry in self.calendar if entry.known_from_min < minute),
            errors=None if self.errors is None else self.errors[:minute],
            latency=None if self.latency is None else self.latency[:minute],
        )
