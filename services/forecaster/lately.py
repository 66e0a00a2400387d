"""The minutes that the forecaster has seen itself, after the record that it was given ends.

A minute is named by its number, which is the tick at which it ends over the ticks of a minute.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32
from models.cluster.calendar import HISTORY_MINUTES

_NOT_SEEN: Final = np.float32(np.nan)


class Lately(NamedTuple):
    """Consecutive minutes of D domains; in float32, as twelve domains must fit into a record."""

    first: int
    """Number of the first minute."""
    rps: F32
    """[D, M] requests per second; NaN where the minute was not seen."""

    @property
    def end(self) -> int:
        """Number of the minute after the last one."""
        return self.first + len(self.rps[0])

    def between(self, place: int, after: int, last: int) -> F32:
        """Minutes of a domain after one and up to another; NaN where they were not seen."""
        minutes = np.arange(max(after, last - HISTORY_MINUTES), last) + 1
        found = np.full(minutes.size, _NOT_SEEN)
        seen = (minutes >= self.first) & (minutes < self.end)
        found[seen] = self.rps[place, minutes[seen] - self.first]
        return found


def nothing_lately(domains: int) -> Lately:
    """Before the first minute."""
    return Lately(0, np.empty((domains, 0), np.float32))


def with_minute(lately: Lately, minute: int, rps: Sequence[float], recorded: int) -> Lately:
    """One more minute, without those up to `recorded` and those older than any rule looks back."""
    if minute < lately.end:
        return lately
    before = max(recorded, minute - HISTORY_MINUTES)
    columns = np.stack([lately.between(place, before, minute) for place in range(len(rps))])
    columns[:, -1:] = np.array(rps, np.float32)[:, None]
    return Lately(before + 1, columns)


def saved(lately: Lately) -> dict[str, Any]:
    """As it is saved: bytes of like weight together, of which a sixth less is left deflated."""
    by_weight = np.ascontiguousarray(lately.rps).view(np.uint8).reshape(*lately.rps.shape, 4)
    return {"first": lately.first, "planes": np.moveaxis(by_weight, -1, 0)}


def loaded(values: Mapping[str, Any]) -> Lately:
    """The reverse."""
    by_weight = np.ascontiguousarray(np.moveaxis(values["planes"], 0, -1))
    return Lately(values["first"], by_weight.view(np.float32)[..., 0])
