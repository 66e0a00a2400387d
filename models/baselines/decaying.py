"""Decaying histograms as VPA's recommender keeps them, one per app, and their percentiles.

Bucket widths grow by a ratio; a percentile is the end of the bucket it falls into. Old samples
lose weight because new ones weigh more: stored weights never change, as in the original.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, F64
from models.jit import kernel

# Bucket ratio and first buckets as in the original.
RATIO: Final = 1.05
BUCKETS: Final = 176
"""Enough for the original's largest values (1,000 cores, 1 TB) with its first buckets."""
CPU_FIRST: Final = 0.01
"""End of the first bucket, cores."""
MEMORY_FIRST: Final = 1e7
"""End of the first bucket, bytes."""


class Histograms(NamedTuple):
    """E environments, A apps."""

    weight: F32
    """[E, A, BUCKETS]. Single precision suffices: weights double per day, and worlds last days."""
    total: F64
    """[E, A]."""


def empty_histograms(environments: int, apps: int) -> Histograms:
    """Histograms without a sample."""
    return Histograms(
        np.zeros((environments, apps, BUCKETS), np.float32), np.zeros((environments, apps))
    )


@kernel
def bucket_of(value: float, first: float) -> int:
    """The bucket a value falls into; the last one takes everything above it."""
    if value < first:
        return 0
    # The sum of the geometric series in `bucket_start`, solved for the number of buckets.
    bucket = math.floor(math.log(value * (RATIO - 1.0) / first + 1.0) / math.log(RATIO))
    return min(bucket, BUCKETS - 1)


@kernel
def bucket_start(bucket: int, first: float) -> float:
    """Where a bucket begins: `first` times the geometric series before it."""
    return first * (RATIO**bucket - 1.0) / (RATIO - 1.0)


@kernel
def add_samples(histograms: Histograms, value: F64, weight: F64, first: float) -> None:
    """Add one sample per app; a weight of zero adds none, a negative one removes it."""
    for e in range(value.shape[0]):
        for app in range(value.shape[1]):
            if weight[e, app] != 0.0:
                bucket = bucket_of(value[e, app], first)
                histograms.weight[e, app, bucket] += np.float32(weight[e, app])
                histograms.total[e, app] += weight[e, app]


@kernel
def add_past(
    histograms: Histograms, value: F64, weight: F64, relative: F32, shares: F64, first: float
) -> None:
    """Add K samples to each app with a weight: its value times `relative` [E, K, A]."""
    for e in range(value.shape[0]):
        for k in range(shares.size):
            for app in range(value.shape[1]):
                if weight[e, app] != 0.0:
                    bucket = bucket_of(value[e, app] * relative[e, k, app], first)
                    added = weight[e, app] * shares[k]
                    histograms.weight[e, app, bucket] += np.float32(added)
                    histograms.total[e, app] += added


@kernel
def percentiles(histograms: Histograms, shares: F64, first: float, out: F64) -> None:
    """Fill `out`, [shares, E, A], `shares` ascending; zero where there is no sample."""
    for e in range(out.shape[1]):
        for app in range(out.shape[2]):
            total, below, bucket = histograms.total[e, app], 0.0, -1
            for k in range(shares.size):
                # With single precision the sum may stay a little below the total.
                while bucket < BUCKETS - 1 and (bucket < 0 or below < shares[k] * total):
                    bucket += 1
                    below += histograms.weight[e, app, bucket]
                # The last bucket has no end; the original then returns its start, too.
                end = min(bucket + 1, BUCKETS - 1)
                out[k, e, app] = bucket_start(end, first) if total > 0.0 else 0.0
