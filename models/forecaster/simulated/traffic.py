"""Minutes of simulated traffic, as they would be observed and recorded.

Computed with the same functions as in a tick: base rates, waves, shot noise of arrivals, calls and
measurement noise. Nothing is overloaded, so no call fails and there are no retries.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, F64, I32, Records
from models.jit import copy_row, kernel
from models.sim.apps import Population, app_records
from models.sim.call_graph import CallRows, call_forward, call_rows
from models.sim.config.compile import compile_scenario
from models.sim.config.physics import SimCluster
from models.sim.config.scenario import Scenario
from models.sim.config.script import TRAFFIC, Script, script_of
from models.sim.draws import Purpose, row_key, stream
from models.sim.observe import add_noise
from models.sim.service import arrive
from models.sim.traffic import TrafficShape, base_rates, lay, wave_shape
from models.sim.world import traffic_shape

_SHOT: Final = int(Purpose.SHOT_NOISE)
_NOISE: Final = int(Purpose.METRIC_NOISE)
# A uniform distribution of width 1 has a standard deviation of 1 / sqrt(12).
_UNIFORM_TO_STD: Final = 12.0**0.5
_PER_SECOND: Final = 1.0 / 60.0
# Rows of the scratch array; _RETRY stays zero because no call fails.
_RATE, _RATE_NEXT, _BOOST, _RETRY, _DEMAND, _PASSED, _TOTAL = range(7)
_ROWS: Final = 7


class Source(NamedTuple):
    """Everything that determines the traffic of one seed; A apps."""

    seed: int
    apps: Records
    shape: TrafficShape
    script: Script
    """Waves are relative to the first recorded minute."""
    calls: CallRows
    domain: I32
    """[A]."""
    active: I32
    """[A] all 1: the inventory does not change."""
    tick_s: int
    lag_ticks: int
    """Delay of samples."""
    metric_noise: float
    """Relative standard deviation of a sample."""


class Recorded(NamedTuple):
    """N minutes of D domains and of K single apps."""

    domains: F64
    """[D, N] requests per second, calls included."""
    apps: F64
    """[K, N]."""


def source_of(cluster: SimCluster, population: Population, scenario: Scenario, seed: int) -> Source:
    """The source of a seed's traffic in a scenario."""
    apps, times = population.apps, scenario.timeline(cluster.tick_seconds)
    return Source(
        seed=seed,
        apps=app_records(apps),
        shape=traffic_shape(cluster, apps, times.start_minute_of_week),
        script=script_of(compile_scenario(scenario, cluster, apps, [seed])),
        calls=call_rows(population.calls),
        domain=apps.domain.astype(np.int32),
        active=np.ones(apps.domain.size, np.int32),
        tick_s=cluster.tick_seconds,
        lag_ticks=int(cluster.physics.metrics.lag_s // cluster.tick_seconds),
        metric_noise=cluster.physics.metrics.noise,
    )


def record(source: Source, first_minute: int, minutes: int, picked: I32) -> Recorded:
    """Record `minutes` from `first_minute` of the world on, for domains and the apps `picked`."""
    domains = int(source.domain.max(initial=-1)) + 1
    recorded = Recorded(np.zeros((domains, minutes)), np.zeros((picked.size, minutes)))
    scratch = np.zeros((_ROWS, source.domain.size), np.float32)
    _fill(source, first_minute, picked, scratch, recorded)
    return recorded


@kernel
def _fill(source: Source, first_minute: int, picked: I32, scratch: F32, recorded: Recorded) -> None:
    """Minute by minute, tick by tick."""
    rate, rate_next, total = scratch[_RATE], scratch[_RATE_NEXT], scratch[_TOTAL]
    per_minute = 60 // source.tick_s
    _base_rates(source, first_minute, rate_next)
    for index in range(recorded.domains.shape[1]):
        copy_row(rate_next, rate)
        # Rates are linear between minutes, so a minute needs the next one too.
        _base_rates(source, first_minute + index + 1, rate_next)
        total[:] = 0.0
        for step in range(per_minute):
            _lay_waves(source.script, index * per_minute + step, scratch[_BOOST])
            _measure(source, (first_minute + index) * per_minute + step, step / per_minute, scratch)
        _store(total, source.domain, picked, index, recorded)


@kernel
def _base_rates(source: Source, minute: int, rates: F32) -> None:
    apps, domain, shape, script = source.apps, source.domain, source.shape, source.script
    base_rates(apps, domain, shape, script, source.seed, minute, rates)


@kernel
def _lay_waves(script: Script, tick: int, boost: F32) -> None:
    boost[:] = 1.0
    for k in range(script.waves.shape[1]):
        wave = script.waves[0, k]
        # A wave has its value at the middle of the tick.
        risen = wave_shape(wave, tick + 0.5)
        if wave.kind == TRAFFIC and risen > 0.0:
            lay(boost, script.wave_weight[k], np.float32((wave.factor - 1.0) * risen))


@kernel
def _measure(source: Source, tick: int, within: float, scratch: F32) -> None:
    """Add the measured requests of a tick to the total of the minute."""
    demand, passed, total, calls = scratch[_DEMAND], scratch[_PASSED], scratch[_TOTAL], source.calls
    shots = row_key(stream(source.seed, _SHOT), 0, tick)
    arrive(
        scratch[_RATE], scratch[_RATE_NEXT], scratch[_BOOST], scratch[_RETRY], source.active,
        np.float32(within), np.float32(source.tick_s), shots, demand,
    )  # fmt: skip
    passed[:] = 1.0
    call_forward(calls.caller, calls.callee, calls.per_request, passed, demand)
    spread = np.float32(source.metric_noise * _UNIFORM_TO_STD)
    # Noise is drawn by the tick of the observation, so these are the samples that a world shows.
    observed_at = tick + 1 + source.lag_ticks
    add_noise(stream(source.seed, _NOISE), observed_at, rows.RPS, spread, demand)
    for app in range(total.size):
        total[app] += demand[app]


@kernel
def _store(total: F32, domain: I32, picked: I32, index: int, recorded: Recorded) -> None:
    for app in range(total.size):
        recorded.domains[domain[app], index] += total[app] * _PER_SECOND
    for row in range(picked.size):
        recorded.apps[row, index] = total[picked[row]] * _PER_SECOND
