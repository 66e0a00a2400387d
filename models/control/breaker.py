"""The circuit breaker's rules: stop changes when reality disagrees with the plan.

A domain's breaker is closed (changes pass) until a condition has held for long enough. Bad inputs,
stale or missing samples and changes without effect, open it: no plan passes. Bad outcomes, errors
and SLO burn, make it half-open: only increases pass, because holding those would make things worse.
An open breaker becomes half-open after its inputs were calm (at most half of their thresholds) for
a quiet period, and closes after a calm probation. Each further trip doubles the quiet period. E
environments, D domains, A apps.
"""

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F64, I8, I32

Mask = NDArray[np.bool_]


class Phase(IntEnum):
    """State of a domain's breaker."""

    CLOSED = 0
    OPEN = 1
    HALF_OPEN = 2


class Cause(IntEnum):
    """Why it tripped; of several at once the first counts."""

    NONE = 0
    STALE = 1
    MISSING = 2
    MISMATCH = 3
    ERRORS = 4
    BURN = 5


_INPUT_CAUSES: Final = 3
"""Causes up to MISMATCH are bad inputs, those after it bad outcomes."""
_MOST_TRIPS: Final = 16
"""Cap on counted trips; the quiet period reaches its limit long before."""


class Thresholds(NamedTuple):
    """When a breaker trips and how it recovers. A tick is 10 s."""

    stale_ticks: int = 6
    """Ticks without a frame; more than this opens the breaker at once."""
    missing_share: float = 0.5
    """Share of the declared apps that have no valid sample."""
    missing_ticks: int = 6
    """Ticks for which `missing_share` must be exceeded before the breaker opens."""
    mismatch_share: float = 0.3
    """Share of the recently changed apps whose observed replicas are not those applied."""
    mismatch_ticks: int = 6
    """Ticks for which `mismatch_share` must be exceeded before the breaker opens."""
    mismatch_apps: int = 5
    """Fewest recently changed apps to judge by; fewer say more about one app than about us."""
    error_share: float = 0.2
    """Share of the requests that fail."""
    error_ticks: int = 30
    """Ticks for which `error_share` must be exceeded before decreases are held. Longer than pods
    and nodes take to start, so that a flash sale can be answered first."""
    burn_share: float = 0.3
    """Share of the requests that go to apps without SLO headroom, as the mean of both windows."""
    burn_ticks: int = 6
    """Ticks for which `burn_share` must be exceeded before decreases are held."""
    burn_short_ticks: int = 30
    """Short window (5 min): shows that the burn continues."""
    burn_long_ticks: int = 180
    """Long window (30 min): shows that the burn is not a passing surge."""
    calm_part: float = 0.5
    """A reading is calm at or below this part of its threshold; the gap prevents flapping."""
    quiet_ticks: int = 30
    """Ticks in a row with calm inputs before an open breaker becomes half-open; doubles with each
    trip."""
    quiet_most_ticks: int = 360
    """Upper limit of `quiet_ticks` after doubling."""
    probation_ticks: int = 30
    """Calm ticks in a row before a half-open breaker closes."""
    forget_ticks: int = 360
    """Ticks closed after which earlier trips are forgotten."""


class AppSamples(NamedTuple):
    """What is observed about the apps in a tick; NaN where nothing is."""

    domain: I32
    """[E, A] index; -1 where the app is not declared."""
    missing: Mask
    """[E, A] no valid sample arrived."""
    rps: F64
    """[E, A] requests per second."""
    errors: F64
    """[E, A] failing share of them."""
    headroom: F64
    """[E, A] 1 - p99 / target."""
    replicas: I32
    """[E, A] as the API server reports them."""
    accepted: I32
    """[E, A, K] replicas that match what was applied recently, padded with -1. An app that was not
    changed recently has none."""


class Readings(NamedTuple):
    """[E, D] what the rules judge by. NaN, or a value out of range, is unknown."""

    age: F64
    """Ticks without a frame."""
    missing: F64
    """Share of apps."""
    mismatch: F64
    """Share of the recently changed apps."""
    errors: F64
    """Share of requests."""
    risk: F64
    """Share of requests that go to apps without SLO headroom in this tick."""


