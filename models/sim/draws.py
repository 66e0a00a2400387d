"""Random draws as functions of (seed, purpose, entity, ordinal, tick).

There is no stream to consume from: a controller that starts more pods cannot shift the traffic,
the churn or the faults of the same seed. The hash is the finaliser of splitmix64, applied once per
argument, so neighbouring draws are practically independent. Where all apps draw at once, everything
but the app is hashed into a key for the row, and the rest is 32-bit arithmetic, which processors
do for eight numbers at a time.
"""

from enum import IntEnum

import numpy as np

from models.jit import kernel

# numpy types throughout: with a Python int, numba would compute uint64 as float64.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_A = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S32, _S11 = (np.uint64(n) for n in (30, 27, 31, 32, 11))
_FIELD = np.uint64(0xFFFF)
_S16, _S48 = np.uint64(16), np.uint64(48)
_UNIT = 1.0 / (1 << 53)
# One over the standard deviation of a sum of four 16-bit uniforms.
_NORMAL_SCALE = 1.0 / (65536.0 * (4.0 / 12.0) ** 0.5)
_WHOLE_ROW = 0x7FFFFFFF
"""Larger than the index of any entity."""
_MIX_C, _MIX_D = np.uint32(0x7FEB352D), np.uint32(0x846CA68B)
_T8, _T15, _T16 = np.uint32(8), np.uint32(15), np.uint32(16)
_BYTES, _LOW_HALF = np.uint32(0x00FF00FF), np.uint32(0xFFFF)
_UNIT_32 = np.float32(1.0 / (1 << 24))
_BYTES_MEAN = np.float32(4 * 127.5)
# The same for four bytes, with the exact variance of a discrete uniform.
_BYTES_SCALE = np.float32(1.0 / (4 * (256.0**2 - 1) / 12.0) ** 0.5)


class Purpose(IntEnum):
    """What a draw is for. Never renumber: a new number would change the draws of every seed."""

    TRAFFIC_NOISE = 1
    SHOT_NOISE = 2
    BURST = 3
    POD_START = 4
    CRASH = 5
    DEPLOY = 6
    EVICTION = 7
    SPOT = 8
    METRIC_NOISE = 9
    METRIC_PHASE = 11
    NODE_BOOT = 12
    RESIZE = 13
    EVENT_TIME = 14
    EVENT_SIZE = 15
    EVENT_APPS = 16
    HPA_PHASE = 17
    CONTAINER_AGE = 18
    DECLARED_SATURATION = 19


@kernel
def mix(value: np.uint64) -> np.uint64:
    """Spread every bit of `value` over the whole word."""
    value = (value ^ (value >> _S30)) * _MIX_A
    value = (value ^ (value >> _S27)) * _MIX_B
    return value ^ (value >> _S31)


@kernel
def stream(seed: int, purpose: int) -> np.uint64:
    """The part of a draw that is constant in a loop over entities."""
    return mix(mix(np.uint64(seed) + _GOLDEN) ^ (np.uint64(purpose) * _GOLDEN))


@kernel
def draw(from_stream: np.uint64, entity: int, ordinal: int, tick: int) -> np.uint64:
    """64 random bits of a stream."""
    # Both are below 2**32, so they share a word without collisions.
    key = (np.uint64(entity) << _S32) | np.uint64(ordinal)
    return mix(mix(from_stream ^ key) + np.uint64(tick) * _GOLDEN)


@kernel
def as_uniform(word: np.uint64) -> float:
    """A number in [0, 1) from 64 bits."""
    # 53 bits, all that a float64 holds exactly.
    return np.float64(word >> _S11) * _UNIT


@kernel
def as_normal(word: np.uint64) -> float:
    """Nearly standard normal: the sum of four 16-bit uniforms, so never beyond 3.5.

    Bounded on purpose: bursts and faults model the outliers.
    """
    total = (word & _FIELD) + ((word >> _S16) & _FIELD) + ((word >> _S32) & _FIELD)
    # 131070 is the mean of the sum.
    return (np.float64(total + (word >> _S48)) - 131070.0) * _NORMAL_SCALE


@kernel
def row_key(from_stream: np.uint64, ordinal: int, tick: int) -> np.uint64:
    """The common part of all entities' draws for one ordinal and tick."""
    return draw(from_stream, _WHOLE_ROW, ordinal, tick)


@kernel
def draw_in_row(key: np.uint64, entity: int) -> np.uint32:
    """32 random bits of an entity. Uses both halves of the key: rows are not permutations."""
    value = _mix_32(np.uint32(np.uint32(entity) + np.uint32(key)))
    return _mix_32(np.uint32(value ^ np.uint32(key >> _S32)))


@kernel
def _mix_32(value: np.uint32) -> np.uint32:
    """`lowbias32` of C. Wellons. The casts keep numba from widening to 64 bits."""
    value = np.uint32(np.uint32(value ^ (value >> _T16)) * _MIX_C)
    value = np.uint32(np.uint32(value ^ (value >> _T15)) * _MIX_D)
    return np.uint32(value ^ (value >> _T16))


@kernel
def as_uniform_32(word: np.uint32) -> np.float32:
    """A number in [0, 1) from 32 bits."""
    # 24 bits, all that a float32 holds exactly.
    return np.float32(np.int32(word >> _T8)) * _UNIT_32


@kernel
def as_normal_32(word: np.uint32) -> np.float32:
    """Nearly standard normal, as `as_normal`, from the sum of four bytes."""
    # Adds two pairs of bytes at once, each in 16 bits of its own.
    pairs = np.uint32((word & _BYTES) + ((word >> _T8) & _BYTES))
    total = np.int32((pairs & _LOW_HALF) + (pairs >> _T16))
    return (np.float32(total) - _BYTES_MEAN) * _BYTES_SCALE


@kernel
def uniform(seed: int, purpose: int, entity: int, ordinal: int, tick: int) -> float:
    """One uniform draw in [0, 1), for code where speed does not matter."""
    return as_uniform(draw(stream(seed, purpose), entity, ordinal, tick))
