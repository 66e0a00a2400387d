"""Traffic from outside the cluster, as a pure function of (seed, app, time).

A minute's rate is base x day profile x weekday x slow noise x burst; the scenario's events multiply
it tick by tick. Because it is a function of time, the same code yields the 14 days before a
scenario and the future that only an oracle may see.
"""

from typing import NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, F64, I32, Record, Records
from models.cluster.calendar import DAY_MINUTES, HISTORY_MINUTES, WEEK_MINUTES
from models.jit import copy_row, kernel
from models.sim.call_graph import CallRows, call_forward
from models.sim.config.script import TRAFFIC, Script
from models.sim.draws import (
    Purpose,
    as_normal_32,
    as_uniform,
    as_uniform_32,
    draw,
    draw_in_row,
    row_key,
    stream,
)
from models.sim.kernel_math import exponential
from models.sim.state import BOOST, PAYLOAD, RATE, RATE_NEXT, State

_SATURDAY = 5 * DAY_MINUTES
_OCTAVES = 3
_BURST_MINUTES = 10
_EPOCH_MINUTES = 1 << 20
"""Added to minutes before they are hashed, because history has negative minutes."""

_NOISE = int(Purpose.TRAFFIC_NOISE)
_BURST = int(Purpose.BURST)


class TrafficShape(NamedTuple):
    """The parameters of all apps' traffic."""

    start_minute_of_week: int
    """Minute of the week (Monday 00:00 is 0) at which the warm-up begins."""
    weekend: F32
    """[D] weekend traffic over weekday traffic."""
    weights: tuple[float, float, float]
    """Amplitude of each noise octave."""
    periods: tuple[int, int, int]
    """Minutes between knots of each octave."""
    own_rps: F32
    """[A] mean requests per second from outside."""
    noise: F32
    """[A] log standard deviation of the slow noise."""
    bursts_per_hour: F32
    """[A]."""
    day_profiles: F32
    """[profiles, 1440] traffic of a minute of the day over the day's mean."""


class Moment(NamedTuple):
    """A minute in the units that the formulas need, computed once for all apps."""

    replay_index: int
    """Minutes since 14 days before tick 0, where replayed series begin."""
    of_day: int
    is_weekend: bool
    hour: int
    """Hours since an epoch before the history; never negative, so that it can be hashed."""
    of_hour: int
    knots: tuple[int, int, int]
    """Index of the last knot of each noise octave."""
    at: tuple[float, float, float]
    """Position between the last and the next knot, 0 to 1."""


