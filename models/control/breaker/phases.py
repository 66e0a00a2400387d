"""The state machine of a breaker.

A breaker is closed (changes pass) until a condition has held for long enough. Bad inputs, stale or
missing samples and changes without effect, open it: no plan passes. Bad outcomes, such as errors
and SLO burn, make it half-open: what its action lets pass (`actions.py`) goes on. That is every
increase at least, because holding them would make things worse.
An open breaker becomes half-open after its inputs were calm (at most half of their thresholds) for
a quiet period, and closes after a calm probation. Each further trip doubles the quiet period,
except after an outage of our own. E environments, D domains, C conditions.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I8, I32
from models.control.breaker.actions import Cause, Phase
from models.control.breaker.limits import Table, Thresholds
from models.control.breaker.readings import Readings, share_of, trust
from models.jit import kernel

# Plain numbers: kernels cannot put a member of an enumeration and a number into one variable.
_CLOSED, _OPEN, _HALF_OPEN = (int(phase) for phase in Phase)
_NONE, _REGRESSION = int(Cause.NONE), int(Cause.REGRESSION)
_MOST_TRIPS: Final = 16
"""Cap on counted trips; the quiet period reaches its limit long before."""
IS_OUTAGE: Final = np.array([cause.own_outage for cause in Cause])
"""By Cause."""
_RISK: Final = Readings._fields.index("risk")


class BreakerMemory(NamedTuple):
    """What a breaker remembers from tick to tick."""

    phase: I8
    """[E, D] of Phase."""
    cause: I8
    """[E, D] of Cause; kept until the breaker closes."""
    since: I32
    """[E, D] tick at which the phase began."""
    held: I32
    """[E, D, C] ticks for which each condition has held."""
    calm: I32
    """[E, D] ticks in a row that count towards the next phase."""
    trips: I32
    """[E, D] trips that still count."""
    risk: F64
    """[E, D, W] readings of `risk`, the newest last."""


class BurnWindows(NamedTuple):
    """[D] ticks over which each domain's burn is averaged."""

    short: I32
    long: I32

    @property
    def longest(self) -> int:
        """Ticks that have to be remembered."""
        return int(self.long.max())


def windows_of(limits: tuple[Thresholds, ...]) -> BurnWindows:
    """The windows of some domains."""
    short = [one.burn_short_ticks for one in limits]
    long = [one.burn_long_ticks for one in limits]
    return BurnWindows(np.array(short, np.int32), np.array(long, np.int32))


def start(tick: int, environments: int, table: Table, window: int) -> BreakerMemory:
    """Closed, with no burn on record."""
    domains, conditions = table.threshold.shape
    shape = environments, domains
    small, none = np.zeros(shape, np.int8), np.zeros(shape, np.int32)
    held = np.zeros((*shape, conditions), np.int32)
    # Zeros, not unknown: means skip NaN, so the first bad minute alone would fill the long window.
    risk = np.zeros((*shape, window))
    since = none + np.int32(tick)
    return BreakerMemory(small, small, since, held, calm=none, trips=none, risk=risk)


def lost(memory: BreakerMemory) -> BreakerMemory:
    """Open, because what was remembered is gone: it may have been open before."""
    return memory._replace(
        phase=np.full_like(memory.phase, Phase.OPEN),
        cause=np.full_like(memory.cause, Cause.STATE_LOST),
        trips=np.ones_like(memory.trips),
    )


def opened(tick: int, memory: BreakerMemory) -> BreakerMemory:
    """Open by an operator's order; while one is open already, its quiet period waits."""
    waiting = memory._replace(calm=np.zeros_like(memory.calm))
    if (memory.phase == Phase.OPEN).all():
        return waiting
    return waiting._replace(
        phase=np.full_like(memory.phase, Phase.OPEN),
        cause=np.full_like(memory.cause, Cause.ORDER),
        since=np.full_like(memory.since, tick),
    )


def closed(tick: int, memory: BreakerMemory) -> BreakerMemory:
    """Closed by an operator's order: every condition has to hold for its whole time again."""
    return memory._replace(
        phase=np.full_like(memory.phase, Phase.CLOSED),
        cause=np.full_like(memory.cause, Cause.NONE),
        since=np.full_like(memory.since, tick),
        held=np.zeros_like(memory.held),
        calm=np.zeros_like(memory.calm),
        trips=np.zeros_like(memory.trips),
        risk=np.zeros_like(memory.risk),
    )


def burn(memory: BreakerMemory, windows: BurnWindows) -> F64:
    """[E, D] the smaller of both windows' means: high only if it burned for long and still does."""
    means = np.empty(memory.phase.shape)
    _burn(memory.risk, windows, means)
    return means


def advance(
    tick: I32, readings: Readings, memory: BreakerMemory, table: Table, windows: BurnWindows
) -> BreakerMemory:
    """The state of the domains' breakers after a tick; `tick` is [E]."""
    values, after = np.empty(memory.held.shape), _copied(memory)
    _take_in(readings, values, after.risk, windows)
    _judge(tick, values, table, after)
    return after


def judge(tick: I32, values: F64, memory: BreakerMemory, table: Table) -> BreakerMemory:
    """The state after a tick in which the conditions had these values, [E, D, C]."""
    after = _copied(memory)
    _judge(tick, values, table, after)
    return after


def _copied(memory: BreakerMemory) -> BreakerMemory:
    """For kernels that update in place: memories may share arrays."""
    return BreakerMemory._make(part.copy() for part in memory)


