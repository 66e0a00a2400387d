"""The safety circuit breaker's rules: it stops all changes when reality disagrees.

A domain is closed (changes pass) until a condition has held for long enough. Where we do not see
or do not act it is then open: nothing passes. Where it goes badly it is half-open: only increases
pass, because to hold those would make bad worse. When its inputs have been sound for a quiet
period, an open one is tried half-open, too. After a calm probation it closes; if it opens again,
it is for longer. E environments, D domains, A apps.
"""

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F64, I8, I32

Mask = NDArray[np.bool_]


class Phase(IntEnum):
    """What a breaker is."""

    CLOSED = 0
    OPEN = 1
    HALF_OPEN = 2


class Cause(IntEnum):
    """Why it opened; of several at once the first counts."""

    NONE = 0
    STALE = 1
    MISSING = 2
    MISMATCH = 3
    ERRORS = 4
    BURN = 5


_INPUTS: Final = 3
"""Causes up to MISMATCH say that we do not see or do not act; those after it that it goes badly."""
_MOST_TRIPS: Final = 16
"""More are not counted: long before, the quiet period is as long as it gets."""


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
    """Short window (5 min): shows that the burn goes on."""
    burn_long_ticks: int = 180
    """Long window (30 min): shows that the burn is not a passing surge."""
    calm_part: float = 0.5
    """A reading is calm at or below this part of its threshold; the gap prevents flapping."""
    quiet_ticks: int = 30
    """Sound ticks in a row before an open breaker becomes half-open; doubles with each trip."""
    quiet_most_ticks: int = 360
    """Upper limit of `quiet_ticks` after doubling."""
    probation_ticks: int = 30
    """Calm ticks in a row before a half-open breaker closes."""
    forget_ticks: int = 360
    """Ticks closed after which earlier trips are forgotten."""


class AppSamples(NamedTuple):
    """What is seen of the apps in a tick; NaN where nothing is."""

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
    """[E, A] as the API server answers."""
    accepted: I32
    """[E, A, K] replicas that it may answer after what was applied; -1 fills up. An app without
    any was not changed lately."""


class Readings(NamedTuple):
    """[E, D] what the rules go by. What is no number, or out of range, is not known."""

    age: F64
    """Ticks without a frame."""
    missing: F64
    """Share of apps."""
    mismatch: F64
    """Share of the apps changed lately."""
    errors: F64
    """Share of requests."""
    risk: F64
    """Share of requests that go to apps without SLO headroom in this tick."""


class Memory(NamedTuple):
    """What is remembered from tick to tick."""

    phase: I8
    """[E, D] of Phase."""
    cause: I8
    """[E, D] of Cause; kept until it closes."""
    since: I32
    """[E, D] tick at which the phase began."""
    held: I32
    """[E, D, causes] ticks for which each condition has held."""
    calm: I32
    """[E, D] ticks in a row that count towards the next phase."""
    trips: I32
    """[E, D] that are not forgotten."""
    risk: F64
    """[E, D, burn_long_ticks] the newest last."""


def start(tick: int, environments: int, domains: int, limits: Thresholds) -> Memory:
    """Closed; nothing burned before it began."""
    shape = environments, domains
    small, none = np.zeros(shape, np.int8), np.zeros(shape, np.int32)
    held = np.zeros((*shape, len(Cause) - 1), np.int32)
    risk = np.zeros((*shape, limits.burn_long_ticks))
    return Memory(small, small, none + np.int32(tick), held, calm=none, trips=none, risk=risk)


def unknown(environments: int, domains: int) -> Readings:
    """Readings of a tick of which nothing is known."""
    return Readings(*np.full((len(Readings._fields), environments, domains), np.nan))


def read(sight: AppSamples, age: F64, limits: Thresholds) -> Readings:
    """Sum up what is seen; `age` is [E, D]."""
    member = sight.domain[..., None] == np.arange(age.shape[1])
    heard = ~sight.missing & np.isfinite(sight.headroom) & np.isfinite(sight.rps)
    heard &= (sight.rps >= 0) & (sight.errors >= 0) & (sight.errors <= 1)
    requests = np.where(heard, sight.rps, 0.0)
    failing = requests * np.where(heard, sight.errors, 0.0)
    risky = np.where(sight.headroom < 0, requests, 0.0)

    some, whole = _sums(heard, member), _sums(requests, member)
    # Measured apps without requests have no failing ones; without a measured app nobody knows.
    without_requests = np.where(some > 0, 0.0, np.nan)
    # An app that is missing is not judged: what the API server said of it may be as old.
    judged = heard & (sight.accepted >= 0).any(axis=2)
    wrong = judged & (sight.accepted != sight.replicas[..., None]).all(axis=2)
    amiss, changed = _sums(wrong, member), _sums(judged, member)
    return Readings(
        age=age,
        missing=1 - _share(some, _sums(np.ones_like(heard), member), np.nan),
        mismatch=np.where(changed < limits.mismatch_apps, 0.0, _share(amiss, changed, 0.0)),
        errors=_share(_sums(failing, member), whole, without_requests),
        risk=_share(_sums(risky, member), whole, without_requests),
    )


