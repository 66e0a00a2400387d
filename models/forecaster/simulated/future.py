"""The future traffic of a simulated world, for the oracles.

Traffic is a pure function of (seed, app, time), so it is computed without running the world: with
the same functions as in a tick, but as if nothing were overloaded, so that no call fails and there
are no retries. Churn and lost nodes don't change it.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, I32
from models.forecaster.port import HORIZONS_MIN
from models.jit import copy_row, kernel
from models.sim.call_graph import call_forward, limit_to_active
from models.sim.config.script import APPEAR, MOVE, PAYLOAD, TRAFFIC
from models.sim.tick import Given
from models.sim.traffic import base_rates, lay, wave_shape
from models.sim.world import World

BEYOND_MIN: Final = max(HORIZONS_MIN)
"""Minutes after the end of a scenario that its last forecasts cover."""
_RATE, _RATE_NEXT, _BOOST, _DEMAND, _PASSED = range(5)
_ROWS: Final = 5


class Future(NamedTuple):
    """E environments, S steps of `step_ticks` from tick 0 on, A apps."""

    step_ticks: int
    rps: F32
    """[E, S, A] mean requests per second of the step, calls included, without shot noise."""
    payload: F32
    """[E, S, A] mean factor on the work per request."""
    domain: I32
    """[E, S, A] domain of the app when the step begins."""
    active: I32
    """[E, S, A] 1 where the app is declared when the step begins."""


def future_of(world: World, step_ticks: int) -> Future:
    """The whole scenario from tick 0 and half an hour after it, in steps of `step_ticks`."""
    per_minute = int(world.given.rules.physics["ticks_per_minute"][0])
    ticks = world.timeline.total_ticks + BEYOND_MIN * per_minute
    shape = (world.environments, -(-ticks // step_ticks), world.given.apps.size)
    future = Future(
        step_ticks=step_ticks,
        rps=np.zeros(shape, np.float32),
        payload=np.zeros(shape, np.float32),
        domain=np.zeros(shape, np.int32),
        active=np.zeros(shape, np.int32),
    )

    def fill(e: int) -> None:
        domain, active = _inventory_at_start(world, e)
        scratch = np.ones((_ROWS, domain.size), np.float32)
        seed = int(world.state.env["seed"][e])
        _fill(future, world.given, e, seed, per_minute, domain, active, scratch)

    # Kernels release the GIL, so threads compute environments in parallel.
    with ThreadPoolExecutor() as pool:
        list(pool.map(fill, range(world.environments)))
    return future


def _inventory_at_start(world: World, e: int) -> tuple[I32, I32]:
    """Domain and declaration of each app at tick 0; the world may be at a later tick."""
    # From the population and the script, not from the state, which is that of the current tick.
    domain = world.population.apps.domain.astype(np.int32)
    active = np.ones_like(domain)
    changes = world.given.script.inventory[e]
    active[changes["app"][changes["kind"] == APPEAR]] = 0
    return domain, active


@kernel
def _fill(
    future: Future,
    given: Given,
    e: int,
    seed: int,
    per_minute: int,
    domain: I32,
    active: I32,
    scratch: F32,
) -> None:
    """Tick by tick, in the order of the simulator: inventory, minute, waves, calls."""
    rate, rate_next, demand = scratch[_RATE], scratch[_RATE_NEXT], scratch[_DEMAND]
    boost, passed, calls = scratch[_BOOST], scratch[_PASSED], given.calls
    share = np.float32(1.0 / future.step_ticks)
    for tick in range(future.rps.shape[1] * future.step_ticks):
        _change_inventory(given, e, tick, domain, active)
        if tick % per_minute == 0:
            minute = tick // per_minute
            base_rates(given.apps, domain, given.shape, given.script, seed, minute, rate)
            base_rates(given.apps, domain, given.shape, given.script, seed, minute + 1, rate_next)
        step = tick // future.step_ticks
        if tick % future.step_ticks == 0:
            copy_row(domain, future.domain[e, step])
            copy_row(active, future.active[e, step])
        boost[:] = 1.0
        _lay_waves(given, e, tick, TRAFFIC, boost)
        within = np.float32(tick % per_minute / per_minute)
        _arrive(rate, rate_next, boost, active, within, demand)
        # Nothing is overloaded, so every call of a declared app succeeds.
        passed[:] = 1.0
        limit_to_active(active, passed)
        call_forward(calls.caller, calls.callee, calls.per_request, passed, demand)
        # Calls to apps that are not declared reach nobody.
        limit_to_active(active, demand)
        _add(demand, share, future.rps[e, step])
        boost[:] = 1.0
        _lay_waves(given, e, tick, PAYLOAD, boost)
        _add(boost, share, future.payload[e, step])


@kernel
def _change_inventory(given: Given, e: int, tick: int, domain: I32, active: I32) -> None:
    for k in range(given.script.inventory.shape[1]):
        change = given.script.inventory[e, k]
        if change.tick == tick:
            if change.kind == MOVE:
                domain[change.app] = change.domain
            else:
                active[change.app] = 1 if change.kind == APPEAR else 0


@kernel
def _lay_waves(given: Given, e: int, tick: int, kind: int, factors: F32) -> None:
    for k in range(given.script.waves.shape[1]):
        wave = given.script.waves[e, k]
        # A wave has its value at the middle of the tick.
        risen = wave_shape(wave, tick + 0.5)
        if wave.kind == kind and risen > 0.0:
            lay(factors, given.script.wave_weight[k], np.float32((wave.factor - 1.0) * risen))


@kernel
def _arrive(
    rate: F32, rate_next: F32, boost: F32, active: I32, within: np.float32, demand: F32
) -> None:
    for app in range(demand.size):
        now = rate[app] + within * (rate_next[app] - rate[app])
        demand[app] = now * boost[app] * np.float32(active[app])


@kernel
def _add(row: F32, share: np.float32, total: F32) -> None:
    for app in range(row.size):
        total[app] += row[app] * share
