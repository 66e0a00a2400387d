"""Samples of each tick become means of minutes, per app and per domain.

A sample that is missing, broken, or zero in every row while pods are there (an exporter that
answers zero on errors) says nothing: the app keeps the last minute it was seen in. No traffic
and no news must not look alike.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, I8, I32
from models.cluster.observation import ACTIVE, DOMAIN, MEMORY, PODS, RPS, Observation
from models.jit import kernel

_LARGEST: Final = np.float32(1e12)
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


class Minutes(NamedTuple):
    """What a forecaster remembers of its observations; updated in place.

    E environments in lock-step, A apps, D domains, W minutes.
    """

    tick: I32
    """[E] of the last observation; -1 before the first."""
    total: F32
    """[E, A] sum of the valid samples of the minute that is under way."""
    samples: F32
    """[E, A] how many these are."""
    app: F32
    """[E, A] requests per second of the last minute the app was seen in."""
    domain: F32
    """[E, D, W] requests per second of the last minutes, the newest last."""
    heard: I8
    """[E, D] 1 where an app of the domain was seen in the newest of them."""


def start_minutes(observation: Observation, recent: F32) -> Minutes:
    """Before the first sample the recorded minutes `recent` [E, D, W] stand for the present."""
    shape = observation.missing.shape
    return Minutes(
        tick=np.full(shape[0], -1, np.int32),
        total=np.zeros(shape, np.float32),
        samples=np.zeros(shape, np.float32),
        app=np.zeros(shape, np.float32),
        domain=recent.copy(),
        heard=np.zeros(recent.shape[:2], np.int8),
    )


def take_in(observation: Observation, minutes: Minutes, ticks_per_minute: int) -> bool:
    """Add a tick; returns whether it closed a minute. A tick seen again changes nothing."""
    tick = int(observation.tick[0])
    if tick <= int(minutes.tick[0]):
        return False
    minutes.tick[:] = tick
    _add(observation.measured, observation.missing, minutes)
    if tick % ticks_per_minute != 0:
        return False
    minutes.heard[:] = 0
    # Nothing is known before the first sample: the recorded minutes stay the newest.
    if minutes.samples.any():
        minutes.domain[:, :, :-1] = minutes.domain[:, :, 1:]
        _close(observation.status, minutes)
    return True


@kernel
def _add(measured: F32, missing: I8, minutes: Minutes) -> None:
    for e in range(missing.shape[0]):
        rows, total, count = measured[e], minutes.total[e], minutes.samples[e]
        rps, memory, pods = rows[RPS], rows[MEMORY], rows[PODS]
        for app in range(rps.size):
            sound = (missing[e, app] == 0) & (rps[app] >= _ZERO) & (rps[app] <= _LARGEST)
            # A pod that lives holds some memory; HPA's pipeline carries neither row.
            hollow = rps[app] + memory[app] == _ZERO
            valid = sound & ((not hollow) | (pods[app] == _ZERO))
            total[app] += rps[app] if valid else _ZERO
            count[app] += _ONE if valid else _ZERO


@kernel
def _close(status: I32, minutes: Minutes) -> None:
    """Apps that are not declared count for nothing and are forgotten."""
    last = minutes.domain.shape[2] - 1
    for e in range(status.shape[0]):
        total, count, mean = minutes.total[e], minutes.samples[e], minutes.app[e]
        domain, active = status[e, DOMAIN], status[e, ACTIVE]
        minutes.domain[e, :, last] = 0.0
        for app in range(mean.size):
            if (count[app] > _ZERO) & (active[app] == 1):
                minutes.heard[e, domain[app]] = 1
            seen = total[app] / count[app] if count[app] > _ZERO else mean[app]
            mean[app] = seen * np.float32(active[app])
            total[app] = _ZERO
            count[app] = _ZERO
            minutes.domain[e, domain[app], last] += mean[app]
