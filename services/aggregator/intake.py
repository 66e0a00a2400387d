"""What has arrived of one tick of a domain, sample by sample."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from models.sim.apps import F32, F64, I32
from models.sim.state import CPU, ERRORS, MEMORY, P50, P99, PODS, READY, RPS, SAMPLES, THROUGHPUT
from schemas.columns import MEASURED
from schemas.metrics_sampled import MetricsSampled
from services._kit.frames import KNOWN_COLUMNS

_SUMMED: Final = (RPS, THROUGHPUT, CPU, MEMORY)
_WEIGHTED: Final = (ERRORS, P50)
"""Means over the pods of an app, by their requests."""
_PER_REQUEST: Final = (ERRORS, P50, P99)
"""What a request has; Prometheus divides by zero where there was none."""
_LEAST: Final = 1e-9


class Draft:
    """Samples by app, and how sure it is that no more will come."""

    def __init__(self, names: tuple[str, ...], since: float) -> None:
        self.since = since
        """Wall time at which the first of them came."""
        self.final = False
        self.time = ""
        self._places = {name: place for place, name in enumerate(names)}
        self._rows = np.full((SAMPLES, len(names)), np.nan, np.float32)
        self._heard = np.zeros(len(names), np.bool_)
        self._pods: dict[int, F64] = {}
        """Sums over single pods, by app: samples in float64, the weight last."""
        self._counted: set[tuple[int, str]] = set()
        """Pods that are in these sums: a batch that comes twice counts once."""
        self.known: dict[int, dict[int, int]] = {}
        """What the API server answered, by row of `Observation.known` and by app."""

    def add(self, batch: MetricsSampled) -> None:
        """Take in a batch; apps that are not declared are not looked at."""
        self.time, self.final = batch.time, self.final or batch.final
        pairs = [
            (at, self._places[app]) for at, app in enumerate(batch.apps) if app in self._places
        ]
        at, place = (np.array([pair[side] for pair in pairs], np.intp) for side in (0, 1))
        rows = _rows_of(batch)[:, at]
        if batch.pods:
            self._add_pods(rows, place, [batch.pods[pair[0]] for pair in pairs])
        else:
            self._rows[:, place] = rows
            self._heard[place] = True
        self._note_pods(batch, pairs)

    def complete(self, known: I32) -> bool:
        """Whether every app has reported, by itself or with all of its ready pods."""
        heard = self._heard.copy()
        for place, sums in self._pods.items():
            heard[place] |= sums[PODS] >= max(1, int(known[0, READY, place]))
        return bool(heard.all())

    def told(self) -> list[int]:
        """Apps of which the API server told everything."""
        rows = [self.known.get(row, {}).keys() for row, _ in KNOWN_COLUMNS]
        return sorted(set(rows[0]).intersection(*rows[1:]))

    def measured(self) -> F32:
        """[1, SAMPLES, A] NaN where nothing arrived."""
        rows = self._rows.copy()
        for place, sums in self._pods.items():
            if not self._heard[place]:
                rows[:, place] = _of_pods(sums)
        return rows[None]

    def _add_pods(self, rows: F32, places: NDArray[np.intp], pods: list[str]) -> None:
        """Sum up pods by app; one without a request rate or CPU tells nothing."""
        told = np.isfinite(rows[RPS]) & np.isfinite(rows[CPU])
        for at in np.flatnonzero(told).tolist():
            told[at] = self._counts(int(places[at]), pods[at])
        rows, places = rows[:, told].astype(np.float64), places[told]
        rows = np.where(np.isfinite(rows), rows, 0.0)
        weight = np.maximum(rows[RPS], _LEAST)
        lots = rows.copy()
        lots[list(_WEIGHTED)] *= weight
        lots[PODS] = 1.0
        for place in np.unique(places):
            own = places == place
            sums = self._pods.setdefault(int(place), np.zeros(SAMPLES + 1))
            slowest = max(sums[P99], float(rows[P99, own].max()))
            sums[:SAMPLES] += lots[:, own].sum(axis=1)
            sums[SAMPLES] += weight[own].sum()
            # The 99th percentile of an app is not below that of its slowest pod by much.
            sums[P99] = slowest

    def _counts(self, place: int, pod: str) -> bool:
        """Whether a pod is new in this tick."""
        if (place, pod) in self._counted:
            return False
        self._counted.add((place, pod))
        return True

    def _note_pods(self, batch: MetricsSampled, pairs: list[tuple[int, int]]) -> None:
        for row, name in KNOWN_COLUMNS:
            column = getattr(batch, name)
            if column:
                noted = self.known.setdefault(row, {})
                noted.update((place, column[at]) for at, place in pairs)


def _rows_of(batch: MetricsSampled) -> F32:
    """[SAMPLES, places]; what the source does not measure at all is told apart from a gap."""
    rows = np.full((SAMPLES, len(batch.apps)), np.nan, np.float32)
    for row, name in enumerate(MEASURED):
        column = getattr(batch, name)
        if column:
            rows[row] = np.array(column, np.float32)
    assumed = ((THROUGHPUT, rows[RPS]), (ERRORS, 0.0), (P50, rows[P99]), (P99, 0.0), (PODS, 1.0))
    for row, value in assumed:
        if not getattr(batch, MEASURED[row]):
            rows[row] = value
    # Nothing was asked, so there is no share of failures and no latency: that is no gap.
    idle = rows[RPS] == 0
    for row in _PER_REQUEST:
        rows[row, idle & np.isnan(rows[row])] = 0.0
    return rows


def _of_pods(sums: F64) -> F64:
    """The samples of an app from the sums over its pods."""
    row = sums[:SAMPLES].copy()
    row[list(_WEIGHTED)] /= max(sums[SAMPLES], _LEAST)
    return row