@kernel
def _take_in(readings: Readings, values: F64, risk: F64, windows: BurnWindows) -> None:
    """Fill `values` [E, D, C] with the readings as the conditions judge them.

    Unknown readings are distrusted. The risk is remembered, and its burn judged instead.
    """
    for e in range(values.shape[0]):
        for d in range(values.shape[1]):
            # In the order of the table's columns.
            for c in range(values.shape[2]):
                values[e, d, c] = readings[c][e, d]
            ring = risk[e, d]
            trust(values[e, d])
            for index in range(1, ring.size):
                ring[index - 1] = ring[index]
            ring[ring.size - 1] = values[e, d, _RISK]
            values[e, d, _RISK] = _burn_of(ring, windows.short[d], windows.long[d])


@kernel
def _burn(risk: F64, windows: BurnWindows, means: F64) -> None:
    for e in range(means.shape[0]):
        for d in range(means.shape[1]):
            means[e, d] = _burn_of(risk[e, d], windows.short[d], windows.long[d])


@kernel
def _burn_of(risk: F64, short: int, long: int) -> float:
    """The smaller mean of both windows, ignoring NaN; NaN where a window has nothing else."""
    over_short, over_long = _mean(risk, short), _mean(risk, long)
    if np.isnan(over_short) or np.isnan(over_long):
        return np.nan
    return min(over_short, over_long)


@kernel
def _mean(risk: F64, length: int) -> float:
    """Mean of the newest readings that are known."""
    total, known = 0.0, 0
    for index in range(max(0, risk.size - length), risk.size):
        if not np.isnan(risk[index]):
            total += risk[index]
            known += 1
    return share_of(total, known, np.nan)


@kernel
def _judge(tick: I32, values: F64, table: Table, memory: BreakerMemory) -> None:
    for e in range(values.shape[0]):
        for d in range(values.shape[1]):
            _judge_one(tick[e], values[e, d], table, memory, e, d)


@kernel
def _judge_one(now: int, values: F64, table: Table, memory: BreakerMemory, e: int, d: int) -> None:
    """Count the bad ticks of one breaker's conditions, and apply its phase transitions."""
    phase, cause, trips = memory.phase[e, d], memory.cause[e, d], memory.trips[e, d]
    is_closed, is_open, half_open = phase == _CLOSED, phase == _OPEN, phase == _HALF_OPEN
    outage = IS_OUTAGE[cause]
    # The first condition of each kind that tripped.
    tripped = opening = fault = _NONE
    harmed, all_calm, inputs_calm = False, True, True
    for c in range(values.size):
        calm = values[c] <= table.threshold[d, c] * table.calm_part
        held = count_bad_ticks(values[c], table.threshold[d, c], calm, memory.held[e, d, c])
        memory.held[e, d, c] = held
        all_calm &= calm
        inputs_calm &= calm or not table.opens[c]
        if held >= table.patience[d, c]:
            kind = table.causes[c]
            harmed |= kind == _REGRESSION
            tripped = kind if tripped == _NONE else tripped
            if table.opens[c]:
                opening = kind if opening == _NONE else opening
                fault = kind if fault == _NONE and not IS_OUTAGE[kind] else fault

    opens = opening != _NONE and not is_open
    # Harm done by a decrease is undone, whatever made the breaker half-open before.
    rolls_back = half_open and harmed and cause != _REGRESSION
    restricts = (tripped != _NONE and is_closed) or rolls_back
    # Frames came back, but with a fault of their own: from now on that is why it is open.
    worsens = is_open and outage and fault != _NONE
    # Bad outcomes cannot improve while nothing may change, so an open breaker waits for calm
    # inputs only. Before it closes, everything has to be calm.
    calm_enough = inputs_calm if is_open else all_calm
    count = memory.calm[e, d] + 1 if calm_enough and not is_closed else 0
    quiet = table.resume if outage else _quiet(trips, table)
    probation = table.resume if outage else table.probation
    # Only time spent closed counts: a breaker that reopens again and again keeps its trips.
    if is_closed and now - memory.since[e, d] >= table.forget:
        trips = 0

    turns = True
    # The first case that applies: opening wins over everything else.
    if opens or worsens:
        phase, cause = _OPEN, fault if worsens else opening
        # An outage of our own is no trip: the frames after it are as good as those before.
        trips += 0 if IS_OUTAGE[cause] else 1
    elif restricts:
        phase, cause = _HALF_OPEN, _REGRESSION if rolls_back else tripped
    elif is_open and count >= quiet:
        phase = _HALF_OPEN
    elif half_open and count >= probation:
        phase, cause = _CLOSED, _NONE
    else:
        turns = False
    memory.phase[e, d], memory.cause[e, d] = phase, cause
    memory.trips[e, d] = min(trips, _MOST_TRIPS)
    memory.calm[e, d] = 0 if turns else count
    if turns:
        memory.since[e, d] = now
        # A new phase starts from zero: a condition has to hold for its whole time again.
        memory.held[e, d] = 0


@kernel
def count_bad_ticks(value: float, threshold: float, calm: bool, held: int) -> int:
    """Count bad ticks; a calm tick resets, one in between subtracts, an unknown one is ignored."""
    if value > threshold:
        return held + 1
    if calm:
        return 0
    return held if np.isnan(value) else max(held - 1, 0)


@kernel
def _quiet(trips: int, table: Table) -> int:
    """Quiet ticks: doubled with each trip, up to the limit."""
    # The first trip waits for the plain period.
    return min(table.quiet * (1 << max(trips, 1)) // 2, table.quiet_most)
