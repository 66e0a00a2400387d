"""What a Soldier reports to the Commander: sums over its apps, nothing about single ones."""

from typing import Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, F64
from models.control.safety import Apps
from models.features.memory import UNSEEN
from models.features.sums import is_at_risk
from models.features.table import APP
from models.jit import kernel

ABRUPT: Final = np.float32(-0.3)
"""Traffic this far below its five-minute mean more likely fails to arrive than has gone. When it
returns, it brings the retries of those who waited."""
BEARABLE: Final = 0.85
"""Highest utilisation at which apps still keep their latency, with nothing to spare. Not tuned and
not derived from the latency tables: chosen by hand."""

_SLACK, _ERRORS, _SATURATION = APP.at("headroom"), APP.at("errors"), APP.at("saturation")
_REQUESTS, _AGE = APP.at("rps"), APP.at("sample_age")
_TREND, _MISSING = APP.at("rps_trend"), APP.at("missing")


# A plain 0.0 in a kernel would turn the float32 arithmetic around it into float64.
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)


class Report(NamedTuple):
    """In cores unless said otherwise. E environments, D domains."""

    work: F64
    """[E, D] for the present work, with pods fully used."""
    essential: F64
    """[E, D] for the present work at the highest bearable utilisation, and for the growth that the
    directive names."""
    kept: F64
    """[E, D] the same, or what pods on nodes are sized for where that is more."""
    wanted: F64
    """[E, D] what its Soldier would hold without limits."""
    held: F64
    """[E, D] requests of bound and pending pods."""
    held_memory_gib: F64
    """[E, D] GiB of the same."""
    pending: F64
    """[E, D] of the pending ones."""
    distress: F64
    """[E, D] what single apps lack for essential work; spare pods of others don't offset it."""
    rps: F64
    """[E, D] requests per second."""
    at_risk: F64
    """[E, D] apps at risk, as the features define it."""
    apps: F64
    """[E, D] declared apps that ever had a valid sample: nothing is known about the others."""


(
    _WORK, _ESSENTIAL, _KEPT, WANTED, _HELD, _HELD_MEMORY, _PENDING, _DISTRESS, _RPS, _AT_RISK,
    _APPS,
) = range(len(Report._fields))  # fmt: skip


def empty_sums(environments: int, domains: int) -> F64:
    """[E, sums, D] zeros for the kernels to add to."""
    return np.zeros((environments, len(Report._fields), domains))


def as_report(sums: F64) -> Report:
    """Name the rows of [E, sums, D]."""
    return Report._make(sums[:, row] for row in range(sums.shape[1]))


def unseen_seconds(tick_s: int) -> np.float32:
    """Sample age of an app that never had a sample."""
    return np.float32(UNSEEN * tick_s)


@kernel
def sum_apps(
    apps: Apps, features: F32, need: F32, growth: F32, unseen_s: np.float32, sums: F64
) -> None:
    """Add one environment's declared apps to `sums` [sums, D]; the row WANTED stays as it is.

    `growth` [D] is what the directive tells the domains to prepare for.
    """
    status = apps.status
    for app in range(apps.load.size):
        if status[rows.ACTIVE, app] == 0:
            continue
        d = status[rows.DOMAIN, app]
        _sum_pods(apps, app, need[app], growth[d], sums)
        # Ones and zeros: an app that never had a sample counts nowhere.
        sampled = 1.0 if features[_AGE, app] < unseen_s else 0.0
        risk = is_at_risk(features[_SLACK, app], features[_ERRORS, app], features[_SATURATION, app])
        sums[_RPS, d] += sampled * _requests(features, app)
        sums[_AT_RISK, d] += sampled if risk else 0.0
        sums[_APPS, d] += sampled


@kernel
def _requests(features: F32, app: int) -> float:
    """Requests per second of an app; their slow mean where the sample is missing or broke off.

    Growth is the forecast over these requests. An exporter that breaks shows fewer and fewer of
    them until it shows none, and the others would seem to grow by what it does not show.
    """
    rps, change = float(features[_REQUESTS, app]), features[_TREND, app]
    doubtful = (features[_MISSING, app] != _ZERO) | (change < ABRUPT)
    return rps / (1.0 + change) if doubtful & (-_ONE < change < _ZERO) else rps


@kernel
def _sum_pods(apps: Apps, app: int, need: np.float32, growth: np.float32, sums: F64) -> None:
    status, load = apps.status, apps.load[app]
    d, cores = status[rows.DOMAIN, app], status[rows.CPU_REQUEST, app] * 0.001
    bound = status[rows.READY, app] + status[rows.STARTING, app]
    # Replicas that were just requested have no pods yet; a rolling deploy has more pods than
    # replicas. Both hold capacity.
    pods = max(status[rows.REPLICAS, app], bound + status[rows.PENDING, app])
    least = load * growth / BEARABLE
    sums[_WORK, d] += load * cores
    sums[_ESSENTIAL, d] += least * cores
    # Of pods on nodes no more than needed: what is spare may go to others.
    sums[_KEPT, d] += max(least, min(float(bound), need)) * cores
    sums[_HELD, d] += pods * cores
    # In floats: the product of two absurd counts is no 64-bit integer.
    sums[_HELD_MEMORY, d] += np.float64(pods) * status[rows.MEMORY_REQUEST, app] / 1024.0
    sums[_PENDING, d] += status[rows.PENDING, app] * cores
    # App by app: spare pods of one app do not help another.
    sums[_DISTRESS, d] += max(0.0, least - bound) * cores