@kernel
def moment_of(minute: int, shape: TrafficShape) -> Moment:
    """The moment of a minute since the warm-up began; negative in the history."""
    # `%` is never negative, as in Python, also for the minutes of the history.
    of_week = (minute + shape.start_minute_of_week) % WEEK_MINUTES
    since = minute + _EPOCH_MINUTES
    first, second, third = shape.periods
    return Moment(
        replay_index=max(0, minute + HISTORY_MINUTES),
        of_day=of_week % DAY_MINUTES,
        is_weekend=of_week >= _SATURDAY,
        hour=since // 60,
        of_hour=since % 60,
        knots=(since // first, since // second, since // third),
        at=(since % first / first, since % second / second, since % third / third),
    )


@kernel
def add_octave(
    noise_stream: np.uint64, octave: int, knot: int, at: float, weight: float, noise: F32
) -> None:
    """Add one octave of autocorrelated noise to all apps: random knots, interpolated linearly.

    Unlike an autoregressive process, this can be evaluated at any minute.
    """
    towards = np.float32(weight * at)
    stays = np.float32(weight * (1.0 - at))
    last, following = row_key(noise_stream, octave, knot), row_key(noise_stream, octave, knot + 1)
    # Exactly on a knot, the next knot has no weight: save half of the draws.
    if at == 0.0:
        for app in range(noise.size):
            noise[app] += stays * as_normal_32(draw_in_row(last, app))
    else:
        for app in range(noise.size):
            before = as_normal_32(draw_in_row(last, app))
            noise[app] += stays * before + towards * as_normal_32(draw_in_row(following, app))


@kernel
def burst_factor(burst_stream: np.uint64, app_record: Record, app: int, moment: Moment) -> float:
    """Factor of an hour's burst: it starts at a random minute, rises at once, falls linearly."""
    shape = draw(burst_stream, app, 1, moment.hour)
    # A burst ends within its hour, because the next hour has a draw of its own.
    since = moment.of_hour - int(as_uniform(shape) * (60 - _BURST_MINUTES))
    if since < 0 or since >= _BURST_MINUTES:
        return 1.0
    # 0.5 to 1.5 times the app's mean burst.
    size = app_record.burst_size * (0.5 + as_uniform(draw(burst_stream, app, 2, moment.hour)))
    return 1.0 + size * (1.0 - since / _BURST_MINUTES)


@kernel
def seasonal_factor(app_record: Record, profiles: F32, weekend: float, moment: Moment) -> float:
    """Day profile and weekend factor of an app's own traffic."""
    of_day = moment.of_day + app_record.day_shift
    # Cheaper than a modulo; both terms are below a day.
    if of_day >= DAY_MINUTES:
        of_day -= DAY_MINUTES
    factor = profiles[app_record.day_profile, of_day]
    return factor * weekend if moment.is_weekend else factor


@kernel
def season_of(
    app_record: Record, row: int, replay: F32, profiles: F32, weekend: float, moment: Moment
) -> float:
    """The replayed trace if the app has one (`row` >= 0), else its own season."""
    if row >= 0:
        return replay[row, min(moment.replay_index, replay.shape[1] - 1)]
    return seasonal_factor(app_record, profiles, weekend, moment)


@kernel
def base_rates(
    apps: Records,
    domains: I32,
    shape: TrafficShape,
    script: Script,
    seed: int,
    minute: int,
    rates: F32,
) -> None:
    """Requests per second from outside at a minute, without the scenario's events."""
    moment = moment_of(minute, shape)
    # The row holds the noise first, then the rates: every row more costs time in the cache.
    rates[:] = 0.0
    noise_stream = stream(seed, _NOISE)
    for octave in range(_OCTAVES):
        knot, at = moment.knots[octave], moment.at[octave]
        add_octave(noise_stream, octave, knot, at, shape.weights[octave], rates)
    _noise_to_rates(shape.noise, shape.own_rps, rates)
    _lay_season(apps, domains, shape, script, moment, rates)
    _lay_bursts(apps, shape.bursts_per_hour, stream(seed, _BURST), moment, rates)


@kernel
def _noise_to_rates(deviation: F32, own_rps: F32, rates: F32) -> None:
    """Turn noise of unit variance, in place, into rates without a season."""
    for app in range(rates.size):
        rates[app] = own_rps[app] * exponential(deviation[app] * rates[app])


@kernel
def _lay_season(
    apps: Records, domains: I32, shape: TrafficShape, script: Script, moment: Moment, rates: F32
) -> None:
    replay_of, replay, profiles = script.replay_of, script.replay, shape.day_profiles
    for app in range(rates.size):
        weekend = shape.weekend[domains[app]]
        rates[app] *= season_of(apps[app], replay_of[app], replay, profiles, weekend, moment)


@kernel
def _lay_bursts(
    apps: Records, per_hour: F32, burst_stream: np.uint64, moment: Moment, rates: F32
) -> None:
    # One draw per hour: most apps have no burst and need no further draws.
    key = row_key(burst_stream, 0, moment.hour)
    for app in range(rates.size):
        if as_uniform_32(draw_in_row(key, app)) < per_hour[app]:
            rates[app] *= burst_factor(burst_stream, apps[app], app, moment)


@kernel
def fill_history(
    apps: Records,
    domains: I32,
    shape: TrafficShape,
    script: Script,
    calls: CallRows,
    seed: int,
    passed: F32,
    rates: F32,
) -> None:
    """Fill `rates` [minutes, A] with the minutes before tick 0, calls included.

    `passed` is all ones: nothing was overloaded before the scenario, so every call goes out.
    """
    for row in range(rates.shape[0]):
        minute = row - rates.shape[0]
        base_rates(apps, domains, shape, script, seed, minute, rates[row])
        call_forward(calls.caller, calls.callee, calls.per_request, passed, rates[row])


@kernel
def begin_minute(
    st: State,
    e: int,
    apps: Records,
    shape: TrafficShape,
    script: Script,
    ticks_per_minute: int,
) -> None:
    """Set each app's rate at the beginning and the end of the minute that begins now."""
    minute = st.env[e].tick // ticks_per_minute
    seed, domains, flow = st.env[e].seed, st.status[e, rows.DOMAIN], st.flow[e]
    # Later minutes take over what was computed as the end of the minute before.
    if minute == 0:
        base_rates(apps, domains, shape, script, seed, 0, flow[RATE_NEXT])
    copy_row(flow[RATE_NEXT], flow[RATE])
    base_rates(apps, domains, shape, script, seed, minute + 1, flow[RATE_NEXT])


@kernel
def wave_shape(wave: Record, tick: float) -> float:
    """How far a wave has risen at `tick`: 0 before and after, 1 while it holds."""
    since = tick - wave.start
    if since <= 0.0:
        return 0.0
    if since < wave.ramp:
        return since / wave.ramp
    since -= wave.ramp + wave.hold
    if since <= 0.0:
        return 1.0
    if since < wave.decay:
        return 1.0 - since / wave.decay
    return 0.0


@kernel
def lay_waves(st: State, e: int, script: Script) -> None:
    """Set the factors of the scenario's waves on traffic and payload for this tick."""
    # Without waves both factors stay 1, as `empty_state` sets them.
    if script.waves.shape[1] == 0:
        return
    boost, payload = st.flow[e, BOOST], st.flow[e, PAYLOAD]
    boost[:] = 1.0
    payload[:] = 1.0
    for k in range(script.waves.shape[1]):
        wave = script.waves[e, k]
        # Evaluated in the middle of the tick.
        risen = wave_shape(wave, st.env[e].tick + 0.5)
        if risen > 0.0:
            extra = np.float32((wave.factor - 1.0) * risen)
            lay(boost if wave.kind == TRAFFIC else payload, script.wave_weight[k], extra)


@kernel
def lay(factors: F32, weight: F32, extra: np.float32) -> None:
    """Multiply a wave into the factors of the apps that it affects."""
    for app in range(factors.size):
        factors[app] *= np.float32(1.0) + extra * weight[app]


@kernel
def seasonal_rates(
    apps: Records, shape: TrafficShape, script: Script, minute: int, rates: F64
) -> None:
    """Rates from outside without noise, bursts and events; initial replicas are sized by them."""
    moment = moment_of(minute, shape)
    for app in range(apps.size):
        app_record = apps[app]
        factor = shape.weekend[app_record.domain]
        row = script.replay_of[app]
        season = season_of(app_record, row, script.replay, shape.day_profiles, factor, moment)
        rates[app] = app_record.own_rps * season
