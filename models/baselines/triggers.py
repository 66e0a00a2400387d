"""Triggers on request rate and CPU, as teams write them for an app whose pods were load-tested.

The target of the rate is a share of what a pod serves when it is saturated: its declared saturation
over the CPU of a request. Nobody declares that CPU; a team reads it off a dashboard when it writes
the trigger. Here it is the mean of an app's first minutes and stays as it is: a target in a file
does not follow a changed payload. The trigger on CPU does, with the same share as its target.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from models.baselines.hpa.external import external_replicas, highest
from models.cluster import rows
from models.cluster.arrays import F64, I32, Mask
from models.cluster.inventory import Inventory
from models.cluster.observation import Observation

MEASURED_MIN: Final = 10
"""Minutes of an app's samples that its CPU per request is read from."""
_MILLI: Final = 0.001
_MINUTE_S: Final = 60

TARGET_RANGES: Final[dict[str, tuple[float, float]]] = {
    "target_p0": (0.3, 0.8),
    "target_p1": (0.35, 0.85),
    "target_p2": (0.4, 0.95),
    "target_p3": (0.4, 0.95),
}
"""Where the calibration searches the targets by priority."""


class TriggerState(NamedTuple):
    """[E, A] sums over an app's first samples; they stop when there are enough."""

    cores: F64
    rps: F64
    samples: I32


class Load(NamedTuple):
    """[E, A] what the triggers read in a tick."""

    rps: F64
    rate_target: F64
    """Requests a second per pod; 0 before it is known."""
    cores: F64
    core_target: F64
    """Cores per pod."""
    failed: Mask
    """Where no sample arrived."""

    @property
    def replicas(self) -> F64:
        """Replicas at the targets, not rounded; 0 where nothing was measured."""
        known = self.rate_target > 0
        rate = np.where(known, self.rps / np.where(known, self.rate_target, 1.0), 0.0)
        busiest: F64 = np.where(self.failed, 0.0, np.maximum(rate, self.cores / self.core_target))
        return busiest


class Triggers:
    """`targets`: shares of saturation by priority, each the target of both triggers."""

    def __init__(self, inventory: Inventory, targets: Sequence[float]) -> None:
        share = np.array(targets)[inventory.priority[inventory.domain]]
        self._share = share * inventory.saturation
        self._enough = MEASURED_MIN * _MINUTE_S // inventory.tick_s

    def start(self, observation: Observation) -> TriggerState:
        """Nothing measured."""
        shape = observation.missing.shape
        return TriggerState(np.zeros(shape), np.zeros(shape), np.zeros(shape, np.int32))

    def read(self, observation: Observation, state: TriggerState) -> tuple[Load, TriggerState]:
        """What the triggers see now, with the CPU per request as far as it is known."""
        measured, status = observation.measured, observation.status
        cores = measured[:, rows.CPU].astype(np.float64)
        rps = measured[:, rows.RPS].astype(np.float64)
        failed = (observation.missing == 1) | ~(np.isfinite(cores) & np.isfinite(rps))
        failed |= (cores < 0) | (rps < 0)
        state = self._measure(observation, np.where(failed, 0, cores), np.where(failed, 0, rps),
                              failed, state)  # fmt: skip
        core_target = np.maximum(_MILLI, self._share * status[:, rows.CPU_REQUEST] * _MILLI)
        known = (state.samples >= self._enough) & (state.cores > 0) & (state.rps > 0)
        work = np.where(known, state.cores, 1.0) / np.where(known, state.rps, 1.0)
        rate_target = np.where(known, core_target / work, 0.0)
        return Load(rps, rate_target, cores, core_target, failed), state

    def _measure(
        self, observation: Observation, cores: F64, rps: F64, failed: Mask, state: TriggerState
    ) -> TriggerState:
        active = observation.status[:, rows.ACTIVE] == 1
        # An app that vanishes takes its trigger along.
        counts = active & ~failed & (state.samples < self._enough)
        return TriggerState(
            np.where(active, state.cores + np.where(counts, cores, 0.0), 0.0),
            np.where(active, state.rps + np.where(counts, rps, 0.0), 0.0),
            np.where(active, state.samples + counts, 0).astype(np.int32),
        )


def recommend(observation: Observation, load: Load, *others: I32) -> I32:
    """[E, A] the highest of both triggers and of `others`; NO_METRIC if that is not known."""
    current = observation.status[:, rows.REPLICAS]
    usage = np.where(load.failed, np.nan, 1.0)
    by_rate = external_replicas(load.rps * usage, load.rate_target, current)
    by_cores = external_replicas(load.cores * usage, load.core_target, current)
    return highest((by_rate, by_cores, *others), load.failed, current)
