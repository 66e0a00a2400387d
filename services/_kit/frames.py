"""Columns of events as arrays of the models, with one environment, and back."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from models.cluster.arrays import F32, I8, I32, Records
from models.cluster.observation import (
    ACTIVE,
    DOMAIN,
    POOL_STATUS,
    SAMPLES,
    STATUS,
    STATUS_COLUMNS,
    Observation,
)
from models.cluster.plan import Reason
from models.features.table import APP
from schemas.columns import MEASURED
from schemas.domain_observed import DomainObserved, Pods
from services._kit.errors import Refused

REASONS: Final = {int(reason): reason.name.lower().replace("_", "-") for reason in Reason}
"""How events spell why a plan's numbers are what they are."""


def status_rows(pods: Pods, place: int) -> I32:
    """[1, STATUS, A] of the apps of the domain at `place`; all of them are declared."""
    rows = np.empty((1, STATUS, len(pods.replicas)), np.int32)
    rows[0, ACTIVE], rows[0, DOMAIN] = 1, place
    for row, name in STATUS_COLUMNS:
        rows[0, row] = getattr(pods, name)
    return rows


def pods_of(status: I32) -> Pods:
    """The reverse."""
    columns = {name: status[0, row].tolist() for row, name in STATUS_COLUMNS}
    return Pods(**columns)


def measured_rows(columns: Mapping[str, Sequence[float | None]], apps: int) -> F32:
    """[1, SAMPLES, A]; NaN where nothing arrived."""
    rows = np.full((1, SAMPLES, apps), np.nan, np.float32)
    for row, name in enumerate(MEASURED):
        if columns.get(name):
            rows[0, row] = np.array(columns[name], np.float32)
    return rows


def measured_columns(rows: F32, missing: I8) -> dict[str, list[float | None]]:
    """The reverse; an app that is missing has no samples at all."""
    gone = missing[0] == 1
    columns: dict[str, list[float | None]] = {}
    for row, name in enumerate(MEASURED):
        values = rows[0, row]
        silent = gone | ~np.isfinite(values)
        found: list[float | None] = values.tolist()
        for place in np.flatnonzero(silent).tolist():
            found[place] = None
        columns[name] = found
    return columns


def unheard(rows: F32) -> I8:
    """[1, A] 1 where a sample that every source has did not arrive."""
    missing: I8 = np.asarray(np.isnan(rows).any(axis=1), np.int8)
    return missing


def observation_of(tick: int, status: I32, rows: F32, missing: I8, pool: Records) -> Observation:
    """What the models take; without a pool they see none."""
    quiet = np.where(missing[:, None] == 1, np.float32(0), np.nan_to_num(rows))
    return Observation(np.array([tick], np.int32), quiet, missing, status, pool)


def silence(apps: int) -> Observation:
    """A tick 0 in which nobody reports and no pool is seen: for shapes."""
    status = np.zeros((1, STATUS, apps), np.int32)
    rows = np.zeros((1, SAMPLES, apps), np.float32)
    missing = np.ones((1, apps), np.int8)
    return observation_of(0, status, rows, missing, np.zeros((1, 0), POOL_STATUS))


def feature_rows(frame: DomainObserved) -> F32:
    """[1, APP, A] features of the apps, in the order of the table."""
    rows = np.empty((1, APP.width, len(frame.apps)), np.float32)
    for row, name in enumerate(APP.names):
        rows[0, row] = _feature(frame, name)
    return rows


def abridged(frame: DomainObserved, features: Sequence[str]) -> DomainObserved:
    """A frame to be remembered, without samples and with these features only.

    Several frames of a large domain would not fit into a saved state.
    """
    kept = {name: _feature(frame, name) for name in features}
    return replace(frame, measured={}, features=kept)


def _feature(frame: DomainObserved, name: str) -> list[float]:
    if name not in frame.features:
        raise Refused("missing-feature", f"expected `{name}` among the features, got none")
    return frame.features[name]


def row(values: Sequence[float]) -> F32:
    """[1, A]."""
    return np.array([values], np.float32)
