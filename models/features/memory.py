"""What the features remember between ticks, and which samples are valid.

A sample is missing if it did not arrive, holds NaN, infinite or negative numbers, or reads zero
where that is impossible. Then the last valid one is kept with its age, because a zero would look
like an idle app. If only the app's own exporter fails, CPU, memory and pods come from elsewhere and
are still taken in; the sample counts as missing all the same. The memory is updated in place;
observing the same tick again changes nothing.

Which pod became ready is not observed, only how many are in flight (starting or without a node).
So an increase is a cohort of new pods, and a decrease removes the oldest ones first: they are the
likeliest to be ready.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F32, F64, I8, I32, I64
from models.cluster.inventory import Inventory
from models.cluster.observation import Observation
from models.features.table import AGES
from models.jit import kernel

UNSEEN: Final = 1 << 20
"""Age in ticks of an app that never had a valid sample."""
_LARGEST: Final = np.float32(1e12)
"""No valid measurement is larger."""
_CLEAR_RPS: Final = np.float32(0.1)
"""Traffic above this does not stop in the same tick as everything else."""
_TREND_S: Final = 300.0
"""Time constant of the slow mean of the requests."""
_BUSY: Final = np.float32(0.1)
"""Share of its last CPU use at which an app without requests is still at work."""
_FRESH, _USE_ONLY = np.int8(1), np.int8(2)
"""A valid sample, and one whose CPU, memory and pods are valid but not its requests."""
# float32 and int32: plain constants would widen the arithmetic of the kernels.
_ZERO: Final = np.float32(0.0)
_BOUNDS_S: Final = (30, 60, 120, 300)
"""Upper bounds of the age buckets in `table.AGES`, except for the last one, which has none."""
_MOST: Final = np.int32(1_000_000)
"""Largest valid pod count of one app; a larger one is broken and would overflow sums."""
_NONE: Final = np.int32(0)


class FeatureState(NamedTuple):
    """E environments, A apps, S slots of a window of five minutes."""

    tick: I32
    """[E] of the last observation."""
    sample: F32
    """[E, SAMPLES, A] last valid sample, rows as measured."""
    age: I32
    """[E, A] ticks since that sample arrived; UNSEEN when there is none."""
    fresh: I8
    """[E, A] 1 where the last observation brought a valid sample, 2 where only what pods use."""
    mean_rps: F32
    """[E, A] slow mean of the requests per second."""
    cohort: I32
    """[E, S, A] pods still in flight by the tick in which they appeared, modulo S."""
    flight: I32
    """[E, AGES, A] pods in flight by age bucket; they sum to `in_flight`."""
    in_flight: I32
    """[E, A] pods starting and pending."""
    restarts: I32
    """[E, S, A] restart counter at each tick of the window, modulo S."""
    declared: F32
    """[E, A] and the next six: the fields of `saturation.Full`."""
    full_at: F32
    doubt: F32
    work: F32
    strained: I32
    peak: F32
    in_time: F32
    spent: F64
    """[E] money since the memory began."""
    lasted: F64
    """[E] hours since the memory began."""


def start_memory(observation: Observation, inventory: Inventory) -> FeatureState:
    """The memory before the first observation; earlier restarts do not count."""
    environments, apps = observation.missing.shape
    # One more than the window: its oldest tick must not share a slot with the newest.
    slots = window_ticks(inventory.tick_s) + 1
    counters = np.maximum(observation.status[:, None, rows.RESTARTS], 0)
    return FeatureState(
        tick=observation.tick.copy(),
        sample=np.zeros((environments, rows.SAMPLES, apps), np.float32),
        age=np.full((environments, apps), UNSEEN, np.int32),
        fresh=np.zeros((environments, apps), np.int8),
        mean_rps=np.zeros((environments, apps), np.float32),
        cohort=np.zeros((environments, slots, apps), np.int32),
        flight=np.zeros((environments, len(AGES), apps), np.int32),
        in_flight=np.zeros((environments, apps), np.int32),
        restarts=np.repeat(counters, slots, axis=1),
        declared=np.zeros((environments, apps), np.float32),
        full_at=np.ones((environments, apps), np.float32),
        doubt=np.zeros((environments, apps), np.float32),
        work=np.zeros((environments, apps), np.float32),
        strained=np.zeros((environments, apps), np.int32),
        peak=np.zeros((environments, apps), np.float32),
        in_time=np.zeros((environments, apps), np.float32),
        spent=np.zeros(environments),
        lasted=np.zeros(environments),
    )


def copy_memory(state: FeatureState) -> FeatureState:
    """An independent copy, for a world that is forked."""
    return FeatureState._make(array.copy() for array in state)


def elapsed_ticks(observation: Observation, state: FeatureState) -> I32:
    """[E] ticks since the last observation; 0 when the same tick is observed again."""
    # int64: the difference of two arbitrary int32 ticks overflows int32.
    elapsed: I64 = observation.tick.astype(np.int64) - state.tick
    bounded: I32 = np.minimum(np.maximum(elapsed, 0), UNSEEN).astype(np.int32)
    return bounded


def window_ticks(tick_s: int) -> int:
    """Ticks for which cohorts and restarts are kept apart."""
    return math.ceil(_BOUNDS_S[-1] / tick_s)


def age_edges(tick_s: int) -> I32:
    """Age in ticks at which a pod leaves each bucket for the next."""
    return np.array([math.ceil(bound / tick_s) for bound in _BOUNDS_S], np.int32)


def trend_gain(tick_s: int) -> float:
    """Weight of one tick in the slow mean."""
    return 1.0 - math.exp(-tick_s / _TREND_S)


@kernel
def remember(
    state: FeatureState,
    e: int,
    new: F32,
    missing: I8,
    status: I32,
    elapsed: int,
    gain: float,
    edges: I32,
) -> None:
    """Take one environment's measurements `new` and pod counts `status` into its memory."""
    old, fresh, age = state.sample[e], state.fresh[e], state.age[e]
    # The order matters: zeros are judged by the sample before, and the mean starts at a first
    # sample only while `age` still says that there was none.
    _validate(new, missing, fresh)
    _reject_zeros(new, old[rows.RPS], status, age, fresh)
    _reject_silence(new, old, age, fresh)
    _follow(new[rows.RPS], fresh, age, np.float32(1.0 - (1.0 - gain) ** elapsed), state.mean_rps[e])
    for kind in range(rows.CPU):
        _update_row(new[kind], fresh, old[kind])
    for kind in range(rows.CPU, rows.SAMPLES):
        _update_use(new[kind], fresh, old[kind])
    _grow_old(fresh, status[rows.ACTIVE], np.int32(elapsed), age)
    last, tick = state.tick[e], state.tick[e] + elapsed
    advance_flight(state.cohort[e], state.flight[e], edges, last, elapsed)
    count_flight(
        status[rows.STARTING],
        status[rows.PENDING],
        state.cohort[e],
        state.flight[e],
        state.in_flight[e],
        edges,
        tick,
    )
    _store_restarts(status[rows.RESTARTS], state.restarts[e], last, elapsed)
    state.tick[e] = tick