def burn(memory: Memory, limits: Thresholds) -> F64:
    """[E, D] the smaller of both windows' means: it burned for long, and it still does."""
    return np.minimum(_mean(memory.risk[..., -limits.burn_short_ticks :]), _mean(memory.risk))


def advance(tick: I32, readings: Readings, memory: Memory, limits: Thresholds) -> Memory:
    """One tick, `tick` is [E]."""
    known = _believed(readings)
    risk = np.concatenate([memory.risk[..., 1:], known.risk[..., None]], axis=2)
    memory = memory._replace(risk=risk)
    values = np.stack([*known[:4], burn(memory, limits)], axis=2)
    bars = np.array([
        limits.stale_ticks, limits.missing_share, limits.mismatch_share, limits.error_share,
        limits.burn_share,
    ])  # fmt: skip
    calm = values <= bars * limits.calm_part
    return _turn(tick, _hold(values, values > bars, calm, memory.held), calm, memory, limits)


def _turn(tick: I32, held: I32, calm: Mask, memory: Memory, limits: Thresholds) -> Memory:
    """From phase to phase. No array is changed in place: memories may share them."""
    phase, now = memory.phase, tick[:, None]
    is_open, on_trial = phase == Phase.OPEN, phase == Phase.HALF_OPEN
    tripped = held >= _patience(limits)
    opens = tripped[..., :_INPUTS].any(axis=2) & ~is_open
    narrows = tripped.any(axis=2) & (phase == Phase.CLOSED) & ~opens
    # What goes badly cannot get better while nothing may change, so only the inputs have to be
    # sound before a trial; before it closes all is to be calm.
    sound = np.where(is_open, calm[..., :_INPUTS].all(axis=2), calm.all(axis=2))
    count = np.where(sound & (phase != Phase.CLOSED), memory.calm + 1, 0)
    tries = is_open & (count >= _quiet(memory.trips, limits))
    closes = on_trial & ~opens & (count >= limits.probation_ticks)

    cases = [opens, narrows, tries, closes]
    after = np.select(cases, [Phase.OPEN, Phase.HALF_OPEN, Phase.HALF_OPEN, Phase.CLOSED], phase)
    why = tripped.argmax(axis=2) + 1
    cause = np.select(cases, [why, why, memory.cause, Cause.NONE], memory.cause)
    turns = opens | narrows | tries | closes
    forgets = (phase == Phase.CLOSED) & (now - memory.since >= limits.forget_ticks)
    trips = np.where(forgets, 0, memory.trips) + opens
    return memory._replace(
        phase=after.astype(np.int8),
        cause=cause.astype(np.int8),
        since=np.where(turns, now, memory.since).astype(np.int32),
        held=np.where(turns[..., None], 0, held).astype(np.int32),
        calm=np.where(turns, 0, count).astype(np.int32),
        trips=np.minimum(trips, _MOST_TRIPS).astype(np.int32),
    )


def _believed(readings: Readings) -> Readings:
    """Doubt resolves to the worse: a tick with an unknown reading is one with all apps missing."""
    age, *shares = (np.where(values >= 0, values, np.nan) for values in readings)
    shares = [np.where(values <= 1, values, np.nan) for values in shares]
    lost = np.isnan(shares).any(axis=0)
    missing = np.where(lost, 1.0, shares[0])
    return Readings(np.where(np.isnan(age), np.inf, age), missing, *shares[1:])


def _hold(values: F64, bad: Mask, calm: Mask, held: I32) -> I32:
    """Bad ticks add up, a calm one ends it; in between it wears off, and the unknown leaves it."""
    wears = np.where(np.isnan(values), held, np.maximum(held - 1, 0))
    return np.where(bad, held + 1, np.where(calm, 0, wears)).astype(np.int32)


def _patience(limits: Thresholds) -> I32:
    """[causes] ticks for which a condition has to hold."""
    ticks = [1, limits.missing_ticks, limits.mismatch_ticks, limits.error_ticks, limits.burn_ticks]
    return np.array(ticks, np.int32)


def _quiet(trips: I32, limits: Thresholds) -> I32:
    """[E, D] twice as long with each trip, up to the longest."""
    doubled = limits.quiet_ticks * 2 ** np.maximum(trips, 1).astype(np.int64) // 2
    quiet: I32 = np.minimum(doubled, limits.quiet_most_ticks).astype(np.int32)
    return quiet


def _sums(values: NDArray[np.generic], member: Mask) -> F64:
    """[E, D] of [E, A]."""
    total: F64 = np.einsum("ea,ead->ed", values.astype(np.float64), member.astype(np.float64))
    return total


def _share(part: F64, whole: F64, otherwise: F64 | float) -> F64:
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), otherwise)


def _mean(values: F64) -> F64:
    """Over the last axis, of what is known."""
    known = ~np.isnan(values)
    return _share(np.where(known, values, 0.0).sum(axis=2), known.sum(axis=2), np.nan)