class BreakerMemory(NamedTuple):
    """What the breaker remembers from tick to tick."""

    phase: I8
    """[E, D] of Phase."""
    cause: I8
    """[E, D] of Cause; kept until the breaker closes."""
    since: I32
    """[E, D] tick at which the phase began."""
    held: I32
    """[E, D, causes] ticks for which each condition has held."""
    calm: I32
    """[E, D] ticks in a row that count towards the next phase."""
    trips: I32
    """[E, D] trips that still count."""
    risk: F64
    """[E, D, burn_long_ticks] readings of `risk`, the newest last."""


def start(tick: int, environments: int, domains: int, limits: Thresholds) -> BreakerMemory:
    """Closed, with no burn on record."""
    shape = environments, domains
    small, none = np.zeros(shape, np.int8), np.zeros(shape, np.int32)
    held = np.zeros((*shape, len(Cause) - 1), np.int32)
    # Zeros, not unknown: means skip NaN, so the first bad minute alone would fill the long window.
    risk = np.zeros((*shape, limits.burn_long_ticks))
    since = none + np.int32(tick)
    return BreakerMemory(small, small, since, held, calm=none, trips=none, risk=risk)


def unknown(environments: int, domains: int) -> Readings:
    """Readings of a tick without any data."""
    return Readings(*np.full((len(Readings._fields), environments, domains), np.nan))


def read(samples: AppSamples, age: F64, limits: Thresholds) -> Readings:
    """Sum up the samples of a tick; `age` is [E, D] ticks without a frame."""
    member = samples.domain[..., None] == np.arange(age.shape[1])
    valid = ~samples.missing & np.isfinite(samples.headroom) & np.isfinite(samples.rps)
    valid &= (samples.rps >= 0) & (samples.errors >= 0) & (samples.errors <= 1)
    # Comparisons with NaN are false, so an app whose error share is NaN is missing, too.
    requests = np.where(valid, samples.rps, 0.0)
    failing = requests * np.where(valid, samples.errors, 0.0)
    risky = np.where(samples.headroom < 0, requests, 0.0)

    measured, total = _sums(valid, member), _sums(requests, member)
    # Measured apps without requests have no failing requests; without a measured app it is unknown.
    without_requests = np.where(measured > 0, 0.0, np.nan)
    # Don't judge an app without a sample: its reported replicas may be as old as its last sample.
    judged = valid & (samples.accepted >= 0).any(axis=2)
    wrong = judged & (samples.accepted != samples.replicas[..., None]).all(axis=2)
    mismatched, changed = _sums(wrong, member), _sums(judged, member)
    return Readings(
        age=age,
        missing=1 - _share(measured, _sums(np.ones_like(valid), member), np.nan),
        mismatch=np.where(changed < limits.mismatch_apps, 0.0, _share(mismatched, changed, 0.0)),
        errors=_share(_sums(failing, member), total, without_requests),
        risk=_share(_sums(risky, member), total, without_requests),
    )


def burn(memory: BreakerMemory, limits: Thresholds) -> F64:
    """[E, D] the smaller of both windows' means: high only if it burned for long and still does."""
    return np.minimum(_mean(memory.risk[..., -limits.burn_short_ticks :]), _mean(memory.risk))


def advance(
    tick: I32, readings: Readings, memory: BreakerMemory, limits: Thresholds
) -> BreakerMemory:
    """The state after a tick; `tick` is [E]."""
    trusted = _trusted(readings)
    risk = np.concatenate([memory.risk[..., 1:], trusted.risk[..., None]], axis=2)
    memory = memory._replace(risk=risk)
    # Columns in the order of Cause, without NONE.
    values = np.stack([*trusted[:4], burn(memory, limits)], axis=2)
    thresholds = np.array([
        limits.stale_ticks, limits.missing_share, limits.mismatch_share, limits.error_share,
        limits.burn_share,
    ])  # fmt: skip
    calm = values <= thresholds * limits.calm_part
    held = _count_bad_ticks(values, values > thresholds, calm, memory.held)
    return _change_phase(tick, held, calm, memory, limits)


