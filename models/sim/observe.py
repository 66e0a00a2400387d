"""What a controller observes: late, noisy, sometimes missing, never the true state.

Measurements pass through one of two pipelines: HPA's own (metrics-server; about 27.5 s late,
in scrape steps) and ours (10 s). The API server's answers (pods, requests, nodes) are current.
"""

from typing import Final

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, I8, I32
from models.cluster.observation import POOL_STATUS, Observation, Pipeline
from models.jit import copy_row, kernel
from models.sim.config.script import OUTAGE_ZERO, Script
from models.sim.draws import Purpose, as_uniform_32, draw_in_row, row_key, stream, uniform
from models.sim.provisioner import coming_nodes, sum_room
from models.sim.rules import ClusterRules
from models.sim.state import ROOM_CPU, ROOM_MEMORY, SAMPLE_RING, State

_NOISE = int(Purpose.METRIC_NOISE)
_PHASE = int(Purpose.METRIC_PHASE)
_SCRAPE_TICKS: Final = 3
"""metrics-server scrapes every 30 s; its answers age until the next scrape."""
_RING = np.uint32(SAMPLE_RING)
_HALF, _ONE = np.float32(0.5), np.float32(1.0)
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


@kernel
def observe(
    st: State, obs: Observation, rules: ClusterRules, script: Script, ages: I32, pipeline: int
) -> None:
    """Fill the buffers of every environment from the last ticks' measurements."""
    physics = rules.physics[0]
    for e in range(st.env.size):
        tick, measured, ring = st.env[e].tick, obs.measured[e], st.samples[e]
        obs.tick[e] = tick
        lag = int(physics.lag_ticks)
        if pipeline == Pipeline.HPA:
            lag = ages.shape[0]
            age = ages[tick % ages.shape[0]]
            _look_back(ring, rows.CPU, age, tick, measured[rows.CPU])
            _look_back(ring, rows.PODS, age, tick, measured[rows.PODS])
        else:
            # Tick - 1 is the last one that was measured.
            for kind in range(rows.SAMPLES):
                copy_row(ring[(tick - 1 - lag) % SAMPLE_RING, kind], measured[kind])
        noises = stream(st.env[e].seed, _NOISE)
        spread = np.float32(physics.metric_noise * _UNIFORM_TO_STD)
        # Before the first sample could arrive, everything is missing.
        share = physics.missing_share if tick > lag else np.float32(1.0)
        _lose_samples(noises, tick, share, obs.missing[e])
        for kind in range(rows.PODS):
            # HPA reads only CPU from the metrics API. Errors are counted, so they have no noise.
            if kind == rows.CPU or (pipeline == Pipeline.OURS and kind != rows.ERRORS):
                add_noise(noises, tick, kind, spread, measured[kind])
        # After noise and lost samples, which an outage overrides.
        _break_metrics(st, obs, e, script)
        _count_pools(st, obs, e, rules)


@kernel
def _look_back(ring: F32, kind: int, ages: I32, tick: int, out: F32) -> None:
    last = np.uint32(tick - 1)
    for app in range(out.size):
        # Unsigned, so that the remainder is a mask and numba does not check the index for its sign.
        slot = np.uint32(last - np.uint32(ages[app])) % _RING
        out[app] = ring[slot, kind, app]


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
def _break_metrics(st: State, obs: Observation, e: int, script: Script) -> None:
    """Apply the scenario's outages: samples read zero, or are missing."""
    for k in range(script.outages.shape[1]):
        outage = script.outages[e, k]
        if not outage.start <= st.env[e].tick < outage.end:
            continue
        for app in range(obs.missing.shape[1]):
            if script.outage_app[k, app] == 0:
                continue
            if outage.mode == OUTAGE_ZERO:
                # A broken exporter reports zeros as if they were samples.
                obs.missing[e, app] = 0
                obs.measured[e, : rows.PODS, app] = 0.0
            else:
                obs.missing[e, app] = 1


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
