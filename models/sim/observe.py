"""What a controller observes: late, noisy, sometimes missing, never the true state.

Measurements pass through one of two pipelines. metrics-server's, which HPA reads, is about 27.5 s
late, in scrape steps. Ours is Prometheus, queried as `services/collector/queries.yaml` does it:
requests, errors, CPU and pods are means over a window, p99 is the highest of the window, memory is
the last value. The API server's answers (pods, requests, nodes) are current.
"""

import math
from typing import Final

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, I8, I32, Record
from models.cluster.observation import POOL_STATUS, Observation, Pipeline
from models.jit import copy_row, kernel
from models.sim.config.script import (
    EXPORTER,
    METRICS_SERVER,
    OUTAGE_MISSING,
    OUTAGE_STALE,
    OUTAGE_ZERO,
    Script,
)
from models.sim.draws import Purpose, as_uniform_32, draw_in_row, row_key, stream, uniform
from models.sim.provisioner import coming_nodes, sum_room
from models.sim.rules import ClusterRules
from models.sim.state import EXPORTED, NONE, ROOM_CPU, ROOM_MEMORY, SAMPLE_RING, State

_NOISE = int(Purpose.METRIC_NOISE)
_PHASE = int(Purpose.METRIC_PHASE)
_SCRAPE_TICKS: Final = 3
"""metrics-server scrapes every 30 s; its answers age until the next scrape."""
_RING = np.uint32(SAMPLE_RING)
_ZERO, _HALF, _ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)
_TINY = np.float32(1e-9)
# A uniform variable of width w has a standard deviation of w / sqrt(12).
_UNIFORM_TO_STD = 12.0**0.5


def empty_observation(state: State) -> Observation:
    """Buffers for `observe` to fill; `status` is a read-only view of the state."""
    environments, _, apps = state.status.shape
    status = state.status.view()
    status.flags.writeable = False
    return Observation(
        tick=np.zeros(environments, np.int32),
        measured=np.zeros((environments, rows.SAMPLES, apps), np.float32),
        missing=np.zeros((environments, apps), np.int8),
        status=status,
        pool=np.zeros(state.pool.shape, POOL_STATUS),
    )


def scrape_ages(apps: int, mean_ticks: float) -> I32:
    """[_SCRAPE_TICKS, A] age in ticks of metrics-server's answers, by tick of its scrape cycle."""
    ages = np.zeros((_SCRAPE_TICKS, apps), np.int32)
    for app in range(apps):
        # Seed 0: phases belong to the cluster, so all environments have the same.
        start = int(_SCRAPE_TICKS * uniform(0, _PHASE, app, 0, 0))
        dither = uniform(0, _PHASE, app, 1, 0)
        for tick in range(_SCRAPE_TICKS):
            since_scrape = (tick + start) % _SCRAPE_TICKS
            age = mean_ticks - 0.5 * (_SCRAPE_TICKS - 1) + since_scrape + dither - 0.5
            ages[tick, app] = min(SAMPLE_RING - 2, max(0, round(age)))
    return ages


def window_weights(lag_s: float, window_s: float, tick_s: int) -> F32:
    """[ticks] share of the last tick, the one before it and so on that is within the window.

    The window ends `lag_s` ago. Neither has to be a whole number of ticks.
    """
    begin = lag_s / tick_s
    # What a tick measures is its mean: a shorter window shows the same.
    end = begin + max(1.0, window_s / tick_s)
    ticks = np.arange(math.ceil(end))
    return np.clip(np.minimum(ticks + 1, end) - np.maximum(ticks, begin), 0, 1).astype(np.float32)


