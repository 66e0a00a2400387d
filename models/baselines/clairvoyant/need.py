"""How many pods each app should have in each minute, given the future traffic and all prices.

A pod costs its share of a node; too few pods cost violations, of the app and of all its callers.
Both are known functions here, so each minute is a minimisation: apps move by small steps to where
one more pod would cost more than it saves. The effect of an app's latency on its callers returns
to it along the calls as a price per second of latency.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, I8, I32
from models.forecaster.simulated.future import Future
from models.jit import kernel
from models.sim.call_graph import CallRows
from models.sim.churn import turn_of
from models.sim.draws import Purpose, as_uniform, draw, stream
from models.sim.kernel_math import tail
from models.sim.queueing import LatencyTables, quantiles
from models.sim.world import World

_BUSIEST: Final = np.float32(0.86)
"""Load above which one tick of shot noise starts a backlog, which no table describes."""
_CATCHING_UP: Final = np.float32(0.7)
"""Load at which a backlog gets shorter."""
_FIRST_LOAD: Final = np.float32(0.6)
"""Load at which the search of the first step starts."""
_NOISE: Final = np.float32(2.0)
"""Standard deviations of shot noise that the pods have to carry."""
_DEPLOYING: Final = np.float32(0.75)
"""Share of an app's pods that a rolling deploy leaves ready."""
# log2(50) x ln 2 = ln 50: between median and 99th percentile the tail falls from 1/2 to 1/100.
_DECAY: Final = np.float32(5.643856 * math.log(2.0))
"""How fast the tail falls, per distance between median and 99th percentile."""
_COARSE: Final = (0.10,) * 12 + (0.04,) * 10 + (0.015,) * 8
_FINE: Final = (0.04,) * 4 + (0.015,) * 4
_TINY: Final = np.float32(1e-9)
_ZERO, _ONE, _TWO = np.float32(0.0), np.float32(1.0), np.float32(2.0)

# Rows of the scratch memory.
_PODS, _DEMAND, _SERVICE, _OWN_P50, _OWN_SPREAD, _P50, _SPREAD, _WORTH = range(8)
_PER_P50, _PER_SPREAD, _PER_POD = range(8, 11)
_ROWS: Final = 11


class Prices(NamedTuple):
    """The terms of the cost, per app."""

    pod: F32
    """[A] node-hours of a pod for a minute."""
    servers: F32
    """[A] servers of the queue that a pod adds."""
    stretch: F32
    """[A] duration of a request over that of its work alone."""
    cpu_seconds: F32
    io_seconds: F32
    workers: F32
    target: F32
    least: F32
    most: F32
    weight: F32
    """[D] of a violated minute of an average app of the domain."""


class Problem(NamedTuple):
    """What the search for a minimum is given. E environments, S steps, A apps."""

    future: Future
    deploying: I8
    """[E, S, A] 1 while a rolling deploy makes some of the app's pods unready."""
    calls: CallRows
    tables: LatencyTables
    prices: Prices
    coarse: F32
    """Relative step sizes of the search in the first step."""
    fine: F32
    """The same in later steps, which start near their minimum."""


def needed_pods(world: World, future: Future, deploying: I8, thrift: float) -> I32:
    """[E, S, A] pods that should be ready in each step; `thrift` is a factor on their price."""
    prices = prices_of(world, thrift)
    needed = np.zeros(future.rps.shape, np.int32)
    given = world.given
    coarse, fine = np.array(_COARSE, np.float32), np.array(_FINE, np.float32)
    problem = Problem(future, deploying, given.calls, given.tables, prices, coarse, fine)

    def solve(e: int) -> None:
        scratch = np.zeros((_ROWS, prices.pod.size), np.float32)
        sums = np.zeros((2, prices.weight.size), np.float32)
        _solve_all(problem, e, scratch, sums, needed[e])

    # Threads suffice, because kernels release the GIL. Each has its own scratch memory.
    with ThreadPoolExecutor() as pool:
        list(pool.map(solve, range(world.environments)))
    return needed


def pods_for(prices: Prices, rps: F32, payload: F32) -> F32:
    """[A] pods that serve that many requests per second without falling behind."""
    work = prices.cpu_seconds * payload
    busy = np.maximum(work + prices.io_seconds, prices.workers * work) * prices.stretch
    pods: F32 = rps * busy / (prices.servers * _CATCHING_UP)
    return pods


