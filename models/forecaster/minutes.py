"""Samples of each tick become means of minutes, per app and per domain.

A sample is ignored if it is missing, out of range, or zero in every row while pods exist (an
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
        domain=recent.copy(),
        observed=np.zeros(recent.shape[:2], np.int8),
    )


def add_tick(observation: Observation, minutes: MinuteMeans, ticks_per_minute: int) -> bool:
    """Add a tick and return whether it closed a minute. A repeated tick changes nothing."""
    # Environments are in lock-step, so the tick of the first is the tick of all.
    tick = int(observation.tick[0])
    if tick <= int(minutes.tick[0]):
        return False
    minutes.tick[:] = tick
    _add(observation.measured, observation.missing, minutes)
    if tick % ticks_per_minute != 0:
        return False
    # `domain` repeats the last value if no sample arrived; `observed` tells this from a real value.
    minutes.observed[:] = 0
    # Before the first valid sample the recorded minutes stay the newest.
    if minutes.samples.any():
        minutes.domain[:, :, :-1] = minutes.domain[:, :, 1:]
        _close(observation.status, minutes)
    return True


@kernel
def _add(measured: F32, missing: I8, minutes: MinuteMeans) -> None:
    for e in range(missing.shape[0]):
        readings, total, count = measured[e], minutes.total[e], minutes.samples[e]
        rps, memory, pods = readings[rows.RPS], readings[rows.MEMORY], readings[rows.PODS]
        for app in range(rps.size):
            # NaN fails both comparisons, infinity the second.
            in_range = (missing[e, app] == 0) & (rps[app] >= _ZERO) & (rps[app] <= _LARGEST)
            # A running pod uses some memory, so all zeros means a broken exporter. HPA's
            # pipeline reports neither memory nor pods.
            all_zero = rps[app] + memory[app] == _ZERO
            valid = in_range & ((not all_zero) | (pods[app] == _ZERO))
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
