"""What gives the apps their character: daily rhythm, noise, bursts, classes, request mix."""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I8, I16, I32
from models.sim.config.physics import SimCluster
from models.sim.population.fitted import Fitted, from_quantiles, generator, pick
from models.sim.population.structure import Layout

_FUNCTIONS_PER_APP: Final = 64
"""Independent sources whose noise an app's traffic averages: the fit is to single functions."""
_NOISE_BOUNDS: Final = (0.03, 0.25)
_UNSEEN_BURSTS: Final = 0.2
"""Bursts a day of an app without any in the one day observed."""
_MOST_BURSTS: Final = 6.0
_BURST_BOUNDS: Final = (0.05, 0.4)
"""Sizes of bursts: a function can grow eighty-fold in a minute, a sum of many cannot."""
_GENTLE_SWING: Final = (1.15, 2.6)
"""Peak over mean of the days of apps with users in front."""
_DRIFT_WEIGHT: Final = (0.6, 1.0, 2.5, 3.0)
"""How often an app of P0..P3 carries a wrong class: mostly copied from something important."""
_DRIFT_TO: Final = (
    (0.0, 0.2, 0.8, 0.0),
    (0.7, 0.0, 0.3, 0.0),
    (0.6, 0.4, 0.0, 0.0),
    (0.55, 0.35, 0.1, 0.0),
)
"""Which class it carries instead, by its own priority."""

# Mean shares of REQUEST_TYPES (api, web, batch, stream, event) by an app's character.
_MIX_OUTER: Final = (0.45, 0.45, 0.0, 0.02, 0.08)
_MIX_INNER: Final = (0.75, 0.10, 0.02, 0.03, 0.10)
_MIX_QUEUED: Final = (0.06, 0.02, 0.45, 0.32, 0.15)
_MIX_LOWEST: Final = (0.25, 0.30, 0.30, 0.03, 0.12)
_MIX_BEST_EFFORT: Final = (0.05, 0.10, 0.70, 0.03, 0.12)
_MIX_CONCENTRATION: Final = 12.0


class Rhythm(NamedTuple):
    """How an app's traffic moves, each of shape [apps]."""

    profile: I16
    shift: I16
    """Minutes by which the app is ahead of its profile, as the traffic reads it."""
    noise: F64
    bursts_per_day: F64
    burst_size: F64


def draw_rhythm(cluster: SimCluster, fit: Fitted, layout: Layout, curves: F64) -> Rhythm:
    """Daily shape, noise and bursts."""
    rng = generator(cluster.physics.population.seed, "rhythm")
    apps = len(layout.domain)
    noise = from_quantiles(rng, fit.noise.app_std, apps) / _FUNCTIONS_PER_APP**0.5
    bursts = from_quantiles(rng, fit.bursts.per_day, apps)
    size = from_quantiles(rng, fit.bursts.size, apps)
    return Rhythm(
        profile=_profiles(cluster, fit, layout, curves),
        shift=_shifts(cluster, layout),
        noise=np.clip(noise, *_NOISE_BOUNDS),
        bursts_per_day=np.clip(bursts, _UNSEEN_BURSTS, _MOST_BURSTS),
        # Scaled like the noise, for the same reason.
        burst_size=np.clip(size / _FUNCTIONS_PER_APP**0.5, *_BURST_BOUNDS),
    )


def _profiles(cluster: SimCluster, fit: Fitted, layout: Layout, curves: F64) -> I16:
    """Shapes by their weight; apps with users in front swing neither little nor wildly."""
    rng = generator(cluster.physics.population.seed, "profile")
    at = rng.random(len(layout.domain))
    weight = np.array([shape.weight for shape in fit.profiles.shapes])
    swing = curves.max(axis=1)
    gentle = (swing >= _GENTLE_SWING[0]) & (swing <= _GENTLE_SWING[1])
    users = ~layout.queued & ~layout.best_effort
    by_users = _at(weight * gentle if gentle.any() else weight, at)
    return np.where(users, by_users, _at(weight, at)).astype(np.int16)


def _at(weight: F64, uniform: F64) -> I32:
    edges = np.cumsum(weight) / weight.sum()
    return np.searchsorted(edges[:-1], uniform, side="right").astype(np.int32)


def _shifts(cluster: SimCluster, layout: Layout) -> I16:
    """Apps with users follow the day together; queues spread, best-effort work runs at night."""
    rng = generator(cluster.physics.population.seed, "shift")
    apps = len(layout.domain)
    together, spread = rng.normal(0, 45, apps), rng.normal(0, 180, apps)
    night = 720 + rng.normal(0, 120, apps)
    shift = np.select([layout.best_effort, layout.queued], [night, spread], together)
    return np.asarray(np.rint(shift) % 1440, dtype=np.int16)


def over_peak(curves: F64, rhythm: Rhythm, step_minutes: int) -> F64:
    """[apps, steps]: each app's regular traffic over its daily peak."""
    minute = np.arange(0, curves.shape[1], step_minutes)
    at = (minute[None, :] + rhythm.shift[:, None]) % curves.shape[1]
    relative = curves / curves.max(axis=1, keepdims=True)
    return np.asarray(relative[rhythm.profile[:, None], at], dtype=np.float64)


def pod_classes(cluster: SimCluster, layout: Layout) -> I8:
    """The domain's class, but for the wanted share of apps that carry another one."""
    rng = generator(cluster.physics.population.seed, "class")
    wrong = round(cluster.physics.population.wrong_class_share * len(layout.domain))
    drifted = pick(rng, np.array(_DRIFT_WEIGHT)[layout.priority], wrong)
    edges = np.cumsum(_DRIFT_TO, axis=1)[layout.priority]
    other = (rng.random(len(drifted))[:, None] >= edges[:, :-1]).sum(axis=1)
    return np.where(drifted, other, layout.priority).astype(np.int8)


def request_mix(cluster: SimCluster, layout: Layout) -> F64:
    """[apps, request types] drawn around the mean of the app's character."""
    rng = generator(cluster.physics.population.seed, "mix")
    lowest = (layout.priority == 3)[:, None]
    mean = np.select(
        [layout.best_effort[:, None], layout.queued[:, None], lowest, layout.tier[:, None] == 0],
        [np.array(mix)[None] for mix in (_MIX_BEST_EFFORT, _MIX_QUEUED, _MIX_LOWEST, _MIX_OUTER)],
        np.array(_MIX_INNER)[None],
    )
    # A Dirichlet draw is a row of gamma draws over their sum.
    drawn = rng.gamma(np.maximum(_MIX_CONCENTRATION * mean, 0.02), size=mean.shape)
    drawn = np.maximum(drawn, 1e-9)
    return np.asarray(drawn / drawn.sum(axis=1, keepdims=True), dtype=np.float64)


def retry_shares(cluster: SimCluster, layout: Layout) -> F64:
    """Share of failures that callers send again; none where a request must not run twice."""
    rng = generator(cluster.physics.population.seed, "retry")
    retryable = np.array([spec.retryable for spec in cluster.domain_physics])[layout.domain]
    return np.where(retryable, rng.uniform(0.4, 0.8, len(layout.domain)), 0.0)


def relative_starts(cluster: SimCluster, apps: int) -> tuple[F64, F64]:
    """Image size and boot time over the cluster's median."""
    rng = generator(cluster.physics.population.seed, "start")
    image, boot = rng.lognormal(0, 0.5, apps), rng.lognormal(0, 0.35, apps)
    return np.clip(image, 0.25, 4), np.clip(boot, 0.4, 3)
