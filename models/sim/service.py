"""Requests in, answers out: calls between apps, queues, time-outs, failures, retries.

Three walks per tick. Forward along the calls: demand reaches the callees. Over the apps: each
queue serves what it can. Backward along the calls: latency and failures come home to callers.
The formulas over all apps are functions of plain rows, one per step, so that they vectorise.
"""

import math
from typing import Final

import numpy as np

from models.cluster.arrays import F32, F64, I32
from models.cluster.observation import (
    ACTIVE,
    CPU,
    CPU_REQUEST,
    DOMAIN,
    ERRORS,
    MEMORY,
    P50,
    P99,
    PODS,
    READY,
    RPS,
    STARTING,
    THROUGHPUT,
)
from models.jit import kernel
from models.sim.accounting import (
    ARRIVED,
    FAILED,
    SERVED,
    UNSCORED,
    VIOLATED,
    Accounts,
)
from models.sim.apps import GUARD_FAIL_OPEN, GUARD_QUEUE
from models.sim.bursts import BURST_ROWS, burst
from models.sim.draws import Purpose, as_normal_32, draw_in_row, row_key, stream
from models.sim.erlang import U32, LatencyTables, interpolate, locate
from models.sim.layout import Rules
from models.sim.service_rows import CallRows, Traits
from models.sim.state import (
    BACKLOG,
    BOOST,
    BOUND,
    DOWN,
    LEAK_HOURS,
    PASSED,
    PAYLOAD,
    RATE,
    RATE_NEXT,
    RETRY,
    SAMPLE_RING,
    State,
)
from models.sim.tail import tail

_SHOT = int(Purpose.SHOT_NOISE)
_QUEUE_TIMEOUTS = np.float32(2.0)
"""A queue holds at most this many time-outs of work: longer than callers wait, as real queues
do, so that an overloaded app can spend its time on answers nobody waits for any more."""
_UNNOTICED = np.float32(1e-6)
"""A failing share below one in a million is not passed on to callers."""
_CATCH_UP = np.float32(2.0)
"""A queue that drains passes on at most this many times what arrives."""
_TINY = np.float32(1e-9)
_ZERO, _HALF, _ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)
_MILLI = np.float32(0.001)

# Rows of the scratch memory.
DEMAND, SERVERS, SERVICE, DONE, SPREAD, WAITED, LOAD, DOWNWARD, RIGHTWARD, LATE = range(10)
HELD, BURSTS = range(10, 12)
SCRATCH_ROWS: Final = BURSTS + BURST_ROWS


@kernel
def serve(
    st: State,
    acc: Accounts,
    e: int,
    traits: Traits,
    calls: CallRows,
    rules: Rules,
    tables: LatencyTables,
    scratch: F32,
    cells: U32,
) -> None:
    """Serve one tick of environment `e` and write its true measurements."""
    physics = rules.physics[0]
    tick, seconds = st.env[e].tick, physics.tick_s
    sample, flow = st.samples[e, tick % SAMPLE_RING], st.flow[e]
    status, hidden, books = st.status[e], st.hidden[e], acc.books[e]
    demand, servers, service = scratch[DEMAND], scratch[SERVERS], scratch[SERVICE]
    done, spread, waited, fail = scratch[DONE], scratch[SPREAD], scratch[WAITED], sample[ERRORS]

    within = np.float32((tick % physics.ticks_per_minute) / physics.ticks_per_minute)
    _arrive(
        flow[RATE], flow[RATE_NEXT], flow[BOOST], flow[RETRY], status[ACTIVE],
        within, seconds, row_key(stream(st.env[e].seed, _SHOT), 0, tick), demand,
    )  # fmt: skip
    limit_to_active(status[ACTIVE], flow[PASSED])
    call_forward(calls.caller, calls.callee, calls.per_request, flow[PASSED], demand)
    limit_to_active(status[ACTIVE], demand)
    _count_ready(hidden[BOUND], status[STARTING], hidden[DOWN], status[READY])
    _find_capacity(
        status[READY], status[CPU_REQUEST], flow[PAYLOAD], traits.limit_ratio, traits.start_limit,
        traits.workers, traits.cpu_seconds, traits.io_seconds, servers, service,
    )  # fmt: skip
    burst(st, e, traits, rules, demand, service, servers, scratch[BURSTS:])
    _work(
        demand, servers, service, traits.timeout, seconds, flow[BACKLOG], done, fail, waited,
        scratch[LOAD],
    )  # fmt: skip
    locate(servers, scratch[LOAD], cells, scratch[DOWNWARD], scratch[RIGHTWARD])
    interpolate(tables, cells, scratch[DOWNWARD], scratch[RIGHTWARD], sample[P50], spread)
    late = scratch[LATE]
    _take_time(service, traits.timeout, waited, sample[P50], spread, late)
    failing = _answer(
        demand, done, late, traits.retry_share, fail, flow[PASSED], flow[RETRY],
        books[ARRIVED], books[SERVED], books[FAILED], sample[THROUGHPUT],
    )  # fmt: skip
    _bring_latency_home(calls, sample[P50], spread)
    if failing > 0:
        _bring_failures_home(
            calls, traits.timeout, status[DOMAIN], fail, sample[THROUGHPUT], scratch[HELD],
            acc.domains[e, :, UNSCORED],
        )  # fmt: skip
        _add(scratch[HELD], sample[P50])
    _judge(
        demand, fail, late, waited, spread, sample[P50], traits.target,
        sample[P99], books[VIOLATED],
    )  # fmt: skip
    _measure(
        demand, done, service, status[READY], hidden[BOUND], flow[PAYLOAD], flow[LEAK_HOURS],
        traits, _ONE / seconds, sample,
    )  # fmt: skip


