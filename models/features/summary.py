"""Features of tier groups and domains, from the sums and the sorted keys of their apps.

A sort key is the group (or domain) above a fixed-point value. One sort of plain integers per
environment orders every group at once, however many apps moved between groups.
"""

from typing import Final

import numpy as np

from models.cluster.arrays import F32, F64, I32
from models.features import sums as s
from models.features.apps import U32, Declared
from models.features.memory import UNSEEN
from models.features.table import AGES, GROUP
from models.features.table import DOMAIN as DOMAIN_LEVEL
from models.jit import kernel

_USE_QUANTILES: Final = (0.1, 0.5, 0.75, 0.9, 1.0)
_SLACK_QUANTILES: Final = (0.0, 0.1, 0.25, 0.5, 0.9)
"""Mirrored: of utilisation the upper tail matters, of headroom the lower one."""

_APPS: Final = GROUP.at("apps")
_RPS: Final = GROUP.at("rps")
_TREND: Final = GROUP.at("rps_trend")
_ERRORS: Final = GROUP.at("errors")
_USE: Final = GROUP.at("utilisation")
_MEMORY_USE: Final = GROUP.at("memory_use")
_USE_P10: Final = GROUP.at("utilisation_p10")
_USE_VARIANCE: Final = GROUP.at("utilisation_variance")
_SLACK: Final = GROUP.at("headroom")
_SLACK_MIN: Final = GROUP.at("headroom_min")
_SLACK_VARIANCE: Final = GROUP.at("headroom_variance")
_AT_RISK: Final = GROUP.at("at_risk")
_RESTARTS: Final = GROUP.at("restarts")
_READY: Final = GROUP.at("ready")
_IN_FLIGHT: Final = GROUP.at("in_flight_30s")
_PENDING: Final = GROUP.at("pending")
_HELD_CPU: Final = GROUP.at("held_cpu")
_HELD_MEMORY: Final = GROUP.at("held_memory")
_MISSING: Final = GROUP.at("missing")
_AGE: Final = GROUP.at("sample_age")
_EXPOSURE: Final = DOMAIN_LEVEL.at("latency_exposure")

# What a segment without any sample reads as: full if it has apps, idle if it has none.
_BUSY, _IDLE = 1.0, 0.0
_TIGHT, _EASY = 0.0, 1.0

# 20 bits of a key hold the value, the other 12 the segment: up to 4,095 tier groups.
_BITS: Final = 20
_LOW: Final = -5.0
_STEP: Final = 10.0 / ((1 << _BITS) - 1)
"""Resolution of the quantiles, about 1e-5; the range covers every ratio in the table."""
_FROM: Final = np.float32(_LOW)
_PER_STEP: Final = np.float32(1.0 / _STEP)
_MASK: Final = np.uint32((1 << _BITS) - 1)
_NONE: Final = np.uint32(0xFFFFFFFF)
"""Key of an app without a sample: it sorts behind all others."""
MOST_SEGMENTS: Final = (1 << (32 - _BITS)) - 1
"""Tier groups that fit into the upper bits of a key."""


@kernel
def find_groups(domain: I32, live: F32, declared: Declared, group: I32, home: I32) -> None:
    """Tier group and domain of each app, -1 where it is not declared.

    An app that moved keeps its tier; a domain with fewer tiers puts it into the last one.
    """
    tiers, first, tier = declared.tiers, declared.first, declared.tier
    for app in range(group.size):
        is_live = live[app] > 0.0
        # Index 0 stands in for a domain that may be out of range: both outcomes are computed.
        d = domain[app] if is_live else 0
        home[app] = d if is_live else -1
        group[app] = first[d] + min(tier[app], tiers[d] - 1) if is_live else -1


@kernel
def write_keys(value: F32, age: I32, segment: I32, keys: U32) -> None:
    """Sort keys of a feature; apps that never had a sample come last."""
    for app in range(keys.size):
        # Values are clipped to -5 to 5, so the point fits its bits and never changes the segment.
        point = np.uint32((value[app] - _FROM) * _PER_STEP)
        key = (np.uint32(segment[app]) << np.uint32(_BITS)) | point
        keys[app] = key if (segment[app] >= 0) & (age[app] < UNSEEN) else _NONE


@kernel
def value_of(key: np.uint32) -> float:
    """The value that a key encodes."""
    return np.float64(key & _MASK) * _STEP + _LOW


@kernel
def summarise(total: F64, use: U32, slack: U32, cpu: float, memory: float, out: F32) -> None:
    """Fill the columns of GROUP of every segment of one environment.

    `total` [segments, SUMS]; `use` and `slack` [A] sorted keys of the same segments; `cpu` and
    `memory` the allocatable cores and GiB of the ready nodes; `out` [columns, segments].
    """
    start = 0
    for segment in range(total.shape[0]):
        row = total[segment]
        sampled = int(row[s.SAMPLED])
        _describe(row, out, segment)
        # Without a ready node the shares would divide by zero; a small divisor reads as full.
        _count_pods(row, max(cpu, 1e-3), max(memory, 1e-3), out, segment)
        _rank(use, start, sampled, _USE_QUANTILES, out[_USE_P10:], segment)
        _rank(slack, start, sampled, _SLACK_QUANTILES, out[_SLACK_MIN:], segment)
        if sampled == 0:
            _assume(row[s.APPS] > 0, out, segment)
        # Sorted keys lie segment by segment, so the next segment starts where this one ends.
        start += sampled


