"""Cut the part of a trace that a scenario plays, with the history that leads up to it."""

from pathlib import Path

import numpy as np

from models.cluster.arrays import F32
from models.cluster.calendar import DAY_MINUTES, HISTORY_MINUTES
from models.inputs.errors import input_error
from models.sim.describe.events import Replay
from models.sim.describe.timeline import Timeline
from models.sim.describe.trace_csv import load_trace


def replay_minutes(times: Timeline) -> int:
    """Minutes a replayed series covers: the history before tick 0, and the scenario.

    One more, as the traffic within the last minute is on its way to the next.
    """
    return HISTORY_MINUTES + times.total_minutes + 1


def replay_series(entry: Replay, times: Timeline) -> F32:
    """Traffic per minute over the mean of what is played, from 14 days before tick 0.

    A trace too short for history and scenario is repeated by whole days, so that its time
    of day stays in step; minutes after its last whole day are left out.
    """
    file = Path(entry.file)
    trace = load_trace(file, entry.column, entry.time_column)
    needed = replay_minutes(times)
    before = HISTORY_MINUTES + times.warmup_minutes
    first = 0 if entry.start_minute is None else entry.start_minute - before
    if len(trace.values) >= needed:
        played = _cut(file, trace.values, first, needed, before)
    else:
        played = _repeat(file, trace.values, first, needed)
    mean = float(played.mean(dtype=np.float64))
    if mean <= 0:
        raise input_error(file, trace.column, "expected some traffic above zero")
    return np.asarray(played / mean, dtype=np.float32)


def _cut(file: Path, values: F32, first: int, needed: int, before: int) -> F32:
    """A long trace is not repeated: its end must not turn up in its own history."""
    last = len(values) - needed
    if not 0 <= first <= last:
        raise input_error(
            file,
            "start_minute",
            f"expected from {before} (14 days of history and the warm-up)"
            f" to {before + last} (the whole scenario), got {before + first}",
        )
    return values[first : first + needed]


def _repeat(file: Path, values: F32, first: int, needed: int) -> F32:
    whole = len(values) // DAY_MINUTES * DAY_MINUTES
    if not whole:
        raise input_error(file, "", f"expected at least one whole day, got {len(values)} minutes")
    return values[(first + np.arange(needed)) % whole]
