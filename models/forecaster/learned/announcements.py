"""The announced events as inputs of the network: how near, how large, and how earlier ones went.

A *precedent* is an earlier event of the calendar, preferably of the same kind. How traffic changed
then, between the same moments relative to its start, is the best guess of how it changes now,
whatever factor was announced.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64, Mask
from models.forecaster.learned.window_means import WindowMeans
from models.forecaster.series import Announced

# The numbers below are part of a trained network: with others its inputs mean something else, and
# its card, which lists names only, does not notice. Change one, and train again. They were chosen
# by hand; no record compares other values.
HOLIDAY: Final = "holiday"
"""Entries of this kind are days off, not events."""
_NEAR_MIN: Final = 60
"""Minutes before its start from which an event matters more than the one before it."""
_AFTER_MIN: Final = 180
"""Minutes after its end during which an event can still have an effect."""
_FAR_MIN: Final = 240.0
"""Minutes from a start at which its nearness has fallen to 0."""
_PRECEDENTS: Final = 16
"""Earlier events that are read. The oldest weighs a tenth of the newest (see `_FADES`)."""
_FADES: Final = 0.85
"""Weight of a precedent over that of the next, more recent one."""
_OTHER_KIND: Final = 0.03
"""Weight of a precedent of another kind."""
_SMOOTH_MIN: Final = 2
"""Minutes on either side of a moment that are averaged, because a single minute is mostly noise."""
_LEAST_FACTOR: Final = 0.01
"""Smallest announced factor that is used, because 0 has no logarithm."""


class EventTable(NamedTuple):
    """K announced events, by start."""

    start: I64
    end: I64
    announced_from: I64
    """First minute at which the event was in the calendar."""
    factor: F64
    kind: I64
    days_off: I64
    """[holidays, 3] first minute, the one after the last, and that of the announcement."""

    @property
    def any(self) -> bool:
        """Whether anything was ever announced."""
        return bool(self.start.size)

    def visible_at(self, at: I64) -> "VisibleEvents":
        """The calendar as it was at each origin."""
        visible = self.announced_from <= at[:, None]
        # Stable, so that visible events stay in the order of their starts.
        order = np.argsort(~visible, axis=1, kind="stable")
        return VisibleEvents(self, at, visible, order, np.cumsum(visible, axis=1) - 1)


def event_table(entries: Sequence[Announced]) -> EventTable:
    """Announced entries as arrays."""
    events = sorted((e for e in entries if e.kind != HOLIDAY), key=lambda e: e.start_min)
    kinds = {kind: i for i, kind in enumerate(sorted({e.kind for e in events}))}
    days_off = [
        (e.start_min, e.end_min, e.announced_from_min) for e in entries if e.kind == HOLIDAY
    ]
    return EventTable(
        start=np.array([e.start_min for e in events], np.int64),
        end=np.array([e.end_min for e in events], np.int64),
        announced_from=np.array([e.announced_from_min for e in events], np.int64),
        factor=np.maximum([e.factor for e in events], _LEAST_FACTOR).astype(np.float64),
        kind=np.array([kinds[e.kind] for e in events], np.int64),
        days_off=np.array(days_off, np.int64).reshape(-1, 3),
    )


class VisibleEvents(NamedTuple):
    """The calendar at B origins: only what was announced by then counts."""

    table: EventTable
    at: I64
    """[B]."""
    visible: Mask
    """[B, K]."""
    order: I64
    """[B, K] indices of events, the visible ones first, by start."""
    rank: I64
    """[B, K] position of a visible event in `order`."""

    def during(self, first: I64, end: I64) -> tuple[F64, F64]:
        """[B, W] number of events announced for a window, and the logarithm of their factors.

        An event that covers a part of a window counts for that part of its minutes.
        """
        table = self.table
        count, log_factor = np.zeros(first.shape), np.zeros(first.shape)
        for k in range(table.start.size):
            within = np.minimum(end, table.end[k]) - np.maximum(first, table.start[k])
            share = np.maximum(within, 0) / (end - first) * self.visible[:, k, None]
            count += share
            # In proportion to the covered part: with its full factor, a short event that is over
            # would seem to end a second time.
            log_factor += np.log1p(share * (table.factor[k] - 1.0))
        return count, log_factor

    def holiday(self, minutes: I64) -> Mask:
        """[B, F] which minutes are on a day off."""
        off = np.zeros(minutes.shape, np.bool_)
        for first, end, announced_from in self.table.days_off:
            off |= (minutes >= first) & (minutes < end) & (self.at[:, None] >= announced_from)
        return off

    def until_next(self, then: I64) -> F64:
        """[B, F] nearness of the next start: 1 at the start, 0 far before it."""
        gaps = self._gaps(then)
        return _nearness(np.where(gaps > 0, gaps, np.inf))

    def since_last(self, then: I64) -> F64:
        """[B, F] nearness of the last start: 1 at the start, 0 long after it."""
        gaps = self._gaps(then)
        return _nearness(np.where(gaps <= 0, -gaps, np.inf))

    def precedents(self, then: I64, rates: WindowMeans, offset: F64) -> tuple[F64, F64]:
        """[B, F] log change since the origin at precedents of the near event, and their weight."""
        if not self.table.any:
            return np.zeros(then.shape), np.zeros(then.shape)
        columns = [self._precedents(then[:, f], rates, offset) for f in range(then.shape[1])]
        changes, weights = zip(*columns, strict=True)
        return np.stack(changes, axis=1), np.stack(weights, axis=1)

    def _precedents(self, then: I64, rates: WindowMeans, offset: F64) -> tuple[F64, F64]:
        table, at = self.table, self.at[:, None]
        nearest, near = self._nearest(then)
        # Count back among visible events only: a later announcement must not shift the others.
        back = np.take_along_axis(self.rank, nearest[:, None], 1) - np.arange(1, _PRECEDENTS + 1)
        before = np.take_along_axis(self.order, np.maximum(back, 0), axis=1)
        # The same moment relative to the start of each precedent.
        moved = (then - table.start[nearest])[:, None] + table.start[before]
        ahead = (then - self.at)[:, None]
        after = rates.between(moved - _SMOOTH_MIN, moved + _SMOOTH_MIN + 1)
        # Ends at the precedent's own origin, because at an origin no later minute is known.
        origin = rates.between(moved - ahead - 2 * _SMOOTH_MIN, moved - ahead + 1)
        change = np.log((after + offset[:, None]) / (origin + offset[:, None]))
        earlier = table.start[before] < table.start[nearest][:, None]
        usable = near[:, None] & (back >= 0) & earlier & np.isfinite(change)
        # Minutes of a precedent after the origin would leak the future.
        usable &= moved + _SMOOTH_MIN <= at
        alike = np.where(table.kind[before] == table.kind[nearest][:, None], 1.0, _OTHER_KIND)
        weight = usable * alike * _FADES ** np.arange(_PRECEDENTS)
        total = weight.sum(axis=1)
        mean = (weight * np.where(usable, change, 0.0)).sum(axis=1) / np.maximum(total, 1e-9)
        # The weight is an input as well; tanh bounds it for any number of precedents.
        return mean, np.tanh(total)

    def _nearest(self, then: I64) -> tuple[I64, Mask]:
        """[B] the event that matters at a minute, and whether there is one."""
        gaps = self._gaps(then[:, None])[:, 0]
        coming = np.where((gaps > 0) & (gaps <= _NEAR_MIN), gaps, np.inf)
        has_effect = then[:, None] < self.table.end + _AFTER_MIN
        # Of several events that have begun, the latest start matters.
        begun = np.where((gaps <= 0) & has_effect, -gaps, np.inf)
        soonest, latest = coming.min(axis=1), begun.min(axis=1)
        nearest = np.where(np.isfinite(soonest), coming.argmin(axis=1), begun.argmin(axis=1))
        return nearest, np.isfinite(soonest) | np.isfinite(latest)

    def _gaps(self, then: I64) -> F64:
        """[B, F, K] minutes until each start; NaN for events that are not visible."""
        gaps = self.table.start - then[..., None].astype(np.float64)
        # NaN compares as false, so an invisible event is neither before nor after.
        return np.where(self.visible[:, None, :], gaps, np.nan)


def _nearness(minutes: F64) -> F64:
    """Nearness of the nearest event on the last axis, from 1 down to 0 at _FAR_MIN."""
    nearest = np.min(minutes, axis=-1, initial=np.inf)
    return np.asarray(np.maximum(0.0, 1.0 - nearest / _FAR_MIN))