@kernel
def _validate(new: F32, missing: I8, fresh: I8) -> None:
    """Mark valid samples: the sum shows NaN and infinity, the minimum negative numbers."""
    rps, throughput, errors = new[rows.RPS], new[rows.THROUGHPUT], new[rows.ERRORS]
    p50 = new[rows.P50]
    p99, cpu, memory, pods = new[rows.P99], new[rows.CPU], new[rows.MEMORY], new[rows.PODS]
    for app in range(fresh.size):
        least = min(rps[app], throughput[app], errors[app], p50[app])
        least = min(least, p99[app], cpu[app], memory[app], pods[app])
        total = rps[app] + throughput[app] + errors[app] + p50[app]
        total = total + p99[app] + cpu[app] + memory[app] + pods[app]
        # A NaN fails the comparison of the sum; min() alone may drop it.
        fresh[app] = (missing[app] == 0) & (least >= _ZERO) & (total <= _LARGEST)


@kernel
def _reject_zeros(new: F32, last_rps: F32, status: I32, age: I32, fresh: I8) -> None:
    """Reject samples of an exporter that answers zero on errors: a running pod holds some memory.

    All zeros are valid only where there are no pods, or where the sample itself counts none and
    the app had no traffic before: it is being scaled from zero.
    """
    rps, p99, cpu, memory = new[rows.RPS], new[rows.P99], new[rows.CPU], new[rows.MEMORY]
    pods = new[rows.PODS]
    ready, starting, pending = status[rows.READY], status[rows.STARTING], status[rows.PENDING]
    for app in range(fresh.size):
        all_zero = rps[app] + p99[app] + cpu[app] + memory[app] == _ZERO
        has_pods = (ready[app] > 0) | (starting[app] > 0) | (pending[app] > 0)
        busy = (last_rps[app] > _CLEAR_RPS) & (age[app] < UNSEEN)
        broken = all_zero & has_pods & ((pods[app] > _ZERO) | busy)
        fresh[app] = fresh[app] & (not broken)


@kernel
def _reject_silence(new: F32, old: F32, age: I32, fresh: I8) -> None:
    """Reject requests that stop while the app works on: its own exporter answers zero on errors.

    Where traffic really stops, CPU stops with it, apart from what idle pods use.
    """
    rps, p99, cpu = new[rows.RPS], new[rows.P99], new[rows.CPU]
    last_rps, last_cpu = old[rows.RPS], old[rows.CPU]
    for app in range(fresh.size):
        silent = rps[app] + p99[app] == _ZERO
        works = (cpu[app] > _ZERO) & (cpu[app] >= _BUSY * last_cpu[app])
        busy = (last_rps[app] > _ZERO) & (age[app] < UNSEEN)
        broken = (fresh[app] == _FRESH) & silent & works & busy
        fresh[app] = _USE_ONLY if broken else fresh[app]


