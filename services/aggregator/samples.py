"""The samples of one tick of a domain, summed up as they arrive."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Final

import numpy as np
from numpy.typing import NDArray

from models.cluster import rows
from models.cluster.arrays import F32, F64, I32, Mask
from schemas.metrics_sampled import MEASURED, MetricsSampled

Indices = NDArray[np.intp]

_WEIGHTED: Final = (rows.ERRORS, rows.P50)
"""Averaged over the pods of an app, weighted by their requests."""
_ADDED: Final = (rows.RPS, rows.THROUGHPUT, rows.CPU, rows.MEMORY, rows.PODS, *_WEIGHTED)
_PER_REQUEST: Final = (rows.ERRORS, rows.P50, rows.P99)
"""Undefined without requests: Prometheus divides by zero there."""
_LIVE_ROWS: Final = [rows.RPS, rows.P99, rows.CPU, rows.MEMORY]
"""A running pod has some of these. All zeros means the exporter is broken."""
_LEAST_WEIGHT: Final = 1e-9
"""Weight of a pod without requests, so that an app without any has an average too."""
_REPORTED_ROWS: Final = [row for row, _ in rows.STATUS_COLUMNS]


@dataclass(frozen=True)
class TickSamples:
    """What has arrived of one open tick. A apps, in the order of `index`."""

    index: Mapping[str, int]
    """Column of each declared app."""
    since: float
    """When the collector's first samples arrived, by `Clock.now`; infinite before that."""
    rows: F32
    """[SAMPLES, A] samples of whole apps; NaN where none arrived."""
    received: Mask
    """[A] whether `rows` has the app."""
    pod_sums: F64
    """[SAMPLES + 1, A] sums over single pods in order of arrival; the last row sums the weights,
    the row PODS counts them."""
    counted: Mapping[int, frozenset[str]]
    """Pods in these sums, by column: a batch that arrives twice counts once."""
    pods: I32
    """[STATUS, A] pods as the API server reported them, rows as in `Observation.status`."""
    pods_reported: Mask
    """[STATUS, A] where it did."""
    time: str = ""
    final: bool = False
    """Whether the source announced that nothing more comes."""

    @property
    def is_sourced(self) -> bool:
        """Whether the collector has reported; a tick that only agents reported stays open."""
        return self.since < inf

    def complete(self, pods: I32) -> bool:
        """Whether every app has reported, by itself or through all of its ready `pods`."""
        # At least one pod: an app without ready or known pods is not complete from the start.
        by_pods = self.pod_sums[rows.PODS] >= np.maximum(1, pods[0, rows.READY])
        return bool((self.received | by_pods).all())

    def all_pods_reported(self) -> Mask:
        """[A] where the API server reported every column."""
        return np.asarray(self.pods_reported[_REPORTED_ROWS].all(axis=0))

    def pods_after(self, before: I32) -> I32:
        """[1, STATUS, A] pods as reported now or, where they were not, before."""
        return np.where(self.pods_reported, self.pods, before)

    def measured(self) -> F32:
        """[1, SAMPLES, A] samples by app; NaN where nothing arrived."""
        table = self.rows.copy()
        # Samples of a whole app win over sums of its pods, of which some may be missing.
        by_pods = ~self.received & (self.pod_sums[rows.PODS] > 0)
        table[:, by_pods] = _average_pods(self.pod_sums[:, by_pods])
        return table[None]


def no_samples(names: tuple[str, ...]) -> TickSamples:
    """An open tick before its first batch."""
    count = len(names)
    return TickSamples(
        index={name: index for index, name in enumerate(names)},
        since=inf,
        rows=np.full((rows.SAMPLES, count), np.nan, np.float32),
        received=np.zeros(count, np.bool_),
        pod_sums=np.zeros((rows.SAMPLES + 1, count)),
        counted={},
        pods=np.zeros((rows.STATUS, count), np.int32),
        pods_reported=np.zeros((rows.STATUS, count), np.bool_),
    )


def with_batch(samples: TickSamples, batch: MetricsSampled) -> TickSamples:
    """Add a batch; apps that are not declared are skipped."""
    declared = [at for at, app in enumerate(batch.apps) if app in samples.index]
    at = np.array(declared, np.intp)
    columns = np.array([samples.index[batch.apps[one]] for one in declared], np.intp)
    samples = replace(samples, time=batch.time, final=samples.final or batch.final)
    if batch.pods:
        table = _rows_of(batch)
        valid = _valid_pods(table, np.array([not getattr(batch, name) for name in MEASURED]))
        names = [batch.pods[one] for one in declared]
        samples = _with_pods(samples, table[:, at], valid[at], columns, names)
    # A batch without any samples only reports pods: its apps have yet to be measured.
    elif any(getattr(batch, name) for name in MEASURED):
        app_rows, received = samples.rows.copy(), samples.received.copy()
        app_rows[:, columns] = _rows_of(batch)[:, at]
        received[columns] = True
        samples = replace(samples, rows=app_rows, received=received)
    return _with_reports(samples, batch, at, columns)


