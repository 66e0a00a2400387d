"""Daily rhythm, noise, bursts, priority classes, request mix and start times of the apps."""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I8, I16
from models.sim.config.physics import SimCluster
from models.sim.population.fitted import Fitted, from_quantiles, generator, pick, weighted_index
from models.sim.population.structure import Structure

_FUNCTIONS_PER_APP: Final = 64
"""An app's traffic averages the noise of this many sources; the fit is to single functions."""
_NOISE_BOUNDS: Final = (0.03, 0.25)
_UNSEEN_BURSTS: Final = 0.2
"""Bursts per day of an app that had none in the one day of the trace."""
_MOST_BURSTS: Final = 6.0
_BURST_BOUNDS: Final = (0.05, 0.4)
"""A single function can grow eighty-fold in a minute, but the sum of many cannot."""
_GENTLE_SWING: Final = (1.15, 2.6)
"""Peak over mean of the daily profiles of user-facing apps."""
_DRIFT_WEIGHT: Final = (0.6, 1.0, 2.5, 3.0)
"""Relative frequency of wrong classes by own priority, P0..P3: low ones copy high ones."""
_DRIFT_TO: Final = (
    (0.0, 0.2, 0.8, 0.0),
    (0.7, 0.0, 0.3, 0.0),
    (0.6, 0.4, 0.0, 0.0),
    (0.55, 0.35, 0.1, 0.0),
)
"""Probability of each wrong class, by own priority."""

# Mean shares of REQUEST_TYPES (api, web, batch, stream, event) by kind of app.
_MIX_OUTER: Final = (0.45, 0.45, 0.0, 0.02, 0.08)
_MIX_INNER: Final = (0.75, 0.10, 0.02, 0.03, 0.10)
_MIX_QUEUED: Final = (0.06, 0.02, 0.45, 0.32, 0.15)
_MIX_LOWEST: Final = (0.25, 0.30, 0.30, 0.03, 0.12)
_MIX_BEST_EFFORT: Final = (0.05, 0.10, 0.70, 0.03, 0.12)
_MIX_CONCENTRATION: Final = 12.0


class Rhythm(NamedTuple):
    """How traffic varies over time. Each array is [apps]."""

    profile: I16
    shift: I16
    """Minutes that the app is ahead of its profile."""
    noise: F64
    bursts_per_day: F64
    burst_size: F64


def draw_rhythm(cluster: SimCluster, fit: Fitted, structure: Structure, curves: F64) -> Rhythm:
    """Daily shape, noise and bursts."""
    rng = generator(cluster.physics.population.seed, "rhythm")
    apps = len(structure.domain)
    noise = from_quantiles(rng, fit.noise.app_std, apps) / _FUNCTIONS_PER_APP**0.5
    bursts = from_quantiles(rng, fit.bursts.per_day, apps)
    size = from_quantiles(rng, fit.bursts.size, apps)
    return Rhythm(
        profile=_profiles(cluster, fit, structure, curves),
        shift=_shifts(cluster, structure),
        noise=np.clip(noise, *_NOISE_BOUNDS),
        bursts_per_day=np.clip(bursts, _UNSEEN_BURSTS, _MOST_BURSTS),
        # Scaled like the noise, for the same reason.
        burst_size=np.clip(size / _FUNCTIONS_PER_APP**0.5, *_BURST_BOUNDS),
    )


def _profiles(cluster: SimCluster, fit: Fitted, structure: Structure, curves: F64) -> I16:
    """Profiles by weight; user-facing apps get only those with a moderate swing."""
    rng = generator(cluster.physics.population.seed, "profile")
    draws = rng.random(len(structure.domain))
    weight = np.array([shape.weight for shape in fit.profiles.shapes])
    swing = curves.max(axis=1)
    gentle = (swing >= _GENTLE_SWING[0]) & (swing <= _GENTLE_SWING[1])
    users = ~structure.queued & ~structure.best_effort
    of_users = weighted_index(weight * gentle if gentle.any() else weight, draws)
    return np.where(users, of_users, weighted_index(weight, draws)).astype(np.int16)


