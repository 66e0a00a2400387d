"""What a tick shows of each domain. E environments, D domains, A apps."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F64, I32, Mask
from models.jit import kernel

_APPS, _MEASURED, _REQUESTS, _FAILING, _RISKY, _CHANGED, _MISMATCHED = range(7)
"""Rows of the sums by domain."""
_SUMS = 7


class AppSamples(NamedTuple):
    """What is observed about the apps in a tick; NaN where nothing is."""

    domain: I32
    """[E, A] index; -1 where the app is not declared."""
    missing: Mask
    """[E, A] no valid sample arrived."""
    rps: F64
    """[E, A] requests per second."""
    errors: F64
    """[E, A] failing share of them."""
    headroom: F64
    """[E, A] 1 - p99 / target."""
    replicas: I32
    """[E, A] as the API server reports them."""
    cpu: I32
    """[E, A] millicores per pod; 0 if unknown."""
    pending: I32
    """[E, A] pods without a node."""
    accepted: I32
    """[E, A, K] replicas that match what was applied recently, padded with -1. An app that was not
    changed recently has none."""


class Readings(NamedTuple):
    """[E, D] what the rules judge by. NaN, or a value out of range, is unknown."""

    age: F64
    """Ticks without a frame."""
    missing: F64
    """Share of apps."""
    mismatch: F64
    """Share of the recently changed apps."""
    held: F64
    """Share of the planned changes."""
    errors: F64
    """Share of requests."""
    risk: F64
    """Share of requests that go to apps without SLO headroom in this tick."""
    regression: F64
    """Share of requests that go to apps that lost their headroom when we shrank them."""
    oscillation: F64
    """Share of apps that turned back."""
    decreases: F64
    """Share of the cores of running pods."""


def unknown(environments: int, domains: int) -> Readings:
    """Readings of a tick without any data."""
    return Readings(*np.full((len(Readings._fields), environments, domains), np.nan))


def read(samples: AppSamples, age: F64, mismatch_apps: I32) -> Readings:
    """Sum up the samples of a tick; `age` is [E, D] ticks without a frame, `mismatch_apps` [D].

    What depends on earlier ticks (held, regression, oscillation, decreases) is 0: see `changes`.
    """
    environments, domains = age.shape
    readings = Readings(age, *np.zeros((len(Readings._fields) - 1, environments, domains)))
    _read(samples, mismatch_apps, np.zeros((environments, _SUMS, domains)), readings)
    return readings


@kernel
def _read(samples: AppSamples, mismatch_apps: I32, sums: F64, readings: Readings) -> None:
    for e in range(sums.shape[0]):
        _sum_samples(samples, e, sums[e])
        for d in range(sums.shape[2]):
            own = sums[e, :, d]
            # Measured apps without requests have no failing requests; without a measured app it is
            # unknown.
            without_requests = 0.0 if own[_MEASURED] > 0 else np.nan
            readings.missing[e, d] = 1 - share_of(own[_MEASURED], own[_APPS], np.nan)
            readings.errors[e, d] = share_of(own[_FAILING], own[_REQUESTS], without_requests)
            readings.risk[e, d] = share_of(own[_RISKY], own[_REQUESTS], without_requests)
            if own[_CHANGED] >= mismatch_apps[d]:
                readings.mismatch[e, d] = share_of(own[_MISMATCHED], own[_CHANGED], 0.0)


@kernel
def _sum_samples(samples: AppSamples, e: int, sums: F64) -> None:
    """Add one environment's declared apps to `sums` [sums, D], in the order of the apps.

    The sums of a domain are the same, bit for bit, with its apps alone or beside others.
    """
    for app in range(samples.domain.shape[1]):
        d = samples.domain[e, app]
        if d < 0 or d >= sums.shape[1]:
            continue
        sums[_APPS, d] += 1
        # Don't judge an app without a sample: its reported replicas may be as old as its last one.
        if not is_valid(samples, e, app):
            continue
        rps = samples.rps[e, app]
        sums[_MEASURED, d] += 1
        sums[_REQUESTS, d] += rps
        sums[_FAILING, d] += rps * samples.errors[e, app]
        sums[_RISKY, d] += rps if samples.headroom[e, app] < 0 else 0.0
        judged, matches = False, False
        for accepted in samples.accepted[e, app]:
            judged |= accepted >= 0
            matches |= accepted == samples.replicas[e, app]
        sums[_CHANGED, d] += 1 if judged else 0
        sums[_MISMATCHED, d] += 1 if judged and not matches else 0


@kernel
def is_valid(samples: AppSamples, e: int, app: int) -> bool:
    """Whether an app has a whole sample; NaN anywhere makes it missing."""
    rps, errors = samples.rps[e, app], samples.errors[e, app]
    known = not samples.missing[e, app] and np.isfinite(samples.headroom[e, app])
    return bool(known and np.isfinite(rps) and rps >= 0 and 0 <= errors <= 1)


@kernel
def trust(values: F64) -> None:
    """Doubt resolves to the worse: an unknown reading counts as all apps missing.

    `values` holds the readings of one domain, in the order of `Readings`.
    """
    # An age that makes no sense counts as stale, not as fresh (invariant 4).
    values[0] = values[0] if values[0] >= 0 else np.inf
    unknown_share = False
    for reading in range(1, values.size):
        known = 0 <= values[reading] <= 1
        values[reading] = values[reading] if known else np.nan
        unknown_share |= not known
    if unknown_share:
        values[1] = 1.0


@kernel
def share_of(part: float, whole: float, otherwise: float) -> float:
    """Part over whole; `otherwise` where there is no whole."""
    return part / whole if whole > 0 else otherwise


def sums(values: NDArray[np.generic], domain: I32, domains: int) -> F64:
    """[E, D] sums of whole numbers [E, A] by domain."""
    # Exact in any order, so this needs no kernel: few ticks have a rollback.
    own = [np.where(domain == d, values, 0).sum(axis=1, dtype=np.float64) for d in range(domains)]
    return np.stack(own, axis=1)


def share(part: F64, whole: F64, otherwise: F64 | float) -> F64:
    """`share_of` for arrays."""
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), otherwise)
