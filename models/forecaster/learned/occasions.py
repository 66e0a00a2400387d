"""What the calendar says, in numbers: how far, how much, and how it went the last times.

A *precedent* is an earlier event of the calendar, those of the same kind first: how traffic
changed then, between the same moments before or after its start, is the best guess of how it
will change now, whatever was promised.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64
from models.forecaster.learned.window_means import WindowMeans
from models.forecaster.series import Announced, Mask

HOLIDAY: Final = "holiday"
"""Entries of this kind are days off and no events."""
_NEAR_MIN: Final = 60
"""Minutes before a start from which it is that event that matters, and not the one before."""
_AFTER_MIN: Final = 180
"""Minutes after an end in which an event can still be felt."""
_FAR_MIN: Final = 240.0
_PRECEDENTS: Final = 16
_FADES: Final = 0.85
"""Weight of a precedent over that of the one after it."""
_OTHER_KIND: Final = 0.03
_SMOOTH_MIN: Final = 2
_LEAST_FACTOR: Final = 0.01
"""That can be promised: nothing at all has no logarithm."""


class Calendar(NamedTuple):
    """K entries, by start."""

    start: I64
    end: I64
    known_from: I64
    factor: F64
    kind: I64
    days_off: I64
    """[holidays, 3] first minute, the one after the last, and from which on it is known."""

    @property
    def any(self) -> bool:
        """Whether anything was ever announced."""
        return bool(self.start.size)

    def known(self, at: I64) -> "Occasions":
        """As it was at each origin."""
        visible = self.known_from <= at[:, None]
        order = np.argsort(~visible, axis=1, kind="stable")
        return Occasions(self, at, visible, order, np.cumsum(visible, axis=1) - 1)


def occasions_of(entries: Sequence[Announced]) -> Calendar:
    """The calendar as arrays."""
    events = sorted((e for e in entries if e.kind != HOLIDAY), key=lambda e: e.start_min)
    kinds = {kind: i for i, kind in enumerate(sorted({e.kind for e in events}))}
    days_off = [(e.start_min, e.end_min, e.known_from_min) for e in entries if e.kind == HOLIDAY]
    return Calendar(
        start=np.array([e.start_min for e in events], np.int64),
        end=np.array([e.end_min for e in events], np.int64),
        known_from=np.array([e.known_from_min for e in events], np.int64),
        factor=np.maximum([e.factor for e in events], _LEAST_FACTOR).astype(np.float64),
        kind=np.array([kinds[e.kind] for e in events], np.int64),
        days_off=np.array(days_off, np.int64).reshape(-1, 3),
    )


class Occasions(NamedTuple):
    """The calendar at B origins."""

    calendar: Calendar
    at: I64
    """[B]."""
    visible: Mask
    """[B, K]."""
    order: I64
    """[B, K] the visible ones first, by start."""
    place: I64
    """[B, K] where a visible one stands in `order`."""

    def during(self, first: I64, end: I64) -> tuple[F64, F64]:
        """[B, W] events announced for a window, and the logarithm of their factors.

        One that covers a part of a window counts for that part of its minutes.
        """
        calendar = self.calendar
        count, promised = np.zeros(first.shape), np.zeros(first.shape)
        for k in range(calendar.start.size):
            within = np.minimum(end, calendar.end[k]) - np.maximum(first, calendar.start[k])
            on = np.maximum(within, 0) / (end - first) * self.visible[:, k, None]
            count += on
            promised += np.log1p(on * (calendar.factor[k] - 1.0))
        return count, promised

    def holiday(self, minutes: I64) -> Mask:
        """[B, F] which minutes are on a day off."""
        off = np.zeros(minutes.shape, np.bool_)
        for first, end, known_from in self.calendar.days_off:
            off |= (minutes >= first) & (minutes < end) & (self.at[:, None] >= known_from)
        return off

    def until_next(self, then: I64) -> F64:
        """[B, F] nearness of the next start: 1 at it, 0 from far away."""
        gaps = self._gaps(then)
        return _nearness(np.where(gaps > 0, gaps, np.inf))

    def since_last(self, then: I64) -> F64:
        """[B, F] nearness of the last start: 1 at it, 0 long after."""
        gaps = self._gaps(then)
        return _nearness(np.where(gaps <= 0, -gaps, np.inf))

    def precedents(self, then: I64, rates: WindowMeans, offset: F64) -> tuple[F64, F64]:
        """[B, F] change since the origin at the precedents of what is near, and their weight."""
        if not self.calendar.any:
            return np.zeros(then.shape), np.zeros(then.shape)
        sides = [self._precedents(then[:, f], rates, offset) for f in range(then.shape[1])]
        changes, weights = zip(*sides, strict=True)
        return np.stack(changes, axis=1), np.stack(weights, axis=1)

    def _precedents(self, then: I64, rates: WindowMeans, offset: F64) -> tuple[F64, F64]:
        calendar, at = self.calendar, self.at[:, None]
        this, near = self._nearest(then)
        # Counted among what was known then: later announcements must not move the others.
        back = np.take_along_axis(self.place, this[:, None], 1) - np.arange(1, _PRECEDENTS + 1)
        before = np.take_along_axis(self.order, np.maximum(back, 0), axis=1)
        moved = (then - calendar.start[this])[:, None] + calendar.start[before]
        ahead = (then - self.at)[:, None]
        after = rates.between(moved - _SMOOTH_MIN, moved + _SMOOTH_MIN + 1)
        origin = rates.between(moved - ahead - 2 * _SMOOTH_MIN, moved - ahead + 1)
        change = np.log((after + offset[:, None]) / (origin + offset[:, None]))
        earlier = calendar.start[before] < calendar.start[this][:, None]
        usable = near[:, None] & (back >= 0) & earlier & np.isfinite(change)
        usable &= moved + _SMOOTH_MIN <= at
        alike = np.where(calendar.kind[before] == calendar.kind[this][:, None], 1.0, _OTHER_KIND)
        weight = usable * alike * _FADES ** np.arange(_PRECEDENTS)
        total = weight.sum(axis=1)
        mean = (weight * np.where(usable, change, 0.0)).sum(axis=1) / np.maximum(total, 1e-9)
        return mean, np.tanh(total)

    def _nearest(self, then: I64) -> tuple[I64, Mask]:
        """[B] the event that matters at a minute, and whether one does."""
        gaps = self._gaps(then[:, None])[:, 0]
        coming = np.where((gaps > 0) & (gaps <= _NEAR_MIN), gaps, np.inf)
        felt = then[:, None] < self.calendar.end + _AFTER_MIN
        gone = np.where((gaps <= 0) & felt, -gaps, np.inf)
        soon, late = coming.min(axis=1), gone.min(axis=1)
        this = np.where(np.isfinite(soon), coming.argmin(axis=1), gone.argmin(axis=1))
        return this, np.isfinite(soon) | np.isfinite(late)

    def _gaps(self, then: I64) -> F64:
        """[B, F, K] minutes until each start; infinite for what is not known yet."""
        gaps = self.calendar.start - then[..., None].astype(np.float64)
        # Neither before nor after: a NaN compares as false either way.
        return np.where(self.visible[:, None, :], gaps, np.nan)


def _nearness(minutes: F64) -> F64:
    """Of the nearest on the last axis: 1 at it, 0 from far away."""
    nearest = np.min(minutes, axis=-1, initial=np.inf)
    return np.asarray(np.maximum(0.0, 1.0 - nearest / _FAR_MIN))
