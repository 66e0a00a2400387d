"""Serve one tick of requests: calls between apps, queues, timeouts, failures, retries.

Three walks per tick. Forward along the calls: demand reaches the callees. Over the apps: each
queue serves what it can. Backward along the calls: latency and failures reach the callers.
Each formula is one loop over plain rows, because such loops vectorise.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, I32, Record
from models.jit import copy_row, kernel
from models.sim.accounting import ARRIVED, FAILED, SERVED, UNSCORED, VIOLATED, Accounts
from models.sim.apps import Traits
from models.sim.call_graph import (
    UNNOTICED,
    CallRows,
    FailureRows,
    call_admitted,
    call_forward,
    limit_to_active,
    propagate_failures,
    propagate_latency,
)
from models.sim.draws import Purpose, as_normal_32, draw_in_row, row_key, stream
from models.sim.idle_cores import BURST_ROWS, add_idle_cores
from models.sim.kernel_math import tail
from models.sim.pod_speed import find_capacity, find_hot_pods, slow_down_cold, throttle
from models.sim.queueing import U32, LatencyTables, interpolate, locate
from models.sim.rules import ClusterRules
from models.sim.state import (
    ADMITTED,
    BACKED_OFF,
    BACKLOG,
    BOOST,
    BOUND,
    COLD,
    DOWN,
    LEAKED,
    PASSED,
    PAYLOAD,
    RATE,
    RATE_NEXT,
    RETRY,
    SAMPLE_RING,
    State,
)

_SHOT = int(Purpose.SHOT_NOISE)
_QUEUE_TIMEOUTS = np.float32(2.0)
"""A queue holds at most this many timeouts of work. Real queues are longer than callers wait, so
an overloaded app can spend its time on answers that arrive too late."""
_CATCH_UP = np.float32(2.0)
"""A queue that drains passes on at most this many times what arrives."""
_TINY = np.float32(1e-9)
_ZERO, _HALF, _ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)

# Rows of the scratch memory.
_DEMAND, _SERVERS, _SERVICE, _LOAD, _DONE, _WAITED, _LATE, _SPREAD, _DOWN, _RIGHT = range(10)
_CALL_WAIT, _WORK, _HOT, _STALL, _LET_IN, _BURST = range(10, 16)
SCRATCH_ROWS: Final = _BURST + BURST_ROWS


class Queues(NamedTuple):
    """The queue of each app in one tick; one row each."""

    demand: F32
    """Requests that arrive, calls and retries included."""
    servers: F32
    service: F32
    """Seconds that a server takes for a request."""
    load: F32
    """Demand over what the servers can do."""
    backlog: F32
    """Requests that wait, carried to the next tick."""
    done: F32
    """Requests finished, in time or not."""
    waited: F32
    """Mean seconds spent behind the backlog, at most the timeout."""
    late: F32
    """Share of the finished requests that took longer than the timeout."""
    fail: F32
    """Dropped requests at first; `_answer` turns them into the failing share."""


class Answers(NamedTuple):
    """What a tick's requests lead to; one row per app."""

    passed: F32
    """Share of the demand whose calls go out in the next tick."""
    retry: F32
    """Requests that come again: of this tick at first, of the next one after `_answer`."""
    backed_off: F32
    """Failed requests that wait for their retry."""
    admitted: F32
    """Share of the calls that circuit breakers let through in the next tick."""
    arrived: F32
    """The minute's sums so far, as the next two."""
    served: F32
    failed: F32
    throughput: F32
    """Answers in time."""


