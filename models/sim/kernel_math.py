"""Fast float32 functions for loops that must vectorise: exponentials and latency tails.

A tick evaluates `tail` twice per app (latency target, timeout). It has no branches and no library
calls, so a loop over apps vectorises and costs less than a nanosecond per app.
"""

from typing import Final

import numpy as np

from models.jit import kernel

# Constants are float32, because a float64 literal would promote the arithmetic.
_ZERO: Final = np.float32(0.0)
_HALF: Final = np.float32(0.5)
_ONE: Final = np.float32(1.0)
_LOG2_50: Final = np.float32(5.643856)
_LOG2_E: Final = np.float32(1.442695)
_SPAN_MIN: Final = np.float32(1e-30)
_HALVINGS_MAX: Final = np.float32(39.0)
# 2**-f on [0, 1] within 4e-6, exactly 1 and 1/2 at its ends so that octaves join.
_POW_1: Final = np.float32(-0.69305587)
_POW_2: Final = np.float32(0.23940568)
_POW_3: Final = np.float32(-0.05312768)
_POW_4: Final = np.float32(0.0067778737)

Real = float | np.float32


@kernel
def tail(p50: Real, p99: Real, x: Real) -> np.float32:
    """Share of requests slower than `x`, from two latency quantiles in the same unit as `x`.

    Above the median an exponential through both quantiles (exact for one server), below it a
    line from 1. An infinite `x` means no target: 0. An infinite median means that all are slower.
    """
    median, limit = np.float32(p50), np.float32(x)
    span = max(np.float32(p99) - median, _SPAN_MIN)
    early = limit < median
    # Both cases are computed and one is chosen: a branch would prevent vectorising.
    ratio = (limit if early else limit - median) / (median if early else span)
    return min(_ONE, _ONE - _HALF * ratio) if early else _HALF * halved(_LOG2_50 * ratio)


@kernel
def halved(times: Real) -> np.float32:
    """2**-times for times >= 0 without a library call; 0 from 39 on, and for nan."""
    relevant = times < _HALVINGS_MAX
    y = np.float32(times) if relevant else _ZERO
    whole = np.int32(y)
    f = y - np.float32(whole)
    fraction = _ONE + f * (_POW_1 + f * (_POW_2 + f * (_POW_3 + f * _POW_4)))
    # A float32 with this exponent and no mantissa is the power of two.
    power = np.int32((127 - whole) << 23).view(np.float32)
    return fraction * power if relevant else _ZERO


@kernel
def exponential(x: Real) -> np.float32:
    """exp(x), exact to a few millionths."""
    y = np.float32(x) * _LOG2_E
    power = halved(abs(y))
    return power if y < _ZERO else _ONE / power
