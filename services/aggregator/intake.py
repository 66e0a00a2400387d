"""What has arrived of one tick of a domain, sample by sample."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F32, F64, I32
from models.cluster.observation import (
    CPU,
    ERRORS,
    MEMORY,
    P50,
    P99,
    PODS,
    READY,
    RPS,
    SAMPLES,
    STATUS,
    STATUS_COLUMNS,
    THROUGHPUT,
)
from schemas.columns import MEASURED
from schemas.metrics_sampled import MetricsSampled

_WEIGHTED: Final = (ERRORS, P50)
"""Means over the pods of an app, by their requests."""
_ADDED: Final = (RPS, THROUGHPUT, CPU, MEMORY, PODS, *_WEIGHTED)
_PER_REQUEST: Final = (ERRORS, P50, P99)
"""What a request has; Prometheus divides by zero where there was none."""
_ALIVE: Final = [RPS, P99, CPU, MEMORY]
"""A pod that lives has some of them: who answers zero to all cannot measure."""
_LEAST: Final = 1e-9
_ANSWERED: Final = [row for row, _ in STATUS_COLUMNS]


class Draft:
    """Samples by app, and how sure it is that no more will come."""

    def __init__(self, names: tuple[str, ...], since: float) -> None:
        self.since = since
        """When the first of them came, by `Clock.now`."""
        self.final = False
        self.time = ""
        self._places = {name: place for place, name in enumerate(names)}
        self._rows = np.full((SAMPLES, len(names)), np.nan, np.float32)
        self._heard = np.zeros(len(names), np.bool_)
        self._sums: F64 = np.zeros((SAMPLES + 1, len(names)))
        """[SAMPLES + 1, A] sums over single pods, in the order in which they came; the weight last.
        PODS counts them."""
        self._counted: set[tuple[int, str]] = set()
        """Pods that are in these sums: a batch that comes twice counts once."""
        self._known = np.zeros((STATUS, len(names)), np.int32)
        """[STATUS, A] what the API server answered, rows as in `Observation.status`."""
        self._noted = np.zeros((STATUS, len(names)), np.bool_)
        """[STATUS, A] where it answered."""

    def add(self, batch: MetricsSampled) -> None:
        """Take in a batch; apps that are not declared are not looked at."""
        self.time, self.final = batch.time, self.final or batch.final
        declared = [at for at, app in enumerate(batch.apps) if app in self._places]
        at = np.array(declared, np.intp)
        place = np.array([self._places[batch.apps[one]] for one in declared], np.intp)
        if batch.pods:
            rows = _rows_of(batch)
            tells = _tells(rows, np.array([not getattr(batch, name) for name in MEASURED]))
            self._add_pods(rows[:, at], tells[at], place, [batch.pods[one] for one in declared])
        elif any(getattr(batch, name) for name in MEASURED):
            self._rows[:, place] = _rows_of(batch)[:, at]
            self._heard[place] = True
        self._note_answers(batch, at, place)

    def complete(self, status: I32) -> bool:
        """Whether every app has reported, by itself or with all of its ready pods."""
        by_pods = self._sums[PODS] >= np.maximum(1, status[0, READY])
        return bool((self._heard | by_pods).all())

    def told(self) -> NDArray[np.bool_]:
        """[A] where the API server told everything."""
        return np.asarray(self._noted[_ANSWERED].all(axis=0))

    def status(self, before: I32) -> I32:
        """[1, STATUS, A] what it answered now or, where it did not, before."""
        return np.where(self._noted, self._known, before)

    def measured(self) -> F32:
        """[1, SAMPLES, A] NaN where nothing arrived."""
        rows = self._rows.copy()
        by_pods = ~self._heard & (self._sums[PODS] > 0)
        rows[:, by_pods] = _of_pods(self._sums[:, by_pods])
        return rows[None]

    def _add_pods(
        self, rows: F32, tells: NDArray[np.bool_], places: NDArray[np.intp], pods: list[str]
    ) -> None:
        """Sum up by app the pods that tell something; what a source does not measure stays NaN."""
        new = np.fromiter(map(self._counts, places.tolist(), pods, tells.tolist()), np.bool_)
        rows, places = rows[:, new].astype(np.float64), places[new]
        weight = np.maximum(rows[RPS], _LEAST)
        # The 99th percentile of an app is not below that of its slowest pod by much.
        with np.errstate(invalid="ignore"):
            np.maximum.at(self._sums[P99], places, rows[P99])
        rows[list(_WEIGHTED)] *= weight
        rows[PODS] = 1.0
        for row in _ADDED:
            np.add.at(self._sums[row], places, rows[row])
        np.add.at(self._sums[SAMPLES], places, weight)

    def _counts(self, place: int, pod: str, tells: bool) -> bool:
        """Whether a pod is new in this tick; one that tells nothing may do so later."""
        if not tells or (place, pod) in self._counted:
            return False
        self._counted.add((place, pod))
        return True

    def _note_answers(
        self, batch: MetricsSampled, at: NDArray[np.intp], places: NDArray[np.intp]
    ) -> None:
        for row, name in STATUS_COLUMNS:
            column = getattr(batch, name)
            if column:
                self._known[row, places] = np.array(column, np.int32)[at]
                self._noted[row, places] = True


def _tells(rows: F32, absent: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[places] pods whose samples can be believed, by the rules of `models/features/memory.py`.

    In a sum nobody sees the gap of a single pod, and as a zero it would lower what the app uses:
    such a pod is not counted, and the others stand for it. A column that the source does not have
    at all (`absent`) is no pod's fault: they count, and the app has a gap there, so that it is
    missing and held. Without requests or CPU there is nothing to decide on.
    """
    valid = np.isfinite(rows) & (rows >= 0)
    whole = (valid | absent[:, None]).all(axis=0) & valid[RPS] & valid[CPU]
    return np.asarray(whole & (np.nansum(rows[_ALIVE], axis=0) > 0))


def _rows_of(batch: MetricsSampled) -> F32:
    """[SAMPLES, places]; NaN where nothing arrived.

    Of what the source does not measure at all, only what says nothing good is assumed: answers as
    requests, a median as slow as the slowest. Without failures or latency nobody knows how an app
    fares, and a zero would say that all is well, and let it be lowered.
    """
    rows = np.full((SAMPLES, len(batch.apps)), np.nan, np.float32)
    for row, name in enumerate(MEASURED):
        column = getattr(batch, name)
        if column:
            rows[row] = np.array(column, np.float32)
    assumed = ((THROUGHPUT, rows[RPS]), (P50, rows[P99]), (PODS, 1.0))
    for row, value in assumed:
        if not getattr(batch, MEASURED[row]):
            rows[row] = value
    # Nothing was asked, so there is no share of failures and no latency: that is no gap.
    idle = rows[RPS] == 0
    for row in _PER_REQUEST:
        rows[row, idle & np.isnan(rows[row])] = 0.0
    return rows


def _of_pods(sums: F64) -> F64:
    """[SAMPLES, A] samples of apps from the sums over their pods."""
    rows = sums[:SAMPLES].copy()
    rows[list(_WEIGHTED)] /= np.maximum(sums[SAMPLES], _LEAST)
    return rows