def _shifts(cluster: SimCluster, structure: Structure) -> I16:
    """User-facing apps peak together, queued ones spread, best-effort apps run at night."""
    rng = generator(cluster.physics.population.seed, "shift")
    apps = len(structure.domain)
    together, spread = rng.normal(0, 45, apps), rng.normal(0, 180, apps)
    # Half a day ahead of the others.
    night = 720 + rng.normal(0, 120, apps)
    shift = np.select([structure.best_effort, structure.queued], [night, spread], together)
    return np.asarray(np.rint(shift) % 1440, dtype=np.int16)


def over_peak(curves: F64, rhythm: Rhythm, step_minutes: int) -> F64:
    """[apps, steps]: each app's profile over its daily peak."""
    minute = np.arange(0, curves.shape[1], step_minutes)
    at = (minute[None, :] + rhythm.shift[:, None]) % curves.shape[1]
    relative = curves / curves.max(axis=1, keepdims=True)
    return np.asarray(relative[rhythm.profile[:, None], at], dtype=np.float64)


def pod_classes(cluster: SimCluster, structure: Structure) -> I8:
    """The domain's class, except for the configured share of apps with a wrong one."""
    rng = generator(cluster.physics.population.seed, "class")
    wrong = round(cluster.physics.population.wrong_class_share * len(structure.domain))
    drifted = pick(rng, np.array(_DRIFT_WEIGHT)[structure.priority], wrong)
    edges = np.cumsum(_DRIFT_TO, axis=1)[structure.priority]
    other = (rng.random(len(drifted))[:, None] >= edges[:, :-1]).sum(axis=1)
    return np.where(drifted, other, structure.priority).astype(np.int8)


def request_mix(cluster: SimCluster, structure: Structure) -> F64:
    """[apps, request types] drawn around the mean mix of the app's kind."""
    rng = generator(cluster.physics.population.seed, "mix")
    lowest = (structure.priority == 3)[:, None]
    mean = np.select(
        [
            structure.best_effort[:, None],
            structure.queued[:, None],
            lowest,
            structure.tier[:, None] == 0,
        ],
        [np.array(mix)[None] for mix in (_MIX_BEST_EFFORT, _MIX_QUEUED, _MIX_LOWEST, _MIX_OUTER)],
        np.array(_MIX_INNER)[None],
    )
    # A row of gamma draws divided by its sum is a Dirichlet draw. Its shape must be above zero.
    drawn = rng.gamma(np.maximum(_MIX_CONCENTRATION * mean, 0.02), size=mean.shape)
    drawn = np.maximum(drawn, 1e-9)
    return np.asarray(drawn / drawn.sum(axis=1, keepdims=True), dtype=np.float64)


def retry_shares(cluster: SimCluster, structure: Structure) -> F64:
    """Share of failures that callers retry; 0 where a request must not run twice."""
    rng = generator(cluster.physics.population.seed, "retry")
    retryable = np.array([spec.retryable for spec in cluster.domain_physics])[structure.domain]
    return np.where(retryable, rng.uniform(0.4, 0.8, len(structure.domain)), 0.0)


def retry_budgets(cluster: SimCluster, apps: int) -> F64:
    """Most retries over first attempts; infinite where clients have no such budget."""
    rng, retries = generator(cluster.physics.population.seed, "budget"), cluster.physics.retries
    return np.where(rng.random(apps) < retries.budget_share, retries.budget, np.inf)


def relative_starts(cluster: SimCluster, apps: int) -> tuple[F64, F64]:
    """Image size and boot time over the median of apps on quick runtimes."""
    rng, start = generator(cluster.physics.population.seed, "start"), cluster.physics.pod_start
    image, boot = rng.lognormal(0, 0.5, apps), rng.lognormal(0, 0.35, apps)
    slow = rng.random(apps) < start.slow_runtime_share
    factor = np.where(slow, start.slow_runtime_factor, 1.0)
    return np.clip(image, 0.25, 4), np.clip(boot, 0.4, 3) * factor