def _change_phase(
    tick: I32, held: I32, calm: Mask, memory: BreakerMemory, limits: Thresholds
) -> BreakerMemory:
    """Apply phase transitions. Changes no array in place: memories may share them."""
    phase, now = memory.phase, tick[:, None]
    is_open, half_open = phase == Phase.OPEN, phase == Phase.HALF_OPEN
    tripped = held >= _patience(limits)
    opens = tripped[..., :_INPUT_CAUSES].any(axis=2) & ~is_open
    restricts = tripped.any(axis=2) & (phase == Phase.CLOSED) & ~opens
    # Bad outcomes cannot improve while nothing may change, so an open breaker waits for calm
    # inputs only. Before it closes, everything has to be calm.
    calm_enough = np.where(is_open, calm[..., :_INPUT_CAUSES].all(axis=2), calm.all(axis=2))
    count = np.where(calm_enough & (phase != Phase.CLOSED), memory.calm + 1, 0)
    half_opens = is_open & (count >= _quiet(memory.trips, limits))
    closes = half_open & ~opens & (count >= limits.probation_ticks)

    cases = [opens, restricts, half_opens, closes]
    # np.select takes the first case that applies: opening wins over everything else.
    after = np.select(cases, [Phase.OPEN, Phase.HALF_OPEN, Phase.HALF_OPEN, Phase.CLOSED], phase)
    # argmax finds the first condition that tripped; Cause.NONE has no column, hence + 1.
    tripped_by = tripped.argmax(axis=2) + 1
    cause = np.select(cases, [tripped_by, tripped_by, memory.cause, Cause.NONE], memory.cause)
    turns = opens | restricts | half_opens | closes
    # Only time spent closed counts: a breaker that reopens again and again keeps its trips.
    forgets = (phase == Phase.CLOSED) & (now - memory.since >= limits.forget_ticks)
    trips = np.where(forgets, 0, memory.trips) + opens
    return memory._replace(
        phase=after.astype(np.int8),
        cause=cause.astype(np.int8),
        since=np.where(turns, now, memory.since).astype(np.int32),
        # A new phase starts from zero: a condition has to hold for its whole time again.
        held=np.where(turns[..., None], 0, held).astype(np.int32),
        calm=np.where(turns, 0, count).astype(np.int32),
        trips=np.minimum(trips, _MOST_TRIPS).astype(np.int32),
    )


def _trusted(readings: Readings) -> Readings:
    """Doubt resolves to the worse: an unknown reading counts as all apps missing."""
    age, *shares = (np.where(values >= 0, values, np.nan) for values in readings)
    shares = [np.where(values <= 1, values, np.nan) for values in shares]
    unknown_share = np.isnan(shares).any(axis=0)
    missing = np.where(unknown_share, 1.0, shares[0])
    # An age that makes no sense counts as stale, not as fresh (invariant 4).
    return Readings(np.where(np.isnan(age), np.inf, age), missing, *shares[1:])


def _count_bad_ticks(values: F64, bad: Mask, calm: Mask, held: I32) -> I32:
    """Count bad ticks; a calm tick resets, one in between subtracts, an unknown one is ignored."""
    decayed = np.where(np.isnan(values), held, np.maximum(held - 1, 0))
    return np.where(bad, held + 1, np.where(calm, 0, decayed)).astype(np.int32)


def _patience(limits: Thresholds) -> I32:
    """[causes] ticks for which each condition has to hold."""
    # An age is a number of ticks already, so the first stale reading trips.
    ticks = [1, limits.missing_ticks, limits.mismatch_ticks, limits.error_ticks, limits.burn_ticks]
    return np.array(ticks, np.int32)


def _quiet(trips: I32, limits: Thresholds) -> I32:
    """[E, D] quiet ticks: doubled with each trip, up to the limit."""
    # The first trip waits for the plain period. int64, because a long configured period that is
    # doubled 16 times does not fit into int32.
    doubled = limits.quiet_ticks * 2 ** np.maximum(trips, 1).astype(np.int64) // 2
    quiet: I32 = np.minimum(doubled, limits.quiet_most_ticks).astype(np.int32)
    return quiet


def _sums(values: NDArray[np.generic], member: Mask) -> F64:
    """[E, D] sums of [E, A] by domain."""
    # As floats: einsum of booleans is a logical or, not a count.
    total: F64 = np.einsum("ea,ead->ed", values.astype(np.float64), member.astype(np.float64))
    return total


def _share(part: F64, whole: F64, otherwise: F64 | float) -> F64:
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), otherwise)


def _mean(values: F64) -> F64:
    """Mean over the last axis, ignoring NaN."""
    valid = ~np.isnan(values)
    return _share(np.where(valid, values, 0.0).sum(axis=2), valid.sum(axis=2), np.nan)
