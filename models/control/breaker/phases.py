"""The state machine of a breaker.

A breaker is closed (changes pass) until a condition has held for long enough. Bad inputs, stale or
missing samples and changes without effect, open it: no plan passes. Bad outcomes, such as errors
and SLO burn, make it half-open: only increases pass, because holding those would make things worse.
An open breaker becomes half-open after its inputs were calm (at most half of their thresholds) for
a quiet period, and closes after a calm probation. Each further trip doubles the quiet period,
except after an outage of our own. E environments, D domains, C conditions.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I8, I32
from models.control.breaker.limits import Mask, Table, Thresholds
from models.control.breaker.orders import Cause, Phase
from models.control.breaker.readings import Readings, share, trusted

_MOST_TRIPS: Final = 16
"""Cap on counted trips; the quiet period reaches its limit long before."""
_OUTAGES: Final = [int(cause) for cause in Cause if cause.own_outage]


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

    short: tuple[int, ...]
    long: tuple[int, ...]

    @property
    def longest(self) -> int:
        """Ticks that have to be remembered."""
        return max(self.long)


def windows_of(limits: tuple[Thresholds, ...]) -> BurnWindows:
    """The windows of some domains."""
    short = tuple(one.burn_short_ticks for one in limits)
    return BurnWindows(short, tuple(one.burn_long_ticks for one in limits))


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
    return np.minimum(*(_means(memory.risk, lengths) for lengths in windows))


def advance(
    tick: I32, readings: Readings, memory: BreakerMemory, table: Table, windows: BurnWindows
) -> BreakerMemory:
    """The state of the domains' breakers after a tick; `tick` is [E]."""
    sure = trusted(readings)
    risk = np.concatenate([memory.risk[..., 1:], sure.risk[..., None]], axis=2)
    memory = memory._replace(risk=risk)
    # In the order of the table's columns.
    values = sure._replace(risk=burn(memory, windows))
    return judge(tick, np.stack(values, axis=2), memory, table)


def judge(tick: I32, values: F64, memory: BreakerMemory, table: Table) -> BreakerMemory:
    """The state after a tick in which the conditions had these values, [E, D, C]."""
    calm = values <= table.threshold * table.calm_part
    held = count_bad_ticks(values, values > table.threshold, calm, memory.held)
    return _change_phase(tick, held, calm, memory, table)


def _change_phase(
    tick: I32, held: I32, calm: Mask, memory: BreakerMemory, table: Table
) -> BreakerMemory:
    """Apply phase transitions. Changes no array in place: memories may share them."""
    phase, now = memory.phase, tick[:, None]
    is_open, half_open = phase == Phase.OPEN, phase == Phase.HALF_OPEN
    tripped = held >= table.patience
    opening = tripped & table.opens
    # argmax finds the first condition that tripped.
    first = table.causes[tripped.argmax(axis=2)]
    opens = opening.any(axis=2) & ~is_open
    harmed = (tripped & (table.causes == Cause.REGRESSION)).any(axis=2)
    # Harm done by a decrease is undone, whatever made the breaker half-open before.
    rolls_back = half_open & harmed & (memory.cause != Cause.REGRESSION)
    restricts = (tripped.any(axis=2) & (phase == Phase.CLOSED) | rolls_back) & ~opens
    outage = np.isin(memory.cause, _OUTAGES)
    # Frames came back, but with a fault of their own: from now on that is why it is open.
    faults = opening & ~np.isin(table.causes, _OUTAGES)
    worsens = is_open & outage & faults.any(axis=2)

    # Bad outcomes cannot improve while nothing may change, so an open breaker waits for calm
    # inputs only. Before it closes, everything has to be calm.
    inputs_calm = (calm | ~table.opens).all(axis=2)
    calm_enough = np.where(is_open, inputs_calm, calm.all(axis=2))
    count = np.where(calm_enough & (phase != Phase.CLOSED), memory.calm + 1, 0)
    quiet = np.where(outage, table.resume, _quiet(memory.trips, table))
    probation = np.where(outage, table.resume, table.probation)
    half_opens = is_open & ~worsens & (count >= quiet)
    closes = half_open & ~opens & (count >= probation)

    cases = [opens | worsens, restricts, half_opens, closes]
    # np.select takes the first case that applies: opening wins over everything else.
    after = np.select(cases, [Phase.OPEN, Phase.HALF_OPEN, Phase.HALF_OPEN, Phase.CLOSED], phase)
    opened_by = table.causes[np.where(worsens[..., None], faults, opening).argmax(axis=2)]
    restricted_by = np.where(rolls_back, Cause.REGRESSION, first)
    cause = np.select(cases, [opened_by, restricted_by, memory.cause, Cause.NONE], memory.cause)
    turns = opens | restricts | half_opens | closes | worsens
    # Only time spent closed counts: a breaker that reopens again and again keeps its trips.
    forgets = (phase == Phase.CLOSED) & (now - memory.since >= table.forget)
    # An outage of our own is no trip: the frames after it are as good as those before.
    counts = (opens | worsens) & ~np.isin(opened_by, _OUTAGES)
    trips = np.where(forgets, 0, memory.trips) + counts
    return memory._replace(
        phase=after.astype(np.int8),
        cause=cause.astype(np.int8),
        since=np.where(turns, now, memory.since).astype(np.int32),
        # A new phase starts from zero: a condition has to hold for its whole time again.
        held=np.where(turns[..., None], 0, held).astype(np.int32),
        calm=np.where(turns, 0, count).astype(np.int32),
        trips=np.minimum(trips, _MOST_TRIPS).astype(np.int32),
    )


def count_bad_ticks(values: F64, bad: Mask, calm: Mask, held: I32) -> I32:
    """Count bad ticks; a calm tick resets, one in between subtracts, an unknown one is ignored."""
    decayed = np.where(np.isnan(values), held, np.maximum(held - 1, 0))
    return np.where(bad, held + 1, np.where(calm, 0, decayed)).astype(np.int32)


def _quiet(trips: I32, table: Table) -> I32:
    """[E, D] quiet ticks: doubled with each trip, up to the limit."""
    # The first trip waits for the plain period. int64, because a long configured period that is
    # doubled 16 times does not fit into int32.
    doubled = table.quiet * 2 ** np.maximum(trips, 1).astype(np.int64) // 2
    quiet: I32 = np.minimum(doubled, table.quiet_most).astype(np.int32)
    return quiet


def _means(risk: F64, lengths: tuple[int, ...]) -> F64:
    """[E, D] mean of each domain's newest readings, ignoring NaN."""
    columns = []
    for domain, length in enumerate(lengths):
        newest = risk[:, domain, -length:]
        valid = ~np.isnan(newest)
        total = np.where(valid, newest, 0.0).sum(axis=1)
        columns.append(share(total, valid.sum(axis=1).astype(np.float64), np.nan))
    return np.stack(columns, axis=1)