def _with_pods(
    samples: TickSamples, table: F32, valid: Mask, columns: Indices, pods: list[str]
) -> TickSamples:
    """Sum up valid pods by app; what a source does not measure stays NaN."""
    fresh, counted = _fresh_pods(samples.counted, columns.tolist(), pods, valid.tolist())
    values, columns = table[:, fresh].astype(np.float64), columns[fresh]
    sums = samples.pod_sums.copy()
    weight = np.maximum(values[rows.RPS], _LEAST_WEIGHT)
    # An upper bound: no app's 99th percentile exceeds that of its slowest pod.
    # NaN, of a source that does not measure latency, passes through the maximum with a warning.
    with np.errstate(invalid="ignore"):
        np.maximum.at(sums[rows.P99], columns, values[rows.P99])
    values[list(_WEIGHTED)] *= weight
    values[rows.PODS] = 1.0
    # `np.add.at`, because a batch has many pods of an app: with `sums[row, columns] += ...` only
    # the last of them would count.
    for row in _ADDED:
        np.add.at(sums[row], columns, values[row])
    np.add.at(sums[rows.SAMPLES], columns, weight)
    return replace(samples, pod_sums=sums, counted=counted)


def _fresh_pods(
    counted: Mapping[int, frozenset[str]], columns: list[int], pods: list[str], valid: list[bool]
) -> tuple[Mask, Mapping[int, frozenset[str]]]:
    """[batch] pods that are new in this tick, and all counted ones with them.

    An invalid pod does not count: it may report properly later in the tick.
    """
    added: dict[int, set[str]] = {}
    fresh = np.zeros(len(pods), np.bool_)
    for at, (column, pod, is_valid) in enumerate(zip(columns, pods, valid, strict=True)):
        is_counted = column in counted and pod in counted[column]
        if is_valid and not is_counted and pod not in added.get(column, ()):
            added.setdefault(column, set()).add(pod)
            fresh[at] = True
    merged = {column: counted.get(column, frozenset()) | pods for column, pods in added.items()}
    return fresh, {**counted, **merged}


def _with_reports(
    samples: TickSamples, batch: MetricsSampled, at: Indices, columns: Indices
) -> TickSamples:
    """Note what the API server reported of pods."""
    reported = [(row, name) for row, name in rows.STATUS_COLUMNS if getattr(batch, name)]
    if not reported:
        return samples
    pods, noted = samples.pods.copy(), samples.pods_reported.copy()
    for row, name in reported:
        pods[row, columns] = np.array(getattr(batch, name), np.int32)[at]
        noted[row, columns] = True
    return replace(samples, pods=pods, pods_reported=noted)


def _valid_pods(table: F32, absent: Mask) -> Mask:
    """[batch] pods whose samples are valid, by the rules of `models/features/memory.py`.

    In a sum the gap of a single pod is invisible, and as a zero it would lower what the app uses.
    So an invalid pod is not counted, and the others represent it. A column that the source does
    not have at all (`absent`) does not invalidate a pod: the pod counts, the app has a gap there,
    so it is missing and held. Without requests or CPU there is nothing to decide on.
    """
    valid = np.isfinite(table) & (table >= 0)
    whole = (valid | absent[:, None]).all(axis=0) & valid[rows.RPS] & valid[rows.CPU]
    return np.asarray(whole & (np.nansum(table[_LIVE_ROWS], axis=0) > 0))


def _rows_of(batch: MetricsSampled) -> F32:
    """[SAMPLES, batch]; NaN where nothing arrived.

    Columns that the source does not measure at all get pessimistic substitutes only: throughput
    equal to requests, a median as slow as p99. Errors and latency have no substitute: a zero would
    claim that the app is fine, and allow lowering it.
    """
    table = np.full((rows.SAMPLES, len(batch.apps)), np.nan, np.float32)
    for row, name in enumerate(MEASURED):
        column = getattr(batch, name)
        if column:
            table[row] = np.array(column, np.float32)
    substitutes = (
        (rows.THROUGHPUT, table[rows.RPS]),
        (rows.P50, table[rows.P99]),
        (rows.PODS, 1.0),
    )
    for row, value in substitutes:
        if not getattr(batch, MEASURED[row]):
            table[row] = value
    # Without requests there are no errors and no latency: that is no gap.
    idle = table[rows.RPS] == 0
    for row in _PER_REQUEST:
        table[row, idle & np.isnan(table[row])] = 0.0
    return table


def _average_pods(sums: F64) -> F64:
    """[SAMPLES, A] samples of apps from the sums over their pods."""
    table = sums[: rows.SAMPLES].copy()
    table[list(_WEIGHTED)] /= np.maximum(sums[rows.SAMPLES], _LEAST_WEIGHT)
    return table