@kernel
def _arrive(
    rate: F32,
    rate_next: F32,
    boost: F32,
    retry: F32,
    active: I32,
    within: np.float32,
    seconds: np.float32,
    shots: np.uint64,
    demand: F32,
) -> None:
    """Requests of this tick: from outside with the shot noise of a Poisson process, and retries."""
    for app in range(demand.size):
        now = rate[app] + within * (rate_next[app] - rate[app])
        mean = now * boost[app] * seconds * np.float32(active[app])
        noise = as_normal_32(draw_in_row(shots, app))
        demand[app] = max(_ZERO, mean + noise * np.float32(math.sqrt(mean))) + retry[app]


@kernel
def limit_to_active(active: I32, row: F32) -> None:
    """Apps that do not exist are called by nobody and pass nothing on."""
    for app in range(row.size):
        row[app] *= np.float32(active[app])


@kernel
def call_forward(callers: U32, callees: U32, per_request: F32, passed: F32, demand: F32) -> None:
    """What a caller got through last tick is what it passes on now."""
    for edge in range(callers.size):
        caller = callers[edge]
        demand[callees[edge]] += demand[caller] * passed[caller] * per_request[edge]


@kernel
def _count_ready(bound: I32, starting: I32, down: I32, ready: I32) -> None:
    for app in range(ready.size):
        ready[app] = max(np.int32(0), bound[app] - starting[app] - down[app])


@kernel
def _find_capacity(
    ready: I32,
    cpu_request: I32,
    payload: F32,
    limit_ratio: F32,
    start_limit: F32,
    workers: F32,
    cpu_seconds: F32,
    io_seconds: F32,
    servers: F32,
    service: F32,
) -> None:
    """Servers that requests guarantee to each app's queue, and the time one takes for a request.

    With a limit below one core and below its first size a pod is slower per request, not only
    smaller.
    """
    for app in range(servers.size):
        request = np.float32(cpu_request[app]) * _MILLI
        stretch = max(_ONE, start_limit[app] / (request * limit_ratio[app]))
        work = cpu_seconds[app] * payload[app]
        # However small the wait for disks, all workers together get no more than their CPU.
        service[app] = max(work + io_seconds[app], workers[app] * work) * stretch
        servers[app] = np.float32(ready[app]) * workers[app] * request * stretch


@kernel
def _work(
    demand: F32,
    servers: F32,
    service: F32,
    timeout: F32,
    seconds: np.float32,
    backlog: F32,
    done: F32,
    dropped: F32,
    waited: F32,
    load: F32,
) -> None:
    """What gets done, what stays queued, what is dropped, and the mean wait of the tick."""
    for app in range(demand.size):
        capacity = servers[app] / service[app]
        load[app] = demand[app] / max(capacity * seconds, _TINY)
        before = backlog[app]
        offered = demand[app] + before
        finished = min(offered, capacity * seconds)
        left = offered - finished
        after = min(left, capacity * _QUEUE_TIMEOUTS * timeout[app])
        waited[app] = _HALF * (before + after) / max(capacity, _TINY)
        dropped[app] = left - after
        backlog[app] = after
        done[app] = finished


@kernel
def _take_time(service: F32, timeout: F32, waited: F32, p50: F32, spread: F32, late: F32) -> None:
    """From units of service time to seconds; everybody waits for the backlog first.

    `spread` comes in as the 99th percentile and goes out as its squared distance to the median,
    because squares of independent spreads add up along the calls. Nobody waits longer than the
    time-out, so `waited` and the median end there; how many answers come later is `late`.
    """
    for app in range(p50.size):
        median, slow = p50[app] * service[app], spread[app] * service[app]
        late[app] = tail(median, slow, timeout[app] - waited[app])
        waited[app] = min(waited[app], timeout[app])
        p50[app] = min(median + waited[app], timeout[app])
        spread[app] = (slow - median) * (slow - median)


