"""Stabilisation of an HPA without a `behavior` field: the highest recommendation of the window.

This is the older algorithm of the controller and not the same as the default behaviour: the
window's end counts, and a step up is limited to doubling or four replicas in all.

The highest of a sliding window comes without a search: rows before `SPLIT` hold the highest of
themselves up to the split, the highest since then is kept beside them, and when a row after the
split leaves the window, the split moves to the present. So the work is the same few row
operations whatever is recommended, and rows may have any times.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import I32, I64
from models.jit import kernel

NOTHING: Final = np.int32(-1)
STEP, SPLIT, OLDEST = range(3)
"""Rows of `Window.marks`: syncs so far, first one after the split, first one in the window."""
FRESH: Final = np.int32(-5)
"""In place of the highest recommendation until the first sync."""
_STEP_LEAST: Final = np.int32(4)


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
    """Nothing remembered; `steps` must hold all of a window and the present."""
    return Window(
        highest_from=np.full((steps, apps), NOTHING, np.int32),
        highest=np.full(apps, FRESH, np.int32),
        millis=np.zeros(steps, np.int64),
        marks=np.zeros(3, np.int64),
    )


@kernel
def open_step(window: Window, now_millis: int, window_millis: int) -> None:
    """Make room for the recommendations of this moment and let go of those too old."""
    marks, rows = window.marks, window.millis.size
    step = marks[STEP]
    # Older than the window, strictly; a row that is needed again has no choice.
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
        window.highest[app] = min(window.highest[app], NOTHING)
    marks[SPLIT] = marks[STEP]


@kernel
def _raise_row(row: I32, other: I32) -> None:
    for app in range(row.size):
        row[app] = max(row[app], other[app])


@kernel
def stabilise(window: Window, wanted: I32, current: I32, out: I32) -> None:
    """Remember what is `wanted` now; `out` becomes the highest of the window."""
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
        first = current[app] if synced and before == FRESH else NOTHING
        present[app] = max(wanted[app], first)
        highest[app] = max(before, present[app]) if synced else before


@kernel
def _higher(one: I32, other: I32, out: I32) -> None:
    for app in range(out.size):
        out[app] = max(one[app], other[app])


@kernel
def forget(window: Window, app: int) -> None:
    """The HPA of an app is gone; another one of that name begins anew."""
    for row in range(window.millis.size):
        window.highest_from[row, app] = NOTHING
    window.highest[app] = FRESH


@kernel
def limit(wanted: I32, current: I32, least: I32, most: I32, replicas: I32) -> None:
    """`replicas` come in as the highest of the window and go out after the limits of a step."""
    for app in range(replicas.size):
        now = current[app]
        up = min(most[app], max(np.int32(2 * now), _STEP_LEAST))
        stepped = min(max(replicas[app], least[app]), up)
        held = bounded(now, least[app], most[app]) if wanted[app] == OUTSIDE else now
        replicas[app] = stepped if wanted[app] >= 0 else held


NO_METRIC: Final = np.int32(-1)
"""The metric failed, or there are no replicas to measure: hold, and remember nothing."""
OUTSIDE: Final = np.int32(-2)
"""More replicas than the maximum or fewer than the minimum: no metric is asked for."""
NOT_DUE: Final = np.int32(-3)
ABSENT: Final = np.int32(-4)
"""There is no such HPA now; what it remembered is forgotten."""


Whole = int | np.int32


@kernel
def gate(recommended: Whole, current: int, least: int, most: int, scalable: bool) -> Whole:
    """What the checks before the metric leave of it; without replicas an HPA is switched off."""
    allowed = recommended if least <= current <= most else OUTSIDE
    return allowed if scalable else NO_METRIC


@kernel
def is_sync(wanted: int) -> bool:
    """Whether the HPA was looked at, whatever came of it."""
    return bool(wanted >= OUTSIDE)


@kernel
def bounded(current: int, least: int, most: int) -> int:
    """The nearest number that is allowed."""
    return min(max(current, least), most)