def prices_of(world: World, thrift: float) -> Prices:
    """The prices of a world's apps."""
    traits, apps, rules = world.given.traits, world.population.apps, world.given.rules
    pool = rules.domain_pools[apps.domain, 0]
    cpu = apps.cpu_request * 1000 / rules.pools["cpu"][pool]
    memory = apps.memory_request * 1024 / rules.pools["memory"][pool]
    # Cores above the requests are not guaranteed: they are free only while others are idle.
    limit = apps.cpu_request
    stretch = np.maximum(1, traits.start_limit / (limit * traits.limit_ratio))
    return Prices(
        pod=(thrift * np.maximum(cpu, memory) / 60).astype(np.float32),
        servers=(traits.workers * limit * stretch).astype(np.float32),
        stretch=stretch.astype(np.float32),
        cpu_seconds=traits.cpu_seconds,
        io_seconds=traits.io_seconds,
        workers=traits.workers,
        target=traits.target,
        least=apps.min_replicas.astype(np.float32),
        most=apps.max_replicas.astype(np.float32),
        weight=rules.domains["weight"].astype(np.float32),
    )


@kernel
def _solve_all(problem: Problem, e: int, scratch: F32, sums: F32, needed: I32) -> None:
    """Solve one step after the other, each from the solution of the one before."""
    future, prices, calls, tables = problem.future, problem.prices, problem.calls, problem.tables
    pods, demand = scratch[_PODS], scratch[_DEMAND]
    for step in range(needed.shape[0]):
        _expect(future.rps[e, step], future.payload[e, step], prices, scratch)
        _weigh(future.domain[e, step], future.active[e, step], demand, prices, sums, scratch)
        for app in range(pods.size):
            ready = _DEPLOYING if problem.deploying[e, step, app] == 1 else _ONE
            scratch[_PER_POD, app] = prices.servers[app] * ready
            if step == 0:
                pods[app] = _ZERO
            floor = _fewest(app, prices, scratch, _FIRST_LOAD if step == 0 else _BUSIEST)
            # Later steps start from the previous pods where these can carry the load.
            pods[app] = max(pods[app], floor)
        for size in problem.coarse if step == 0 else problem.fine:
            _compute_latency(tables, calls, scratch)
            _charge(calls, prices, scratch)
            _move(tables, prices, size, scratch)
        for app in range(pods.size):
            needed[step, app] = math.ceil(pods[app] - np.float32(0.02))


@kernel
def _expect(rps: F32, payload: F32, prices: Prices, scratch: F32) -> None:
    """Demand including noise, and the duration of a request."""
    for app in range(rps.size):
        work = prices.cpu_seconds[app] * payload[app]
        busy = max(work + prices.io_seconds[app], prices.workers[app] * work)
        scratch[_SERVICE, app] = busy * prices.stretch[app]
        # Arrivals in a tick of 10 s are Poisson, so their rate deviates by sqrt(rps / 10).
        noise = _NOISE * np.float32(math.sqrt(rps[app] * np.float32(0.1)))
        scratch[_DEMAND, app] = rps[app] + noise


@kernel
def _weigh(domain: I32, active: I32, demand: F32, prices: Prices, sums: F32, scratch: F32) -> None:
    """Cost of a minute in which all requests of an app violate."""
    sums[:] = 0.0
    for app in range(demand.size):
        sums[0, domain[app]] += demand[app]
        sums[1, domain[app]] += np.float32(active[app])
    for app in range(demand.size):
        mean = sums[0, domain[app]] / max(sums[1, domain[app]], _ONE)
        scratch[_WORTH, app] = prices.weight[domain[app]] * demand[app] / max(mean, _TINY)


@kernel
def _fewest(app: int, prices: Prices, scratch: F32, load: np.float32) -> np.float32:
    """Pods that carry the demand at a load."""
    busy = scratch[_DEMAND, app] * scratch[_SERVICE, app]
    pods = max(prices.least[app], busy / (scratch[_PER_POD, app] * load))
    return min(prices.most[app], pods)


@kernel
def _respond(
    app: int, pods: np.float32, tables: LatencyTables, scratch: F32
) -> tuple[np.float32, np.float32]:
    """Median and squared distance to the 99th percentile of an app's own latency."""
    servers = pods * scratch[_PER_POD, app]
    load = scratch[_DEMAND, app] * scratch[_SERVICE, app] / max(servers, _TINY)
    p50, p99 = quantiles(tables, servers, load)
    distance = (p99 - p50) * scratch[_SERVICE, app]
    return p50 * scratch[_SERVICE, app], distance * distance


