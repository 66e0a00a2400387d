"""Traffic on an axis of minutes, with the events that were announced for it.

Every series has one value per minute, whatever its recorded step: a value that stands for five
minutes is repeated five times, and `step_min` is 5. So inputs, windows and services only ever
count in minutes.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, Mask

ALWAYS: Final = -(2**40)
"""Time of an announcement that has none: it counts as made before the series begins."""
UNKNOWN: Final = -1
"""A priority or a domain that the model does not get."""


class Announced(NamedTuple):
    """An entry of a calendar; what happens may differ."""

    start_min: int
    """Announced start, as a minute on the series' axis."""
    end_min: int
    """The minute after the last one."""
    factor: float = 1.0
    """Announced traffic over normal traffic; 1 where no factor was announced."""
    kind: str = ""
    """Events of the same kind are expected to have a similar effect."""
    announced_from_min: int = ALWAYS
    """First minute at which the entry was in the calendar."""


class Series(NamedTuple):
    """N minutes; minute 0 begins at `origin_min`."""

    name: str
    origin_min: int
    """Minutes since 1970-01-01 00:00, in the local time of the users."""
    step_min: int
    """Minutes that one recorded value stands for."""
    rps: F64
    """[N] mean rate of the minute, in any unit; NaN where it is missing."""
    calendar: tuple[Announced, ...] = ()
    """Sorted by start."""
    errors: F64 | None = None
    """[N] share of requests that failed; NaN where unknown."""
    latency: F64 | None = None
    """[N] in any unit; NaN where unknown."""
    priority: int = UNKNOWN
    """0 to 3."""
    domain: int = UNKNOWN
    """Index into the cluster's domains."""

    @property
    def missing(self) -> Mask:
        """[N] minutes without a value."""
        return np.isnan(self.rps)

    def until(self, minute: int) -> "Series":
        """The series as of the end of minute `minute` - 1: no later value or announcement."""
        return self._replace(
            rps=self.rps[:minute],
            calendar=tuple(entry for entry in self.calendar if entry.announced_from_min < minute),
            errors=None if self.errors is None else self.errors[:minute],
            latency=None if self.latency is None else self.latency[:minute],
        )
