"""The fitted parameters of the generator (`fitted.yaml`), and draws from their distributions.

The tables themselves are not shipped. Each section states the table that it was fitted to, its
licence, the number of rows and the statistic. `fit.fit` produces these structs.

Each purpose draws from its own named random stream: a new draw for a new purpose leaves all other
properties unchanged, so clusters stay comparable when the generator changes.
"""

import zlib
from pathlib import Path
from statistics import NormalDist
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from models.cluster.arrays import F64, I32, Mask
from models.inputs import yamlfile

FITTED = Path(__file__).with_name("fitted.yaml")
MINUTES = 1440
_NORMAL = NormalDist()

Share = Annotated[float, Meta(ge=0, le=1)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Quantiles = Annotated[tuple[NotNegative, ...], Meta(min_length=2)]
"""Values at evenly spaced probabilities from 0 to 1."""


class _Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Part of the file: unknown keys are errors, values never change."""


class Provenance(_Section, frozen=True):
    """The source of a section's numbers."""

    file: str
    origin: str
    licence: str
    rows: int
    """Rows that entered the statistic."""
    statistic: str


Sources = Annotated[tuple[Provenance, ...], Meta(min_length=1)]


class PodSizes(_Section, frozen=True):
    """Joint distribution of a pod's size over apps."""

    sources: Sources
    cpu_cores: tuple[Positive, ...]
    memory_gib: tuple[Positive, ...]
    share: tuple[Share, ...]


class MinReplicas(_Section, frozen=True):
    """Distribution of the configured minimum over apps; 0 is scale-to-zero."""

    sources: Sources
    replicas: tuple[int, ...]
    share: tuple[Share, ...]


class LogNormal(_Section, frozen=True):
    """Log-normal service times over apps, and the tail within an app."""

    median_ms: Positive
    log_std: Positive
    tail_ratio: Quantiles
    """An app's 99th percentile over its median."""


class ServiceTimes(_Section, frozen=True):
    """Service times of interactive requests, and of requests from queues."""

    sources: Sources
    interactive: LogNormal
    queued: LogNormal


class ProcessMemory(_Section, frozen=True):
    """Memory of a process, and the part of it that depends on its load."""

    sources: Sources
    median_mb: Positive
    log_std: Positive
    growth: Quantiles
    """1 - 5th percentile / 99th percentile."""


class Traffic(_Section, frozen=True):
    """Skew of traffic over apps."""

    sources: Sources
    over_median: Quantiles


class Profile(_Section, frozen=True):
    """A day as 1 + sum of harmonics; the broad peak of every profile is at `peak_hour`."""

    weight: Share
    cos: tuple[float, ...]
    sin: tuple[float, ...]


class Profiles(_Section, frozen=True):
    """Daily shapes, all shifted to the same peak hour."""

    sources: Sources
    peak_hour: NotNegative
    rhythmic_share: Share
    """Share of the busy functions that have a daily rhythm; only these were grouped."""
    shapes: tuple[Profile, ...]

    def curves(self) -> F64:
        """[shapes, 1440]: traffic of a minute over the day's mean, never negative."""
        angle = 2 * np.pi * np.arange(MINUTES) / MINUTES
        order = np.arange(1, len(self.shapes[0].cos) + 1)[:, None]
        cos = np.array([shape.cos for shape in self.shapes]) @ np.cos(order * angle)
        sin = np.array([shape.sin for shape in self.shapes]) @ np.sin(order * angle)
        curves = np.maximum(1 + cos + sin, 0)
        return np.asarray(curves / curves.mean(axis=1, keepdims=True), dtype=np.float64)


class Autocorrelation(_Section, frozen=True):
    """Noise of one long trace around its 6-hour mean, without counting noise."""

    trace: str
    std: Positive
    lags_minutes: tuple[int, ...]
    correlation: tuple[float, ...]


class Noise(_Section, frozen=True):
    """Noise as a sum of three octaves of linearly interpolated random knots."""

    sources: Sources
    periods_minutes: tuple[Positive, Positive, Positive]
    weights: tuple[NotNegative, NotNegative, NotNegative]
    """Amplitudes of unit-normal knots; the sum has a standard deviation of 1."""
    traces: tuple[Autocorrelation, ...]
    app_std: Quantiles
    """Log standard deviation, over user-facing functions."""


class Bursts(_Section, frozen=True):
    """Short excesses over twice the running median."""

    sources: Sources
    per_day: Quantiles
    """Over functions."""
    size: Quantiles
    """(Peak of a burst / normal) - 1, over bursts."""


class CallStructure(_Section, frozen=True):
    """Shape of real call graphs."""

    sources: Sources
    depth_share: tuple[Share, ...]
    """Share of services whose longest path has 1, 2, .. calls."""
    fan_out_share: tuple[Share, ...]
    """Share of callers with 1, 2, .. callees that are services."""
    calls_per_request: Quantiles
    leaf_share: Share
    """Share of edges that end in a cache, a database or outside the trace."""
    nodes_per_request: Quantiles


class BootContention(_Section, frozen=True):
    """Boot time with n concurrent boots on a host over boot time alone."""

    sources: Sources
    concurrent: tuple[int, ...]
    slow_down: tuple[Positive, ...]
    limit: NotNegative
    """Longest relative slow-down, extrapolated: 1 + limit x (n - 1) / (n - 1 + half)."""
    half: Positive
    """Other boots at which half of that limit is reached."""


class Fitted(_Section, frozen=True):
    """The whole file."""

    command: str
    """The command that reproduces the file from the tables."""
    pod_sizes: PodSizes
    min_replicas: MinReplicas
    service_times: ServiceTimes
    memory: ProcessMemory
    traffic: Traffic
    profiles: Profiles
    noise: Noise
    bursts: Bursts
    calls: CallStructure
    boot: BootContention


def load_fitted(file: Path | None = None) -> Fitted:
    """Read and validate fitted parameters; the shipped ones when no file is given."""
    return yamlfile.load(file or FITTED, Fitted)


def generator(seed: int, purpose: str) -> np.random.Generator:
    """The random stream of one purpose."""
    # `hash` of a text differs between processes.
    key = zlib.crc32(purpose.encode())
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, key])))


