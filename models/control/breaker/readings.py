"""What a tick shows of each domain. E environments, D domains, A apps."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F64, I32

Mask = NDArray[np.bool_]


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

    @property
    def valid(self) -> Mask:
        """[E, A] apps with a whole sample; NaN anywhere makes an app missing."""
        known = ~self.missing & np.isfinite(self.headroom) & np.isfinite(self.rps)
        return known & (self.rps >= 0) & (self.errors >= 0) & (self.errors <= 1)


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
    member, valid = members(samples.domain, age.shape[1]), samples.valid
    requests = np.where(valid, samples.rps, 0.0)
    failing = requests * np.where(valid, samples.errors, 0.0)
    risky = np.where(samples.headroom < 0, requests, 0.0)

    measured, total = sums(valid, member), sums(requests, member)
    # Measured apps without requests have no failing requests; without a measured app it is unknown.
    without_requests = np.where(measured > 0, 0.0, np.nan)
    # Don't judge an app without a sample: its reported replicas may be as old as its last sample.
    judged = valid & (samples.accepted >= 0).any(axis=2)
    wrong = judged & (samples.accepted != samples.replicas[..., None]).all(axis=2)
    mismatched, changed = sums(wrong, member), sums(judged, member)
    nothing = np.zeros_like(age)
    return Readings(
        age=age,
        missing=1 - share(measured, sums(np.ones_like(valid), member), np.nan),
        mismatch=np.where(changed < mismatch_apps, 0.0, share(mismatched, changed, 0.0)),
        held=nothing,
        errors=share(sums(failing, member), total, without_requests),
        risk=share(sums(risky, member), total, without_requests),
        regression=nothing,
        oscillation=nothing,
        decreases=nothing,
    )


def trusted(readings: Readings) -> Readings:
    """Doubt resolves to the worse: an unknown reading counts as all apps missing."""
    age, *shares = (np.where(values >= 0, values, np.nan) for values in readings)
    shares = [np.where(values <= 1, values, np.nan) for values in shares]
    unknown_share = np.isnan(shares).any(axis=0)
    missing = np.where(unknown_share, 1.0, shares[0])
    # An age that makes no sense counts as stale, not as fresh (invariant 4).
    return Readings(np.where(np.isnan(age), np.inf, age), missing, *shares[1:])


def members(domain: I32, domains: int) -> F64:
    """[E, A, D] 1 where an app belongs to a domain."""
    member: F64 = (domain[..., None] == np.arange(domains)).astype(np.float64)
    return member


def sums(values: NDArray[np.generic], member: F64) -> F64:
    """[E, D] sums of [E, A] by domain."""
    # As floats: products of booleans are a logical or, not a count.
    total: F64 = np.matmul(values.astype(np.float64)[:, None, :], member)[:, 0, :]
    return total


def share(part: F64, whole: F64, otherwise: F64 | float) -> F64:
    """Part over whole; `otherwise` where there is no whole."""
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), otherwise)