@kernel
def serve(
    st: State,
    acc: Accounts,
    e: int,
    traits: Traits,
    calls: CallRows,
    rules: ClusterRules,
    tables: LatencyTables,
    scratch: F32,
    cells: U32,
) -> None:
    """Serve one tick of environment `e` and write its true measurements."""
    physics = rules.physics[0]
    tick, seconds = st.env[e].tick, physics.tick_s
    sample, flow = st.samples[e, tick % SAMPLE_RING], st.flow[e]
    status, hidden, minute = st.status[e], st.hidden[e], acc.minute_requests[e]
    p50, spread, throughput = sample[rows.P50], scratch[_SPREAD], sample[rows.THROUGHPUT]
    queues = _queue_rows(scratch, flow, sample)
    demand, servers, service = queues.demand, queues.servers, queues.service
    answers = _answer_rows(flow, minute, throughput)

    within = np.float32((tick % physics.ticks_per_minute) / physics.ticks_per_minute)
    arrive(
        flow[RATE], flow[RATE_NEXT], flow[BOOST], flow[RETRY], status[rows.ACTIVE],
        within, seconds, row_key(stream(st.env[e].seed, _SHOT), 0, tick), demand,
    )  # fmt: skip
    # An app that is absent makes no calls, and gets none.
    limit_to_active(status[rows.ACTIVE], flow[PASSED])
    let_in, work = scratch[_LET_IN], scratch[_WORK]
    copy_row(flow[ADMITTED], let_in)
    open_breakers = _count_below_one(let_in)
    if open_breakers > 0:
        call_admitted(calls.caller, calls.callee, calls.per_request, flow[PASSED], let_in, demand)
    else:
        call_forward(calls.caller, calls.callee, calls.per_request, flow[PASSED], demand)
    limit_to_active(status[rows.ACTIVE], demand)

    _count_ready(hidden[BOUND], status[rows.STARTING], hidden[DOWN], status[rows.READY])
    slow_down_cold(status[rows.READY], flow[COLD], physics.cold_share, flow[PAYLOAD], work)
    find_capacity(status[rows.READY], status[rows.CPU_REQUEST], work, traits, servers, service)
    add_idle_cores(st, e, traits, rules, work, demand, service, servers, scratch[_BURST:])
    _work(queues, traits.timeout, seconds)
    find_hot_pods(queues.load, status[rows.READY], physics.imbalance, scratch[_HOT])
    locate(servers, scratch[_HOT], cells, scratch[_DOWN], scratch[_RIGHT])
    interpolate(tables, cells, scratch[_DOWN], scratch[_RIGHT], p50, spread)
    throttle(
        queues.done, work, status[rows.READY], status[rows.CPU_REQUEST], traits,
        _ONE / seconds, physics.quota_period_s, scratch[_STALL],
    )  # fmt: skip
    _convert_to_seconds(queues, traits.timeout, scratch[_STALL], p50, spread)
    failing = _answer(queues, traits, physics, answers)

    propagate_latency(calls, p50, spread)
    # In most ticks nothing fails, which saves the slowest walk.
    if failing + open_breakers > 0:
        waits = scratch[_CALL_WAIT]
        failures = FailureRows(
            status[rows.DOMAIN], traits.timeout, throughput, queues.fail, let_in, waits
        )
        propagate_failures(calls, failures, acc.domains[e, :, UNSCORED])
        _add(waits, p50)
    _judge(queues, traits.target, p50, spread, sample[rows.P99], minute[VIOLATED])
    _measure(
        queues, traits, status[rows.READY], hidden[BOUND], work, flow[LEAKED],
        _ONE / seconds, sample,
    )  # fmt: skip


@kernel
def _answer_rows(flow: F32, minute: F32, throughput: F32) -> Answers:
    return Answers(
        passed=flow[PASSED],
        retry=flow[RETRY],
        backed_off=flow[BACKED_OFF],
        admitted=flow[ADMITTED],
        arrived=minute[ARRIVED],
        served=minute[SERVED],
        failed=minute[FAILED],
        throughput=throughput,
    )


@kernel
def _queue_rows(scratch: F32, flow: F32, sample: F32) -> Queues:
    # Only the backlog lives on in the state; the failing share is a measurement.
    return Queues(
        demand=scratch[_DEMAND],
        servers=scratch[_SERVERS],
        service=scratch[_SERVICE],
        load=scratch[_LOAD],
        backlog=flow[BACKLOG],
        done=scratch[_DONE],
        waited=scratch[_WAITED],
        late=scratch[_LATE],
        fail=sample[rows.ERRORS],
    )


