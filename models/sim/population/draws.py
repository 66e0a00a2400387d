"""Draws of the generated population, one stream per purpose and distribution helpers.

A stream is named: a new draw for a new purpose leaves every other property as it was, so
clusters stay comparable when the generator learns something.
"""

import zlib
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F64
from models.sim.population.fitted import LogNormal

_NORMAL = NormalDist()


def generator(seed: int, purpose: str) -> np.random.Generator:
    """The stream of one purpose."""
    key = zlib.crc32(purpose.encode())
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, key])))


def from_quantiles(rng: np.random.Generator, quantiles: tuple[float, ...], size: int) -> F64:
    """Draws from values at evenly spaced probabilities, linear in between."""
    return np.interp(rng.random(size), np.linspace(0, 1, len(quantiles)), quantiles)


def log_uniform(rng: np.random.Generator, low: float, high: float, size: int) -> F64:
    """Draws whose logarithm is uniform."""
    return np.exp(rng.uniform(np.log(low), np.log(high), size))


def truncated(rng: np.random.Generator, fit: LogNormal, low: F64, high: F64) -> F64:
    """Seconds from the log-normal between `low` and `high`.

    Truncated, not clipped: clipping would pile the upper half of a wide fit on the bound.
    """
    centre = np.log(fit.median_ms / 1000)
    bottom = _below((np.log(low) - centre) / fit.log_std)
    top = _below((np.log(np.maximum(high, 1.01 * low)) - centre) / fit.log_std)
    at = bottom + (top - bottom) * rng.uniform(0.001, 0.999, len(top))
    drawn = np.array([_NORMAL.inv_cdf(share) for share in at.tolist()])
    return np.asarray(np.exp(centre + fit.log_std * drawn), dtype=np.float64)


def _below(deviations: F64) -> F64:
    return np.array([_NORMAL.cdf(value) for value in deviations.tolist()])


def pick(rng: np.random.Generator, weights: F64, count: int) -> NDArray[np.bool_]:
    """Mask of `count` entries chosen without replacement in proportion to `weights`."""
    keys = rng.exponential(size=len(weights)) / np.maximum(weights, 1e-12)
    mask = np.zeros(len(weights), dtype=np.bool_)
    mask[np.argsort(keys, kind="stable")[:count]] = True
    return mask
