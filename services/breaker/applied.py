"""Applied changes, which the next frames have to show.

A lost write is requested again in the next tick, often with another number. So a newer change
does not replace an older one: the observed replicas have to be a number that was in force at
some time since the settling time began.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from models.cluster.arrays import I32
from schemas.scale_applied import ScaleApplied

Applied = Mapping[str, tuple[tuple[int, int], ...]]
"""By app: ticks of changes and the replicas they applied, in order."""
SETTLE_TICKS: Final = 3
"""Ticks after which the frames have to show a change: frames can be this late."""
WATCH_TICKS: Final = 12
"""Ticks for which frames have to keep showing it: another owner may change the app later."""
_NO_REPLICAS: Final = -1
_INTENDED: Final = ("breaker-", "hold-")
"""How the reasons of holds begin that breakers and rules make on purpose."""
_ORDERED: Final = frozenset({"off", "preview", "not-in-canary", "paused", "override"})
"""Holds that an operator asked for."""


def held_changes(event: ScaleApplied) -> tuple[int, int]:
    """Number of changes that the actuator tried to make, and how many of them failed."""
    made = event.outcomes.count("applied")
    failed = sum(
        outcome == "held"
        # Behind the colon is what a target says about it.
        and reason.partition(":")[0] not in _ORDERED
        and not reason.startswith(_INTENDED)
        for outcome, reason in zip(event.outcomes, event.reasons, strict=True)
    )
    return made + failed, failed


def with_applied(applied: Applied, event: ScaleApplied, newest_tick: int) -> Applied:
    """Add applied changes; the same mapping if there are none."""
    # Delivered late or repeated: no later frame is compared with it.
    if event.tick < newest_tick - SETTLE_TICKS - WATCH_TICKS:
        return applied
    added = {}
    for index, app in enumerate(event.apps):
        before = applied.get(app, ())
        if event.outcomes[index] != "applied" or (before and before[-1][0] >= event.tick):
            continue
        replicas = event.replicas[index]
        # A mere resize says nothing about replicas, unless a change of them is still watched.
        if before or replicas != event.replicas_before[index]:
            added[app] = (*before, (event.tick, replicas))
    return {**applied, **added} if added else applied


def without_expired(applied: Applied, tick: int) -> Applied:
    """Drop the changes that no frame after this tick is compared with."""
    last = tick - SETTLE_TICKS - WATCH_TICKS
    return {
        app: _in_force(changes, tick) for app, changes in applied.items() if changes[-1][0] > last
    }


def accepted_replicas(applied: Applied, apps: Sequence[str], tick: int) -> I32:
    """[1, A, K] replicas that a frame may show; -1 pads, and marks apps that are not judged."""
    # Few apps change within two minutes: look only those up.
    changed = [(index, applied[app]) for index, app in enumerate(apps) if app in applied]
    rows = {index: _accepted(changes, tick) for index, changes in changed}
    width = max(map(len, rows.values()), default=0)
    table = np.full((1, len(apps), width), _NO_REPLICAS, np.int32)
    for index, row in rows.items():
        table[0, index, : len(row)] = row
    return table


def _accepted(changes: tuple[tuple[int, int], ...], tick: int) -> list[int]:
    if changes[0][0] > tick - SETTLE_TICKS:
        return []
    return [replicas for _, replicas in _in_force(changes, tick)]


def _in_force(changes: tuple[tuple[int, int], ...], tick: int) -> tuple[tuple[int, int], ...]:
    """The change that was in force when the settling time began, and all later ones."""
    settled = sum(at <= tick - SETTLE_TICKS for at, _ in changes)
    return changes[max(settled - 1, 0) :]