@kernel
def arrive(
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
    """Requests of a tick: from outside, with the shot noise of a Poisson process, and retries."""
    for app in range(demand.size):
        now = rate[app] + within * (rate_next[app] - rate[app])
        mean = now * boost[app] * seconds * np.float32(active[app])
        noise = as_normal_32(draw_in_row(shots, app))
        demand[app] = max(_ZERO, mean + noise * np.float32(math.sqrt(mean))) + retry[app]


@kernel
def _count_ready(bound: I32, starting: I32, down: I32, ready: I32) -> None:
    for app in range(ready.size):
        ready[app] = max(np.int32(0), bound[app] - starting[app] - down[app])


@kernel
def _count_below_one(row: F32) -> int:
    below = 0
    for app in range(row.size):
        below += 1 if row[app] < _ONE else 0
    return below


@kernel
def _work(queues: Queues, timeout: F32, seconds: np.float32) -> None:
    """What gets done, what stays queued, what is dropped, and the mean wait of the tick."""
    demand, servers, service = queues.demand, queues.servers, queues.service
    backlog, done, dropped = queues.backlog, queues.done, queues.fail
    waited, load = queues.waited, queues.load
    for app in range(demand.size):
        # Requests per second.
        capacity = servers[app] / service[app]
        # Without the backlog: `_convert_to_seconds` adds the wait behind it.
        load[app] = demand[app] / max(capacity * seconds, _TINY)
        before = backlog[app]
        offered = demand[app] + before
        finished = min(offered, capacity * seconds)
        left = offered - finished
        after = min(left, capacity * _QUEUE_TIMEOUTS * timeout[app])
        # The mean of the waits at the beginning and the end of the tick.
        waited[app] = _HALF * (before + after) / max(capacity, _TINY)
        dropped[app] = left - after
        backlog[app] = after
        done[app] = finished


@kernel
def _convert_to_seconds(queues: Queues, timeout: F32, stall: F32, p50: F32, spread: F32) -> None:
    """From units of service time to seconds; every request waits for the backlog first.

    `stall` is what throttling adds to the 99th percentile.

    `spread` comes in as the 99th percentile and goes out as its squared distance to the median,
    because squares of independent spreads add up along the calls. Callers give up at the timeout,
    so `waited` and the median end there; `late` is the share of answers after it.
    """
    service, waited, late = queues.service, queues.waited, queues.late
    for app in range(p50.size):
        median, slow = p50[app] * service[app], spread[app] * service[app] + stall[app]
        late[app] = tail(median, slow, timeout[app] - waited[app])
        waited[app] = min(waited[app], timeout[app])
        p50[app] = min(median + waited[app], timeout[app])
        spread[app] = (slow - median) * (slow - median)


@kernel
def _answer(queues: Queues, traits: Traits, physics: Record, answers: Answers) -> int:
    """Answers in time are served; late ones fail like dropped ones. Returns how many apps fail.

    Callers retry only what failed at the app itself. Failures of its callees are retried there,
    if at all: a payment is not sent twice because the page that asked for it is reloaded. Retries
    wait for their back-off, and what exceeds the clients' budget is given up.
    """
    retry_share, retry_budget = traits.retry_share, traits.retry_budget
    backed_off, admitted = answers.backed_off, answers.admitted
    release, threshold = physics.retry_release, physics.breaker_threshold
    cut = _ONE - physics.breaker_share
    demand, done, late, fail = queues.demand, queues.done, queues.late, queues.fail
    passed, retry, throughput = answers.passed, answers.retry, answers.throughput
    arrived, served, failed = answers.arrived, answers.served, answers.failed
    failing = 0
    for app in range(demand.size):
        good = done[app] * (_ONE - late[app])
        bad = fail[app] + done[app] * late[app]
        passed[app] = min(_CATCH_UP, done[app] / max(demand[app], _TINY))
        share = bad / max(good + bad, _TINY)
        fail[app] = share
        waiting = backed_off[app] + demand[app] * share * retry_share[app]
        due = waiting * release
        first = max(_ZERO, demand[app] - retry[app])
        retry[app] = min(due, retry_budget[app] * first)
        backed_off[app] = waiting - due
        admitted[app] = cut if share >= threshold else _ONE
        failing += 1 if share > UNNOTICED else 0
        # Requests of the tick; `_measure` turns them into a rate.
        throughput[app] = good
        arrived[app] += demand[app]
        served[app] += good
        failed[app] += bad
    return failing


@kernel
def _judge(queues: Queues, target: F32, p50: F32, spread: F32, p99: F32, violated: F32) -> None:
    """Add the requests that fail or are slower than their app's target."""
    demand, fail, late, waited = queues.demand, queues.fail, queues.late, queues.waited
    for app in range(demand.size):
        # Only the part of the latency that varies between requests has a tail.
        varying = p50[app] - waited[app]
        distance = np.float32(math.sqrt(spread[app]))
        slow = tail(varying, varying + distance, target[app] - waited[app])
        # Requests beyond the timeout have failed already: don't count them as slow, too.
        slow = max(_ZERO, slow - late[app]) / max(_ONE - late[app], _TINY)
        p99[app] = p50[app] + distance
        violated[app] += demand[app] * (fail[app] + (_ONE - fail[app]) * slow)


@kernel
def _measure(
    queues: Queues,
    traits: Traits,
    ready: I32,
    bound: I32,
    work: F32,
    leaked: F32,
    per_second: np.float32,
    sample: F32,
) -> None:
    """Rates per second, and the resources that the tick used."""
    _scale(queues.demand, per_second, sample[rows.RPS])
    _scale(sample[rows.THROUGHPUT], per_second, sample[rows.THROUGHPUT])
    _use_cpu(queues.done, work, traits.cpu_seconds, per_second, sample[rows.CPU])
    _use_memory(queues, traits, bound, leaked, per_second, sample[rows.MEMORY])
    _as_float(ready, sample[rows.PODS])


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
def _use_cpu(done: F32, work: F32, cpu_seconds: F32, per_second: np.float32, cpu: F32) -> None:
    for app in range(done.size):
        cpu[app] = done[app] * work[app] * cpu_seconds[app] * per_second


@kernel
def _use_memory(
    queues: Queues,
    traits: Traits,
    bound: I32,
    leaked: F32,
    per_second: np.float32,
    memory: F32,
) -> None:
    done, service = queues.done, queues.service
    base, per_request = traits.memory_base, traits.memory_per_request
    for app in range(done.size):
        # Pods that are starting or down use memory as well, so all bound pods count.
        idle = np.float32(bound[app]) * (base[app] + leaked[app])
        memory[app] = idle + done[app] * service[app] * per_second * per_request[app]