@kernel
def _within(value: float, low: float, high: float) -> np.float32:
    return np.float32(min(max(value, low), high))


@kernel
def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0.0 else 0.0


@kernel
def _describe(row: F64, out: F32, k: int) -> None:
    """Means and variances; without traffic every app counts the same in the mean headroom."""
    # Over the apps that ever had a sample, because the others read as full. Only what is missing
    # and how old samples are is over all apps.
    sampled, traffic = row[s.SAMPLED], row[s.TRAFFIC]
    use, slack = _ratio(row[s.USE], sampled), _ratio(row[s.SLACK], sampled)
    weighted = row[s.SLACK_TRAFFIC] / traffic if traffic > 0.0 else slack
    trend = traffic / row[s.MEAN_TRAFFIC] - 1.0 if row[s.MEAN_TRAFFIC] > 0.0 else 0.0
    out[_APPS, k] = row[s.APPS]
    out[_RPS, k] = traffic
    out[_TREND, k] = _within(trend, -1.0, 5.0)
    out[_ERRORS, k] = _within(_ratio(row[s.FAILING], traffic), 0.0, 1.0)
    out[_USE, k] = _within(_ratio(row[s.CPU_USED], row[s.CPU_ASKED]), 0.0, 5.0)
    out[_MEMORY_USE, k] = _within(_ratio(row[s.MEMORY_USED], row[s.MEMORY_ASKED]), 0.0, 5.0)
    # Rounding can make a variance slightly negative; the clip removes that.
    out[_USE_VARIANCE, k] = _within(_ratio(row[s.USE_SQUARED], sampled) - use * use, 0.0, 5.0)
    out[_SLACK, k] = _within(weighted, -5.0, 1.0)
    variance = _ratio(row[s.SLACK_SQUARED], sampled) - slack * slack
    out[_SLACK_VARIANCE, k] = _within(variance, 0.0, 5.0)
    out[_AT_RISK, k] = _ratio(row[s.AT_RISK], sampled)
    out[_MISSING, k] = _ratio(row[s.MISSING], row[s.APPS])
    out[_AGE, k] = _ratio(row[s.AGE_S], row[s.APPS])


@kernel
def _count_pods(row: F64, cpu: float, memory: float, out: F32, k: int) -> None:
    wanted = max(row[s.WANTED], 1.0)
    out[_RESTARTS, k] = _within(row[s.RESTARTED] / max(row[s.UP], 1.0), 0.0, 5.0)
    out[_READY, k] = _within(row[s.UP] / wanted, 0.0, 5.0)
    out[_PENDING, k] = _within(row[s.WAITING] / wanted, 0.0, 5.0)
    out[_HELD_CPU, k] = _within(row[s.HELD_CPU] / cpu, 0.0, 5.0)
    out[_HELD_MEMORY, k] = _within(row[s.HELD_MEMORY] / memory, 0.0, 5.0)
    for bucket in range(len(AGES)):
        out[_IN_FLIGHT + bucket, k] = _within(row[s.IN_FLIGHT + bucket] / wanted, 0.0, 5.0)


@kernel
def _rank(keys: U32, start: int, sampled: int, wanted: tuple[float, ...], out: F32, k: int) -> None:
    """Quantiles by linear interpolation between neighbours, as numpy's default."""
    for index in range(len(wanted) if sampled > 0 else 0):
        at = wanted[index] * (sampled - 1)
        below = int(at)
        low = value_of(keys[start + below])
        high = value_of(keys[start + min(below + 1, sampled - 1)])
        out[index, k] = np.float32(low + (at - below) * (high - low))


@kernel
def _assume(declared: bool, out: F32, k: int) -> None:
    """Without any sample assume that declared apps are fully used: doubt must not scale in."""
    use, slack = (_BUSY, _TIGHT) if declared else (_IDLE, _EASY)
    out[_USE, k] = out[_MEMORY_USE, k] = use
    out[_SLACK, k] = slack
    for index in range(len(_USE_QUANTILES)):
        out[_USE_P10 + index, k] = use
    for index in range(len(_SLACK_QUANTILES)):
        out[_SLACK_MIN + index, k] = slack


@kernel
def expose(total: F64, calls: F32, out: F32) -> None:
    """Latency exposure of every domain: the part of its latency target that its callees use.

    Direct callees only: a callee's latency contains that of its own callees.
    """
    for caller in range(total.shape[0]):
        target = _ratio(total[caller, s.TARGET], total[caller, s.TARGET_TRAFFIC])
        waited = 0.0
        for callee in range(total.shape[0]):
            latency = _ratio(total[callee, s.LATENCY], total[callee, s.TRAFFIC])
            waited += calls[caller, callee] * latency
        out[_EXPOSURE, caller] = _within(_ratio(waited, target), 0.0, 5.0)
