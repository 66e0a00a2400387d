"""How well forecasts do: what was forecast for a minute against what came.

Forecasts are judged by their shortest horizon, which control uses and whose outcomes are known
first. Two readings result, both a share:

- `skill`: of the recent forecasts, those that were clearly worse than the naive one (the present
  continues). Shares count minutes, not errors: however wrong, a few minutes are no collapse. An
  error is the distance to the 80 % interval, so a forecast that admits its doubt, as before an
  announced event that may not come, is not blamed for it.
- `output`: by how much traffic moved while the forecast stayed the same, bit for bit; 1 where the
  forecast has no usable numbers.

Everything is relative to the usual traffic, so that little is made of a calm night. Readings change
when a minute ends, by the forecasts made before: a service may get that minute's own forecast
later. E environments, D domains, H horizons, Q quantiles.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, F64, I32, I64
from models.cluster.observation import Observation
from models.control.breaker.readings import share
from models.forecaster.minutes import MinuteMeans, add_tick, start_minutes
from models.forecaster.outcomes import add_to_means, forecasts_about
from models.forecaster.port import HIGH, HORIZONS_MIN, LOW, QUANTILES

HORIZON_MIN: Final = HORIZONS_MIN[0]
_HORIZON: Final = np.array([HORIZON_MIN])
_SLOTS: Final = HORIZON_MIN + 1
_WINDOW_MIN: Final = 10.0
"""Recent outcomes: the mistakes of minutes pass, a model that went wrong does not."""
_CLEARLY: Final = 2.0
"""Times the naive forecast's error that a clearly worse forecast errs by at least."""
_LEAST_OUTCOMES: Final = 10
"""Fewer say nothing about a model."""
_USUAL_MIN: Final = 1440.0
"""Minutes that the usual traffic is a mean of."""
_TOLERANCE: Final = 0.1
"""Share of the usual traffic that a forecast may be wrong by, whatever the naive one does; and that
there has to be for a forecast of nothing to be broken."""
_LEAST_ROUNDS: Final = _SLOTS
"""Equal forecasts in a row before they count as constant."""
_NEVER: Final = -(2**40)


class ForecastRecord(NamedTuple):
    """What is remembered of forecasts and traffic. The means of minutes are updated in place."""

    minutes: MinuteMeans
    """Traffic, as forecasters take it in."""
    made: I64
    """[S] number of the minute at whose end a slot's forecast was made."""
    interval: F64
    """[E x D, S, 1, 2] low and high quantile of that forecast; NaN without one."""
    ended: I64
    """[S] number of a slot's minute."""
    traffic: F64
    """[E x D, S, 1] requests per second in that minute; NaN where nothing was observed."""
    worse: F64
    """[E, D] share of the recent forecasts that were clearly worse than the naive one."""
    outcomes: I64
    """[E, D] number of forecasts whose outcome is known."""
    usual: F64
    """[E, D] usual traffic."""
    seen: I64
    """[E, D] minutes that it is a mean of."""
    values: F32
    """[E, D, H, Q] the newest forecast."""
    rounds: I32
    """[E, D] forecasts in a row that were equal to it, itself included; 0 before the first."""
    began: F64
    """[E, D] mean traffic of the minutes in which they became constant; NaN before."""
    output: F64
    """[E, D] reading; NaN while unknown."""


def start_record(observation: Observation, domains: int) -> ForecastRecord:
    """Nothing forecast, nothing observed."""
    environments = observation.missing.shape[0]
    shape, rows = (environments, domains), environments * domains
    none, unknown = np.zeros(shape, np.int64), np.full(shape, np.nan)
    never = np.full(_SLOTS, _NEVER, np.int64)
    return ForecastRecord(
        minutes=start_minutes(observation, np.zeros((*shape, 1), np.float32)),
        made=never,
        interval=np.full((rows, _SLOTS, 1, 2), np.nan),
        ended=never,
        traffic=np.full((rows, _SLOTS, 1), np.nan),
        worse=np.zeros(shape),
        outcomes=none,
        usual=np.zeros(shape),
        seen=none,
        values=np.zeros((*shape, len(HORIZONS_MIN), len(QUANTILES)), np.float32),
        rounds=np.zeros(shape, np.int32),
        began=unknown,
        output=unknown,
    )


