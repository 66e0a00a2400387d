"""What was applied lately, and so has to show in the next frames.

A lost write is asked for again in the next tick, often with another number. So a change is not
forgotten when a newer one follows: what is observed has to be a number that was in force at some
time since the settling time began.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from models.cluster.arrays import I32
from schemas.scale_applied import ScaleApplied

Asked = Mapping[str, tuple[tuple[int, int], ...]]
"""By app, ticks and the replicas that were applied in them, in order."""
SETTLE_TICKS: Final = 3
"""From the tick of a change to the frame that has to show it: a frame can be that late."""
WATCH_TICKS: Final = 12
"""For which it has to go on showing it; another owner of the app may come later than a frame."""
_NOTHING: Final = -1


def note(asked: Asked, applied: ScaleApplied, newest_tick: int) -> Asked:
    """Take in what was applied; the very same mapping where that is nothing new."""
    if applied.tick < newest_tick - SETTLE_TICKS - WATCH_TICKS:
        return asked
    fresh = {}
    for place, app in enumerate(applied.apps):
        before = asked.get(app, ())
        if applied.outcomes[place] != "applied" or (before and before[-1][0] >= applied.tick):
            continue
        replicas = applied.replicas[place]
        # A mere resize says nothing about replicas, unless we wait for other ones.
        if before or replicas != applied.replicas_before[place]:
            fresh[app] = (*before, (applied.tick, replicas))
    return {**asked, **fresh} if fresh else asked


def forget(asked: Asked, tick: int) -> Asked:
    """Drop what no frame after this one is held beside."""
    last = tick - SETTLE_TICKS - WATCH_TICKS
    return {app: _since(changes, tick) for app, changes in asked.items() if changes[-1][0] > last}


def accepted(asked: Asked, apps: Sequence[str], tick: int) -> I32:
    """[1, A, K] replicas that a frame may show; -1 fills up, and stands where nothing is judged."""
    # Few apps are changed in two minutes: the others are only looked up.
    rows = {place: _accepted(asked[app], tick) for place, app in enumerate(apps) if app in asked}
    table = np.full((1, len(apps), max(map(len, rows.values()), default=0)), _NOTHING, np.int32)
    for place, row in rows.items():
        table[0, place, : len(row)] = row
    return table


def _accepted(changes: tuple[tuple[int, int], ...], tick: int) -> list[int]:
    if changes[0][0] > tick - SETTLE_TICKS:
        return []
    return [replicas for _, replicas in _since(changes, tick)]


def _since(changes: tuple[tuple[int, int], ...], tick: int) -> tuple[tuple[int, int], ...]:
    """From the change on that was in force when the settling time began."""
    settled = sum(at <= tick - SETTLE_TICKS for at, _ in changes)
    return changes[max(settled - 1, 0) :]