@kernel
def observe(
    st: State,
    obs: Observation,
    rules: ClusterRules,
    script: Script,
    ages: I32,
    window: F32,
    pipeline: int,
) -> None:
    """Fill the buffers of every environment from the last ticks' measurements."""
    physics = rules.physics[0]
    for e in range(st.env.size):
        tick, measured, ring = st.env[e].tick, obs.measured[e], st.samples[e]
        obs.tick[e] = tick
        noises = stream(st.env[e].seed, _NOISE)
        spread = np.float32(physics.metric_noise * _UNIFORM_TO_STD)
        _lose_samples(noises, tick, physics.missing_share, obs.missing[e])
        if pipeline == Pipeline.HPA:
            age = ages[tick % ages.shape[0]]
            _look_back(ring, rows.CPU, age, tick, measured[rows.CPU])
            _look_back(ring, rows.PODS, age, tick, measured[rows.PODS])
            _miss_before_start(age, tick, obs.missing[e])
        elif not _average_window(ring, window, tick, measured):
            obs.missing[e] = 1
        for kind in range(rows.PODS):
            # HPA reads only CPU from the metrics API. Errors are counted, so they have no noise.
            if kind == rows.CPU or (pipeline == Pipeline.OURS and kind != rows.ERRORS):
                add_noise(noises, tick, kind, spread, measured[kind])
        # After noise and lost samples, which an outage overrides.
        _lose_in_outages(obs, e, script, pipeline)
        if pipeline == Pipeline.OURS:
            _break_exporters(st, obs, e, script, window)
        _count_pools(st, obs, e, rules)


@kernel
def _average_window(ring: F32, window: F32, tick: int, measured: F32) -> bool:
    """Fill `measured` with what Prometheus makes of the window; False before its first tick.

    At the start of a run the window has fewer ticks, as rate() has fewer scrapes.
    """
    measured[:] = _ZERO
    total = _ZERO
    for ago in range(min(window.size, tick)):
        weight = window[ago]
        if weight == _ZERO:
            continue
        # Tick - 1 is the last one that was measured.
        sample = ring[(tick - 1 - ago) % SAMPLE_RING]
        if total == _ZERO:
            copy_row(sample[rows.MEMORY], measured[rows.MEMORY])
        total += weight
        for kind in (rows.RPS, rows.THROUGHPUT, rows.P50, rows.CPU, rows.PODS):
            _add_weighted(sample[kind], weight, measured[kind])
        _add_failed(sample[rows.ERRORS], sample[rows.RPS], weight, measured[rows.ERRORS])
        _raise_to(sample[rows.P99], measured[rows.P99])
    if total == _ZERO:
        return False
    # A share of the requests, so it is divided by their sum and not by the time.
    _divide(measured[rows.RPS], measured[rows.ERRORS])
    for kind in (rows.RPS, rows.THROUGHPUT, rows.P50, rows.CPU, rows.PODS):
        _multiply(measured[kind], _ONE / total)
    return True


@kernel
def _add_weighted(row: F32, weight: np.float32, out: F32) -> None:
    for app in range(out.size):
        out[app] += weight * row[app]


@kernel
def _add_failed(errors: F32, rps: F32, weight: np.float32, out: F32) -> None:
    for app in range(out.size):
        out[app] += weight * errors[app] * rps[app]


@kernel
def _raise_to(row: F32, out: F32) -> None:
    for app in range(out.size):
        out[app] = max(out[app], row[app])


@kernel
def _divide(divisor: F32, out: F32) -> None:
    for app in range(out.size):
        out[app] /= max(divisor[app], _TINY)


@kernel
def _multiply(row: F32, factor: np.float32) -> None:
    for app in range(row.size):
        row[app] *= factor


@kernel
def _look_back(ring: F32, kind: int, ages: I32, tick: int, out: F32) -> None:
    last = np.uint32(tick - 1)
    for app in range(out.size):
        # Unsigned, so that the remainder is a mask and numba does not check the index for its sign.
        slot = np.uint32(last - np.uint32(ages[app])) % _RING
        out[app] = ring[slot, kind, app]


@kernel
def _miss_before_start(ages: I32, tick: int, missing: I8) -> None:
    """Before the first scrape of an app its sample is missing; the ring has zeros there."""
    for app in range(missing.size):
        early = np.int8(1) if ages[app] >= tick else np.int8(0)
        missing[app] |= early


@kernel
def _lose_samples(noises: np.uint64, tick: int, share: np.float32, missing: I8) -> None:
    # An ordinal beyond those of the noise, so that both are independent.
    key = row_key(noises, rows.SAMPLES, tick)
    for app in range(missing.size):
        missing[app] = 1 if as_uniform_32(draw_in_row(key, app)) < share else 0


@kernel
def add_noise(noises: np.uint64, tick: int, kind: int, spread: np.float32, row: F32) -> None:
    """Multiply by 1 + uniform noise of width `spread`."""
    key = row_key(noises, kind, tick)
    for app in range(row.size):
        unit = as_uniform_32(draw_in_row(key, app)) - _HALF
        row[app] *= _ONE + spread * unit


