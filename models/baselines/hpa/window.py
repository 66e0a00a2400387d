"""Stabilisation of an HPA without a `behavior` field: the highest recommendation of a window.

This is the controller's older algorithm and differs from the default behaviour: the window
includes its end, and a step up is limited to doubling, or to four replicas in all.

The maximum of the sliding window needs no search. Rows before `SPLIT` hold the maximum from
themselves to the split, and the maximum since the split is kept beside them. When a row after the
split leaves the window, the split moves to the present. So each step costs the same few row
operations, and rows may have any times.

A sync has either a recommendation, which is not negative, or one of the negative codes below that
give the reason for having none. So a maximum of both ignores the codes.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import I32, I64
from models.jit import kernel

NO_METRIC: Final = np.int32(-1)
"""The metric failed, or there are no replicas to measure: hold, and store nothing."""
OUTSIDE: Final = np.int32(-2)
"""Replicas outside the bounds: the controller corrects them without reading a metric."""
NOT_DUE: Final = np.int32(-3)
"""No sync in this tick: HPA syncs every 15 s, a tick has 10."""
ABSENT: Final = np.int32(-4)
"""The HPA does not exist now; forget its recommendations."""

NOTHING: Final = np.int32(-1)
"""In a row of the window, like any negative number: no recommendation."""
STEP, SPLIT, OLDEST = range(3)
"""Rows of `Window.marks`: syncs so far, first one after the split, first one in the window."""
FRESH: Final = np.int32(-5)
"""Instead of the highest recommendation, until the first sync."""
_STEP_LEAST: Final = np.int32(4)
"""The controller's `scaleUpLimitMinimum`."""


class Window(NamedTuple):
    """Recommendations of A apps in the last R steps."""

    highest_from: I32
    """[R, A] by step modulo R; negative for none."""
    highest: I32
    """[A] since the split. FRESH until the first sync, which remembers the replicas it finds."""
    millis: I64
    """[R] time of the step."""
    marks: I64
    """[3]."""


def empty_window(steps: int, apps: int) -> Window:
    """Empty; `steps` must cover a window and the present."""
    return Window(
        highest_from=np.full((steps, apps), NOTHING, np.int32),
        highest=np.full(apps, FRESH, np.int32),
        millis=np.zeros(steps, np.int64),
        marks=np.zeros(3, np.int64),
    )


@kernel
def open_step(window: Window, now_millis: int, window_millis: int) -> None:
    """Begin a step: make room for its recommendations and drop those that are too old."""
    marks, rows = window.marks, window.millis.size
    step = marks[STEP]
    # Strictly older than the window; a full ring drops its oldest row in any case.
    while marks[OLDEST] < step and (
        now_millis - window.millis[marks[OLDEST] % rows] > window_millis
        or step - marks[OLDEST] >= rows
    ):
        marks[OLDEST] += 1
    if marks[OLDEST] > marks[SPLIT]:
        _split_here(window)
    window.millis[step % rows] = now_millis
    marks[STEP] += 1


@kernel
def _split_here(window: Window) -> None:
    marks, rows = window.marks, window.millis.size
    for step in range(marks[STEP] - 2, marks[OLDEST] - 1, -1):
        _raise_row(window.highest_from[step % rows], window.highest_from[(step + 1) % rows])
    for app in range(window.highest.size):
        # FRESH is below NOTHING and survives: an app without a sync stays new.
        window.highest[app] = min(window.highest[app], NOTHING)
    marks[SPLIT] = marks[STEP]


@kernel
def _raise_row(row: I32, other: I32) -> None:
    for app in range(row.size):
        row[app] = max(row[app], other[app])


@kernel
def stabilise(window: Window, wanted: I32, current: I32, out: I32) -> None:
    """Store what is `wanted` now; `out` becomes the maximum of the window."""
    marks, rows = window.marks, window.millis.size
    present = window.highest_from[(marks[STEP] - 1) % rows]
    _remember(wanted, current, window.highest, present)
    if marks[OLDEST] < marks[SPLIT]:
        _higher(window.highest, window.highest_from[marks[OLDEST] % rows], out)
    else:
        _higher(window.highest, window.highest, out)


@kernel
def _remember(wanted: I32, current: I32, highest: I32, present: I32) -> None:
    for app in range(wanted.size):
        synced, before = is_sync(wanted[app]), highest[app]
        # The first sync also stores the replicas it finds, as the controller does: a new HPA
        # doesn't scale in before a window has passed.
        first = current[app] if synced and before == FRESH else NOTHING
        present[app] = max(wanted[app], first)
        highest[app] = max(before, present[app]) if synced else before


@kernel
def _higher(one: I32, other: I32, out: I32) -> None:
    for app in range(out.size):
        out[app] = max(one[app], other[app])


@kernel
def forget(window: Window, app: int) -> None:
    """Clear the window of a removed app; a new app of that name starts afresh."""
    for row in range(window.millis.size):
        window.highest_from[row, app] = NOTHING
    window.highest[app] = FRESH


@kernel
def limit(wanted: I32, current: I32, least: I32, most: I32, replicas: I32) -> None:
    """Limit `replicas`, the maximum of the window, to one step."""
    for app in range(replicas.size):
        now = current[app]
        # At most double, or up to four: the limit of the controller when there are no policies.
        up = min(most[app], max(np.int32(2 * now), _STEP_LEAST))
        stepped = min(max(replicas[app], least[app]), up)
        held = bounded(now, least[app], most[app]) if wanted[app] == OUTSIDE else now
        replicas[app] = stepped if wanted[app] >= 0 else held


Whole = int | np.int32


@kernel
def gate(recommended: Whole, current: int, least: int, most: int, scalable: bool) -> Whole:
    """The recommendation, or a code if a check fails before it; zero replicas switch an HPA off."""
    # Zero is checked before the bounds: a minimum of 1 does not wake an HPA that is switched off.
    allowed = recommended if least <= current <= most else OUTSIDE
    return allowed if scalable else NO_METRIC


@kernel
def is_sync(wanted: int) -> bool:
    """Whether the HPA was synced, with or without a recommendation."""
    # Syncs without a metric count: they too seed the window of a new HPA.
    return bool(wanted >= OUTSIDE)


@kernel
def bounded(current: int, least: int, most: int) -> int:
    """The nearest number within the bounds."""
    return min(max(current, least), most)