# Load both outcomes before choosing one: LLVM does not vectorise a conditional store.


@kernel
def _follow(rps: F32, fresh: I8, age: I32, gain: np.float32, mean: F32) -> None:
    """Move the slow mean; it starts at the first sample."""
    for app in range(mean.size):
        new, old = rps[app], mean[app]
        moved = new if age[app] >= UNSEEN else old + gain * (new - old)
        mean[app] = moved if fresh[app] == _FRESH else old


@kernel
def _update_row(row: F32, fresh: I8, kept: F32) -> None:
    for app in range(kept.size):
        new, old = row[app], kept[app]
        kept[app] = new if fresh[app] == _FRESH else old


@kernel
def _update_use(row: F32, fresh: I8, kept: F32) -> None:
    for app in range(kept.size):
        new, old = row[app], kept[app]
        kept[app] = new if fresh[app] != 0 else old


@kernel
def _grow_old(fresh: I8, active: I32, elapsed: np.int32, age: I32) -> None:
    """Age the samples; forget those of an app that is no longer declared."""
    for app in range(age.size):
        older = min(age[app] + elapsed, np.int32(UNSEEN))
        older = np.int32(0) if fresh[app] == _FRESH else older
        age[app] = older if active[app] == 1 else np.int32(UNSEEN)


@kernel
def _store_restarts(counter: I32, ring: I32, last: int, elapsed: int) -> None:
    """Store the restart counter; ticks that were not observed keep the counter before them."""
    # The window compares with its oldest slot: a slot left from the last round would be too old.
    slots = ring.shape[0]
    for step in range(1, min(elapsed, slots)):
        before, now = ring[last % slots], ring[(last + step) % slots]
        for app in range(counter.size):
            now[app] = before[app]
    now = ring[(last + elapsed) % slots]
    for app in range(counter.size):
        now[app] = max(np.int32(0), counter[app])


@kernel
def advance_flight(cohort: I32, flight: I32, edges: I32, last: int, elapsed: int) -> None:
    """Age the cohorts; one that passes the last bound joins the oldest bucket."""
    slots = cohort.shape[0]
    # After a gap longer than the window all cohorts are in the oldest bucket, so stop there.
    for step in range(1, min(elapsed, slots) + 1):
        for bucket in range(edges.size):
            aged = cohort[(last + step - edges[bucket]) % slots]
            _move(aged, flight[bucket], flight[bucket + 1])
        # The slot is about to be reused for the pods of a new tick.
        _clear(cohort[(last + step - edges[-1]) % slots])


@kernel
def _move(aged: I32, younger: I32, older: I32) -> None:
    for app in range(aged.size):
        younger[app] -= aged[app]
        older[app] += aged[app]


@kernel
def _clear(row: I32) -> None:
    for app in range(row.size):
        row[app] = _NONE


@kernel
def count_flight(
    starting: I32, pending: I32, cohort: I32, flight: I32, total: I32, edges: I32, tick: int
) -> None:
    """Add new pods to the cohorts, or remove ready ones, so that they sum to what is in flight."""
    newcomers, youngest = cohort[tick % cohort.shape[0]], flight[0]
    for app in range(total.size):
        # Clipped, because a count that is broken would overflow the sums of a domain.
        now = min(max(starting[app], _NONE), _MOST) + min(max(pending[app], _NONE), _MOST)
        more = now - total[app]
        if more == 0:
            continue
        total[app] = now
        if more > 0:
            newcomers[app] += more
            youngest[app] += more
        else:
            _drain(cohort, flight, edges, tick, app, -more)


@kernel
def _drain(cohort: I32, flight: I32, edges: I32, tick: int, app: int, leaving: int) -> None:
    """Remove `leaving` pods of an app, the oldest first."""
    older = edges.size
    gone = min(leaving, flight[older, app])
    flight[older, app] -= gone
    leaving -= gone
    for bucket in range(older - 1, -1, -1):
        youngest = edges[bucket - 1] if bucket > 0 else 0
        for age in range(edges[bucket] - 1, youngest - 1, -1):
            # Most buckets of most apps are empty, and reading a cohort is a cache miss.
            if leaving == 0 or flight[bucket, app] == 0:
                break
            slot = (tick - age) % cohort.shape[0]
            gone = min(leaving, cohort[slot, app])
            cohort[slot, app] -= gone
            flight[bucket, app] -= gone
            leaving -= gone