@kernel
def _lose_in_outages(obs: Observation, e: int, script: Script, pipeline: int) -> None:
    """Flag what the scenario's outages take from this pipeline."""
    # HPA never asks an exporter, and nobody else asks metrics-server. The kubelet serves both.
    elsewhere = EXPORTER if pipeline == Pipeline.HPA else METRICS_SERVER
    for k in range(script.outages.shape[1]):
        outage = script.outages[e, k]
        active = outage.start <= obs.tick[e] < outage.end
        if active and outage.mode == OUTAGE_MISSING and outage.pipeline != elsewhere:
            for app in range(obs.missing.shape[1]):
                obs.missing[e, app] |= script.outage_app[k, app]


@kernel
def _break_exporters(st: State, obs: Observation, e: int, script: Script, window: F32) -> None:
    """Average again where exporters answered zero or repeated themselves within the window."""
    last = st.env[e].tick - 1
    for k in range(script.outages.shape[1]):
        outage = script.outages[e, k]
        overlaps = outage.start <= last and outage.end > last - window.size
        if outage.mode != OUTAGE_MISSING and overlaps:
            for app in range(obs.missing.shape[1]):
                if script.outage_app[k, app] == 1:
                    _average_exported(st, obs.measured[e, :EXPORTED, app], e, app, outage, window)


@kernel
def _average_exported(
    st: State, measured: F32, e: int, app: int, outage: Record, window: F32
) -> None:
    """`_average_window` for the exported rows of one app; CPU, memory and pods have other sources.

    Without noise, because a repeated value has none.
    """
    last = st.env[e].tick - 1
    measured[:] = _ZERO
    total = _ZERO
    for ago in range(min(window.size, last + 1)):
        exported = st.samples[e, (last - ago) % SAMPLE_RING, :EXPORTED, app]
        if outage.start <= last - ago < outage.end:
            if outage.mode == OUTAGE_ZERO:
                total += window[ago]
                continue
            exported = st.stale[e, :, app]
        weight, rps = window[ago], exported[rows.RPS]
        total += weight
        measured[rows.RPS] += weight * rps
        measured[rows.THROUGHPUT] += weight * exported[rows.THROUGHPUT]
        measured[rows.P50] += weight * exported[rows.P50]
        measured[rows.ERRORS] += weight * exported[rows.ERRORS] * rps
        if weight > _ZERO:
            measured[rows.P99] = max(measured[rows.P99], exported[rows.P99])
    measured[rows.ERRORS] /= max(measured[rows.RPS], _TINY)
    for kind in (rows.RPS, rows.THROUGHPUT, rows.P50):
        measured[kind] /= max(total, _TINY)


@kernel
def freeze_exporters(st: State, e: int, script: Script) -> None:
    """Keep what exporters returned last, for those that repeat it from the next tick on."""
    tick = st.env[e].tick
    for k in range(script.outages.shape[1]):
        outage = script.outages[e, k]
        if outage.mode == OUTAGE_STALE and outage.start == tick + 1:
            for app in range(st.stale.shape[2]):
                if script.outage_app[k, app] == 1:
                    for kind in range(EXPORTED):
                        st.stale[e, kind, app] = st.samples[e, tick % SAMPLE_RING, kind, app]


def outages_now(script: Script, ticks: I32, pipeline: int) -> I8:
    """[E, A] mode of the outage of a pipeline, by app, at the environments' ticks; NONE without."""
    found = np.full((ticks.size, script.outage_app.shape[1]), NONE, np.int8)
    for e, k in np.ndindex(script.outages.shape):
        outage = script.outages[e, k]
        if outage["pipeline"] == pipeline and outage["start"] <= ticks[e] < outage["end"]:
            found[e, script.outage_app[k] == 1] = outage["mode"]
    return found


@kernel
def _count_pools(st: State, obs: Observation, e: int, rules: ClusterRules) -> None:
    for pool in range(rules.pools.size):
        first, end = rules.pools[pool].first, rules.pools[pool].end
        status = obs.pool[e, pool]
        status.ready = st.pool[e, pool].ready
        status.coming = coming_nodes(st, e, pool)
        status.quota = end - first
        status.free_cpu = sum_room(st.room[e, ROOM_CPU, first:end]) * 0.001
        status.free_memory = sum_room(st.room[e, ROOM_MEMORY, first:end]) / 1024.0