def observe_tick(
    observation: Observation, record: ForecastRecord, per_minute: int
) -> ForecastRecord:
    """Add a tick; when it ends a minute, update the readings."""
    if not add_tick(observation, record.minutes, per_minute):
        return record
    seen = record.minutes.observed == 1
    traffic = np.where(seen, record.minutes.domain[..., -1].astype(np.float64), np.nan)
    return end_minute(int(observation.tick[0]) // per_minute, traffic, record)


def add_forecast(minute: int, values: F32, record: ForecastRecord) -> ForecastRecord:
    """Add the forecast [E, D, H, Q] that was made at the end of a minute."""
    if minute <= int(record.made.max()):  # delivered again
        return record
    slot = minute % _SLOTS
    made, interval = record.made.copy(), record.interval.copy()
    made[slot] = minute
    interval[:, slot, 0] = values[:, :, 0, (LOW, HIGH)].reshape(-1, 2)
    # Bits, not values: NaN repeats, too.
    same = (values.view(np.int32) == record.values.view(np.int32)).all(axis=(2, 3))
    same &= record.rounds > 0
    return record._replace(
        made=made,
        interval=interval,
        values=values,
        rounds=np.where(same, record.rounds + 1, 1).astype(np.int32),
        began=np.where(same, record.began, np.nan),
    )


def forecast_readings(record: ForecastRecord) -> F64:
    """[E, D, 2] in the order of `limits.fallback_table`; NaN where unknown."""
    readings = np.empty((*record.worse.shape, 2))
    readings[..., 0] = np.where(record.outcomes >= _LEAST_OUTCOMES, record.worse, np.nan)
    readings[..., 1] = record.output
    return readings


def end_minute(minute: int, traffic: F64, record: ForecastRecord) -> ForecastRecord:
    """Score the forecasts about a minute by its traffic [E, D]; NaN where nothing was observed."""
    shape, flat = traffic.shape, traffic.reshape(-1, 1)
    seen_now = np.isfinite(traffic)
    usual, seen = add_to_means(record.usual, record.seen, traffic, seen_now, _USUAL_MIN)
    about = forecasts_about(record.made, record.interval, minute, _HORIZON)
    naive = np.abs(forecasts_about(record.ended, record.traffic, minute, _HORIZON) - flat)
    # NaN in any of them makes the outcome unknown.
    outside = np.maximum(np.maximum(about[..., 0] - flat, flat - about[..., 1]), 0.0)
    known = np.isfinite(outside + naive).reshape(shape)
    bound = np.maximum(_CLEARLY * naive.reshape(shape), _TOLERANCE * usual)
    worse, outcomes = add_to_means(
        record.worse, record.outcomes, outside.reshape(shape) > bound, known, _WINDOW_MIN
    )
    slot, ended, ring = minute % _SLOTS, record.ended.copy(), record.traffic.copy()
    ended[slot], ring[:, slot] = minute, flat
    record = record._replace(
        ended=ended, traffic=ring, worse=worse, outcomes=outcomes, usual=usual, seen=seen
    )
    recent = _recent(minute, record).reshape(shape)
    # From here on traffic that moves away shows that the forecast does not follow it.
    begins = np.isnan(record.began) & (record.rounds >= _LEAST_ROUNDS)
    record = record._replace(began=np.where(begins, recent, record.began))
    return record._replace(output=_output(record, traffic, recent))


def _recent(minute: int, record: ForecastRecord) -> F64:
    """[E x D] mean traffic of the last minutes: one minute moves by its noise."""
    values = record.traffic[:, record.ended > minute - _SLOTS, 0]
    known = np.isfinite(values)
    total = np.where(known, values, 0.0).sum(axis=1)
    return share(total, known.sum(axis=1).astype(np.float64), np.nan)


def _output(record: ForecastRecord, traffic: F64, recent: F64) -> F64:
    values = record.values
    broken = ~(np.isfinite(values) & (values >= 0)).all(axis=(2, 3))
    # A service replaces numbers that are not believed by zeros.
    broken |= (values == 0).all(axis=(2, 3)) & (traffic > _TOLERANCE * record.usual)
    moved = share(np.abs(recent - record.began), record.usual, 0.0)
    constant = np.where(np.isnan(record.began), 0.0, np.minimum(moved, 1.0))
    # Without a forecast nothing is known about the model; nor is it where traffic is unknown.
    unknown = (record.rounds == 0) | np.isnan(recent)
    return np.where(unknown, np.nan, np.where(broken, 1.0, constant))
