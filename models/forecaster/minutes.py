"""Samples of each tick become means of minutes, per app and per domain.

A sample is ignored if it is missing, out of range, or zero while the app has pods or works on (an
exporter that reports zero on errors): the app keeps its last valid minute. No traffic and no data
must stay distinguishable.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, I8, I32
from models.cluster.observation import Observation
from models.jit import kernel

_LARGEST: Final = np.float32(1e12)
"""No valid rate is larger; the features (`models/features/memory.py`) have the same bound."""
_BUSY: Final = np.float32(0.1)
"""Share of its last CPU use at which an app is still at work."""
# float32, because a plain 0.0 in a kernel would turn the arithmetic around it into float64.
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


class MinuteMeans(NamedTuple):
    """What a forecaster keeps of its observations; updated in place.

    E environments in lock-step, A apps, D domains, W minutes.
    """

    tick: I32
    """[E] of the last observation; -1 before the first."""
    total: F32
    """[E, A] sum of the valid samples of the current minute."""
    samples: F32
    """[E, A] number of valid samples in the current minute."""
    app: F32
    """[E, A] requests per second of the last minute with a valid sample."""
    cpu: F32
    """[E, A] cores used in the last valid sample."""
    domain: F32
    """[E, D, W] requests per second of the last minutes, the newest last."""
    observed: I8
    """[E, D] 1 where an app of the domain had a valid sample in the newest minute."""


def start_minutes(observation: Observation, recent: F32) -> MinuteMeans:
    """Start with recorded minutes `recent` [E, D, W], which serve until the first sample."""
    shape = observation.missing.shape
    return MinuteMeans(
        tick=np.full(shape[0], -1, np.int32),
        total=np.zeros(shape, np.float32),
        samples=np.zeros(shape, np.float32),
        app=np.zeros(shape, np.float32),
        cpu=np.zeros(shape, np.float32),
        domain=recent.copy(),
        observed=np.zeros(recent.shape[:2], np.int8),
    )


def add_tick(observation: Observation, minutes: MinuteMeans, ticks_per_minute: int) -> bool:
    """Add a tick and return whether it closed a minute. A repeated tick changes nothing."""
    # Environments are in lock-step, so the tick of the first is the tick of all.
    tick, before = int(observation.tick[0]), int(minutes.tick[0])
    if tick <= before:
        return False
    minutes.tick[:] = tick
    # Ticks 6n + 1 to 6n + 6 are minute n. Where the last of them was lost, the minute ends with the
    # next one: its samples must not be mixed with those of another minute.
    late = before >= 0 and (tick - 1) // ticks_per_minute > before // ticks_per_minute
    if late:
        _end_minute(observation, minutes)
    _add(observation.measured, observation.missing, minutes)
    ends = tick % ticks_per_minute == 0
    if ends:
        _end_minute(observation, minutes)
    return late or ends


def _end_minute(observation: Observation, minutes: MinuteMeans) -> None:
    # `domain` repeats the last value if no sample arrived; `observed` tells this from a real value.
    minutes.observed[:] = 0
    # Before the first valid sample the recorded minutes stay the newest.
    if minutes.samples.any():
        minutes.domain[:, :, :-1] = minutes.domain[:, :, 1:]
        _close(observation.status, minutes)


@kernel
def _add(measured: F32, missing: I8, minutes: MinuteMeans) -> None:
    for e in range(missing.shape[0]):
        readings, total, count = measured[e], minutes.total[e], minutes.samples[e]
        rps, memory, pods = readings[rows.RPS], readings[rows.MEMORY], readings[rows.PODS]
        cpu, last_cpu, last_rps = readings[rows.CPU], minutes.cpu[e], minutes.app[e]
        for app in range(rps.size):
            # NaN fails both comparisons, infinity the second.
            in_range = (missing[e, app] == 0) & (rps[app] >= _ZERO) & (rps[app] <= _LARGEST)
            # A running pod uses some memory, so all zeros means a broken exporter. HPA's
            # pipeline reports neither memory nor pods.
            all_zero = rps[app] + memory[app] == _ZERO
            works = (cpu[app] > _ZERO) & (cpu[app] >= _BUSY * last_cpu[app])
            silent = (rps[app] == _ZERO) & works & (last_rps[app] > _ZERO)
            valid = in_range & ((not all_zero) | (pods[app] == _ZERO)) & (not silent)
            last_cpu[app] = cpu[app] if valid else last_cpu[app]
            total[app] += rps[app] if valid else _ZERO
            count[app] += _ONE if valid else _ZERO


@kernel
def _close(status: I32, minutes: MinuteMeans) -> None:
    """Undeclared apps count as zero, and their last minute is dropped."""
    last = minutes.domain.shape[2] - 1
    for e in range(status.shape[0]):
        total, count, mean = minutes.total[e], minutes.samples[e], minutes.app[e]
        domain, active = status[e, rows.DOMAIN], status[e, rows.ACTIVE]
        minutes.domain[e, :, last] = 0.0
        for app in range(mean.size):
            if (count[app] > _ZERO) & (active[app] == 1):
                minutes.observed[e, domain[app]] = 1
            # Without a valid sample the last minute is repeated: missing metrics must never read as
            # less traffic.
            newest = total[app] / count[app] if count[app] > _ZERO else mean[app]
            mean[app] = newest * np.float32(active[app])
            total[app] = _ZERO
            count[app] = _ZERO
            minutes.domain[e, domain[app], last] += mean[app]