@kernel
def _answer(
    demand: F32,
    done: F32,
    late: F32,
    retry_share: F32,
    fail: F32,
    passed: F32,
    retry: F32,
    arrived: F32,
    served: F32,
    failed: F32,
    throughput: F32,
) -> int:
    """Answers in time are served; late ones fail like dropped ones. `fail` becomes a share.

    Callers send again what failed at the app itself: what fails at its callees is up to them,
    and a payment is not sent twice because a merchant's page asked for it. Returns in how many
    apps something failed: in most ticks nothing has to be brought home.
    """
    failing = 0
    for app in range(demand.size):
        good = done[app] * (_ONE - late[app])
        bad = fail[app] + done[app] * late[app]
        passed[app] = min(_CATCH_UP, done[app] / max(demand[app], _TINY))
        share = bad / max(good + bad, _TINY)
        fail[app] = share
        retry[app] = demand[app] * share * retry_share[app]
        failing += 1 if share > _UNNOTICED else 0
        throughput[app] = good
        arrived[app] += demand[app]
        served[app] += good
        failed[app] += bad
    return failing


@kernel
def _measure(
    demand: F32,
    done: F32,
    service: F32,
    ready: I32,
    bound: I32,
    payload: F32,
    leak_hours: F32,
    traits: Traits,
    per_second: np.float32,
    sample: F32,
) -> None:
    """The resource side of the measurements."""
    _scale(demand, per_second, sample[RPS])
    _scale(sample[THROUGHPUT], per_second, sample[THROUGHPUT])
    _use_cpu(done, payload, traits.cpu_seconds, per_second, sample[CPU])
    _use_memory(
        done, service, bound, leak_hours, traits.memory_base, traits.memory_leak,
        traits.memory_per_request, per_second, sample[MEMORY],
    )  # fmt: skip
    _as_float(ready, sample[PODS])


@kernel
def _as_float(row: I32, out: F32) -> None:
    for app in range(row.size):
        out[app] = np.float32(row[app])


@kernel
def _add(row: F32, out: F32) -> None:
    for app in range(row.size):
        out[app] += row[app]


@kernel
def _scale(row: F32, factor: np.float32, out: F32) -> None:
    for app in range(row.size):
        out[app] = row[app] * factor


@kernel
def _use_cpu(done: F32, payload: F32, cpu_seconds: F32, per_second: np.float32, cpu: F32) -> None:
    for app in range(done.size):
        cpu[app] = done[app] * payload[app] * cpu_seconds[app] * per_second


@kernel
def _use_memory(
    done: F32,
    service: F32,
    bound: I32,
    leak_hours: F32,
    base: F32,
    leak: F32,
    per_request: F32,
    per_second: np.float32,
    memory: F32,
) -> None:
    for app in range(done.size):
        idle = np.float32(bound[app]) * (base[app] + leak[app] * leak_hours[app])
        memory[app] = idle + done[app] * service[app] * per_second * per_request[app]


@kernel
def _bring_latency_home(calls: CallRows, p50: F32, spread: F32) -> None:
    """Add the callees' latency to their callers, the innermost first."""
    for place in range(calls.callers.size):
        caller = calls.callers[place]
        median, square = p50[caller], spread[caller]
        for edge in range(calls.home_first[place], calls.home_first[place + 1]):
            callee, often = calls.home_callee[edge], calls.home_per_request[edge]
            median += often * p50[callee]
            square += often * spread[callee]
        p50[caller] = median
        spread[caller] = square


@kernel
def _bring_failures_home(
    calls: CallRows,
    timeout: F32,
    domain: I32,
    fail: F32,
    served: F32,
    held: F32,
    unscored: F64,
) -> None:
    """A failed call fails its caller, lets it go on unscored, or makes it wait.

    `held` is the time that such waiting takes; it comes home to the callers' callers as well.
    """
    held[:] = _ZERO
    for place in range(calls.callees.size):
        callee = calls.callees[place]
        if fail[callee] <= _UNNOTICED and held[callee] == _ZERO:
            continue
        for edge in range(calls.first[place], calls.first[place + 1]):
            caller, often = calls.back_caller[edge], calls.back_per_request[edge]
            lost = min(_ONE, often * fail[callee])
            held[caller] += often * held[callee]
            if calls.back_guard[edge] == GUARD_FAIL_OPEN:
                unscored[domain[caller]] += lost * served[caller]
            elif calls.back_guard[edge] == GUARD_QUEUE:
                held[caller] += lost * timeout[callee]
            else:
                fail[caller] += lost * (_ONE - fail[caller])


@kernel
def _judge(
    demand: F32,
    fail: F32,
    late: F32,
    waited: F32,
    spread: F32,
    p50: F32,
    target: F32,
    p99: F32,
    violated: F32,
) -> None:
    """Which share of each app's requests violates."""
    for app in range(demand.size):
        moving = p50[app] - waited[app]
        distance = np.float32(math.sqrt(spread[app]))
        slow = tail(moving, moving + distance, target[app] - waited[app])
        # Those that came after the time-out have failed and are not slow a second time.
        slow = max(_ZERO, slow - late[app]) / max(_ONE - late[app], _TINY)
        p99[app] = p50[app] + distance
        violated[app] += demand[app] * (fail[app] + (_ONE - fail[app]) * slow)