def from_quantiles(rng: np.random.Generator, quantiles: tuple[float, ...], size: int) -> F64:
    """Draws from quantiles at evenly spaced probabilities, linear in between."""
    return np.interp(rng.random(size), np.linspace(0, 1, len(quantiles)), quantiles)


def log_uniform(rng: np.random.Generator, low: float, high: float, size: int) -> F64:
    """Draws whose logarithm is uniform."""
    return np.exp(rng.uniform(np.log(low), np.log(high), size))


def truncated(rng: np.random.Generator, fit: LogNormal, low: F64, high: F64) -> F64:
    """Seconds from the log-normal, truncated to `low` .. `high`.

    Not clipped: that would put the upper half of a wide fit exactly on the bound.
    """
    centre = np.log(fit.median_ms / 1000)
    bottom = _below((np.log(low) - centre) / fit.log_std)
    # The interval stays open where the longest time allowed is below the shortest.
    top = _below((np.log(np.maximum(high, 1.01 * low)) - centre) / fit.log_std)
    # Not up to 0 and 1, where the inverse is infinite.
    at = bottom + (top - bottom) * rng.uniform(0.001, 0.999, len(top))
    drawn = np.array([_NORMAL.inv_cdf(share) for share in at.tolist()])
    return np.asarray(np.exp(centre + fit.log_std * drawn), dtype=np.float64)


def _below(deviations: F64) -> F64:
    return np.array([_NORMAL.cdf(value) for value in deviations.tolist()])


def weighted_index(weights: F64, uniform: F64) -> I32:
    """Indices with probabilities in proportion to `weights`, one for each uniform draw."""
    edges = np.cumsum(weights) / weights.sum()
    # Without the last edge, so that rounding of the sum cannot give an index beyond the end.
    return np.searchsorted(edges[:-1], uniform, side="right").astype(np.int32)


def pick(rng: np.random.Generator, weights: F64, count: int) -> Mask:
    """Mask of `count` entries chosen without replacement in proportion to `weights`."""
    # The entries with the smallest keys are a weighted sample (Efraimidis and Spirakis).
    keys = rng.exponential(size=len(weights)) / np.maximum(weights, 1e-12)
    mask = np.zeros(len(weights), dtype=np.bool_)
    mask[np.argsort(keys, kind="stable")[:count]] = True
    return mask
