"""Frames and forecasts of one domain as arrays: one environment, one domain."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from models.cluster.arrays import F64
from models.cluster.observation import POOL_STATUS, Observation
from models.control.breaker.forecasts import (
    ForecastRecord,
    add_forecast,
    observe_tick,
    start_record,
)
from models.control.breaker.readings import AppSamples
from schemas.demand_forecast import DemandForecast
from schemas.domain_observed import DomainObserved
from services._kit.arrays import (
    blank_observation,
    check_forecast,
    measured_rows,
    observation_of,
    status_rows,
    without_samples,
)
from services._kit.state_codec import copied
from services.breaker.applied import Applied, accepted_replicas

_AHEAD_TICKS: Final = 6
"""Forecasts further ahead of the frames than this are not believed."""


def app_samples(frame: DomainObserved, applied: Applied) -> AppSamples:
    """A frame as input of the rules."""
    count = len(frame.apps)
    missing = set(frame.missing)
    return AppSamples(
        domain=np.zeros((1, count), np.int32),
        missing=np.array([[app in missing for app in frame.apps]], np.bool_).reshape(1, count),
        rps=_column(frame.measured.get("rps"), count),
        errors=_column(frame.measured.get("errors"), count),
        headroom=_column(frame.features.get("headroom"), count),
        replicas=np.array([frame.pods.replicas], np.int32),
        cpu=np.array([frame.pods.cpu_request], np.int32),
        pending=np.array([frame.pods.pending], np.int32),
        accepted=accepted_replicas(applied, frame.apps, frame.tick),
    )


def no_samples() -> AppSamples:
    """A domain without apps."""
    whole, real = np.zeros((1, 0), np.int32), np.zeros((1, 0))
    return AppSamples(
        domain=whole,
        missing=np.zeros((1, 0), np.bool_),
        rps=real,
        errors=real,
        headroom=real,
        replicas=whole,
        cpu=whole,
        pending=whole,
        accepted=np.zeros((1, 0, 0), np.int32),
    )


def _column(values: Sequence[float | None] | None, count: int) -> F64:
    """[1, A]; NaN where nothing arrived, and everywhere without the column."""
    if not values:
        return np.full((1, count), np.nan)
    return np.array([values], np.float64)


def fresh_record(apps: int) -> ForecastRecord:
    """Nothing forecast, nothing observed."""
    return start_record(blank_observation(apps), 1)


def with_frame(record: ForecastRecord, frame: DomainObserved, per_minute: int) -> ForecastRecord:
    """Add the traffic of a tick."""
    # The means of minutes are updated in place; the input must stay as it is.
    own = record._replace(minutes=copied(record.minutes))
    return observe_tick(_observation(frame), own, per_minute)


def with_forecast(
    record: ForecastRecord, forecast: DemandForecast, newest_tick: int, per_minute: int
) -> ForecastRecord:
    """Add a forecast; the same record if it is not used. `newest_tick` is that of frames."""
    check_forecast(forecast)
    # Between minutes nothing is forecast; one from the future would hide all until then.
    if forecast.tick % per_minute or forecast.tick > newest_tick + _AHEAD_TICKS:
        return record
    values = np.array([[forecast.rps]], np.float32)
    return add_forecast(forecast.tick // per_minute, values, record)


def _observation(frame: DomainObserved) -> Observation:
    table = measured_rows(frame.measured, len(frame.apps))
    pool, status = np.zeros((1, 0), POOL_STATUS), status_rows(frame.pods, 0)
    return observation_of(frame.tick, status, table, without_samples(table), pool)