@kernel
def _compute_latency(tables: LatencyTables, calls: CallRows, scratch: F32) -> None:
    """Latency of every app, including that of its callees."""
    p50, spread = scratch[_P50], scratch[_SPREAD]
    for app in range(p50.size):
        own_p50, own_spread = _respond(app, scratch[_PODS, app], tables, scratch)
        scratch[_OWN_P50, app] = own_p50
        scratch[_OWN_SPREAD, app] = own_spread
        p50[app] = own_p50
        spread[app] = own_spread
    # Edges are sorted with outermost callers first. Backwards, the latency of a callee is complete
    # before its callers add it; forwards (in `_charge`), the price of a caller before its callees.
    for back in range(1, calls.caller.size + 1):
        edge = calls.caller.size - back
        caller, callee, often = calls.caller[edge], calls.callee[edge], calls.per_request[edge]
        p50[caller] += often * p50[callee]
        spread[caller] += often * spread[callee]


@kernel
def _charge(calls: CallRows, prices: Prices, scratch: F32) -> None:
    """Cost of one more second of each app's latency, for the app and its callers."""
    for app in range(prices.target.size):
        p50, distance = scratch[_P50, app], np.float32(math.sqrt(scratch[_SPREAD, app]))
        distance = max(distance, _TINY)
        target = prices.target[app]
        # Derivatives of the tail: violations per second of median, and per squared spread.
        slow = tail(p50, p50 + distance, target)
        room = max(_ZERO, target - p50)
        steep = scratch[_WORTH, app] * slow * _DECAY / distance if slow > _ZERO else _ZERO
        scratch[_PER_P50, app] = steep
        scratch[_PER_SPREAD, app] = steep * room / (_TWO * distance * distance) if steep > 0 else 0
    for edge in range(calls.caller.size):
        caller, callee, often = calls.caller[edge], calls.callee[edge], calls.per_request[edge]
        scratch[_PER_P50, callee] += often * scratch[_PER_P50, caller]
        scratch[_PER_SPREAD, callee] += often * scratch[_PER_SPREAD, caller]


@kernel
def _move(tables: LatencyTables, prices: Prices, size: np.float32, scratch: F32) -> None:
    """Move each app a step up or down if that is cheaper while all others stay."""
    for app in range(prices.pod.size):
        now = scratch[_PODS, app]
        # Staying costs nothing, so a move has to save something.
        best, lowest = now, _ZERO
        for direction in range(2):
            pods = now * (_ONE + size) if direction == 0 else now / (_ONE + size)
            pods = min(prices.most[app], max(pods, _fewest(app, prices, scratch, _BUSIEST)))
            p50, spread = _respond(app, pods, tables, scratch)
            cost = (pods - now) * prices.pod[app]
            cost += (p50 - scratch[_OWN_P50, app]) * scratch[_PER_P50, app]
            cost += (spread - scratch[_OWN_SPREAD, app]) * scratch[_PER_SPREAD, app]
            if cost < lowest:
                best, lowest = pods, cost
        scratch[_PODS, app] = best


_DEPLOY = int(Purpose.DEPLOY)
_BATCHES: Final = 3
_SLOWEST: Final = 2.0
"""Standard deviations by which the slowest pod of a batch is late."""


def deploying(world: World, steps: int, step_ticks: int) -> I8:
    """[E, S, A] 1 while a rolling deploy, as the world will draw it, makes some pods unready."""
    physics, apps = world.given.rules.physics[0], world.population.apps
    # A batch is ready when its slowest pod is.
    late = math.exp(_SLOWEST * float(physics["start_sigma"]))
    seconds = (physics["pod_boot_s"] * apps.boot + physics["image_pull_s"] * apps.image_pull) * late
    batch = 1 + (seconds + physics["readiness_s"]) / physics["tick_s"]
    lasts = np.ceil(_BATCHES * batch).astype(np.int32)
    found = np.zeros((world.environments, steps, lasts.size), np.int8)
    chance, per_minute = float(physics["deploy_chance"]), int(physics["ticks_per_minute"])
    for e, seed in enumerate(world.state.env["seed"]):
        planned = world.given.script.deploy_tick[e]
        _mark(int(seed), planned, chance, per_minute, step_ticks, lasts, found[e])
    return found


@kernel
def _mark(
    seed: int,
    planned: I32,
    chance: float,
    per_minute: int,
    step_ticks: int,
    lasts: I32,
    found: I8,
) -> None:
    # The same draws as in models/sim/churn.py: randomness is a hash, so the future can be read.
    draws = stream(seed, _DEPLOY)
    steps = found.shape[0]
    for tick in range(steps * step_ticks):
        first, end = turn_of(tick, per_minute, planned.size)
        for app in range(first, end):
            due = planned[app]
            forced = due >= 0 and tick - per_minute < due <= tick
            if forced or as_uniform(draw(draws, app, 0, tick)) < chance:
                last = min(steps - 1, (tick + lasts[app]) // step_ticks)
                for step in range(tick // step_ticks, last + 1):
                    found[step, app] = 1
