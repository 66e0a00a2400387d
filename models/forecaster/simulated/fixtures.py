"""Synthetic traffic around fixtures: events whose time is announced, but not their size.

Kick-offs, broadcasts and product drops have a known hour; their effect can only be inferred from
earlier ones. Recorded traffic has so few of them that a network memorises them. Here are many, no
two series alike, so that it learns to read earlier events and the beginning of the current one.
"""

from typing import Final

import numpy as np

from models.cluster.arrays import F64
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.series import Announced, Series
from models.forecaster.simulated.months import FIRST_MONDAY

DAYS: Final = 32
"""Long enough for the eight days that inputs look back on, and for weeks of events after them."""
_BEFORE_MIN, _AFTER_MIN = 180, 360
"""Minutes around a start in which an event has an effect."""
_BUMPS: Final = (3, 7)
"""Bounds of the number of bumps in an event's effect; the upper one is exclusive."""
_CLOCK_MIN: Final = 30


# The ranges below are invented, not fitted to any traffic. They are wide, so that no two series are
# alike: a network could memorise a few (decision 0012).


def fixtures(seeds: range) -> list[Series]:
    """A series per seed."""
    return [_fixture(seed) for seed in seeds]


def _fixture(seed: int) -> Series:
    rng = np.random.default_rng(seed)
    minutes = DAYS * DAY_MINUTES
    log_rate = _days(rng, minutes) + _noise(rng, minutes)
    starts, length = _starts(rng), 15 * int(rng.integers(2, 10))
    kinds = [_course(rng, length) for _ in range(int(rng.integers(1, 4)))]
    strength, spread = rng.uniform(0.3, 1.6), rng.uniform(0.1, 0.5)
    calendar = []
    for start in starts:
        kind = int(rng.integers(len(kinds)))
        size = strength * np.exp(spread * rng.normal())
        # A few minutes off the announced start, as real events are.
        _add_effect(log_rate, kinds[kind] * size, start + round(rng.normal(0.0, 3.0)))
        # Factor 1: the time is announced, the size is not.
        calendar.append(Announced(start, start + length, 1.0, f"kind-{kind}"))
    mean = np.exp(rng.uniform(np.log(30.0), np.log(30_000.0)))
    rate = mean * np.exp(log_rate - log_rate.mean())
    # Poisson draws refuse very large rates, which the exponential may give.
    rps = rng.poisson(np.minimum(rate, 1e9)).astype(np.float64)
    return Series(f"fixtures-{seed}", FIRST_MONDAY, 1, rps, tuple(calendar))


def _days(rng: np.random.Generator, minutes: int) -> F64:
    """Log rate over days and weeks, with growing or fading interest."""
    angle = 2 * np.pi * np.arange(minutes) / DAY_MINUTES
    course = np.zeros(minutes)
    for wave, most in ((1, 0.9), (2, 0.4), (3, 0.2)):
        course += rng.uniform(0.0, most) * np.sin(wave * angle + rng.uniform(0.0, 2 * np.pi))
    weekend = (np.arange(minutes) // DAY_MINUTES % 7 >= 5) * rng.normal(0.0, 0.3)
    interest = np.interp(
        np.arange(minutes),
        np.linspace(0, minutes, DAYS),
        np.cumsum(rng.normal(rng.normal(0.0, 0.05), 0.12, DAYS)),
    )
    return course + weekend + interest


def _noise(rng: np.random.Generator, minutes: int) -> F64:
    """Noise that lasts for 90 minutes, ten minutes and one minute."""
    noise = rng.uniform(0.01, 0.08) * rng.normal(size=minutes)
    for lasts, most in ((10.0, 0.06), (90.0, 0.15)):
        decay = np.exp(-1.0 / lasts)
        # Scaled so that the variance does not depend on how long the noise lasts.
        steps = rng.normal(0.0, rng.uniform(0.01, most) * np.sqrt(1 - decay**2), minutes)
        for minute in range(1, minutes):
            steps[minute] += decay * steps[minute - 1]
        noise += steps
    return noise


def _starts(rng: np.random.Generator) -> list[int]:
    """One to four slots of the day, on some days from a first one on; sometimes moved by hours."""
    slots = rng.choice(DAY_MINUTES // _CLOCK_MIN, int(rng.integers(1, 5)), replace=False)
    first, chance = int(rng.integers(1, DAYS // 2)), rng.uniform(0.3, 1.0)
    starts = []
    for day in range(first, DAYS):
        for slot in slots:
            if rng.random() < chance:
                moved = int(rng.integers(-4, 5)) if rng.random() < 0.2 else 0
                starts.append(day * DAY_MINUTES + (int(slot) + moved) * _CLOCK_MIN)
    # The effect of the last event ends within the series.
    return sorted({start for start in starts if 0 <= start < DAYS * DAY_MINUTES - DAY_MINUTES // 4})


def _course(rng: np.random.Generator, length: int) -> F64:
    """[minutes around a start] effect of a kind of event: rises, bumps and falls."""
    minute = np.arange(-_BEFORE_MIN, _AFTER_MIN, dtype=np.float64)
    course = np.zeros(minute.size)
    centres = np.array([0.0, 0.0, length / 2, length, *rng.uniform(-60, length + 60, 4)])
    for _ in range(int(rng.integers(*_BUMPS))):
        at = rng.choice(centres) + rng.normal(0.0, 4.0)
        rise, fall = np.exp(rng.uniform(np.log(1.0), np.log(60.0), 2))
        # Two exponentials that meet at the centre, so that rise and fall differ.
        side = np.where(minute < at, (minute - at) / rise, (at - minute) / fall)
        course += rng.normal(0.4, 0.6) * np.exp(side)
    return course / max(1e-9, float(np.abs(course).max()))


def _add_effect(log_rate: F64, course: F64, start: int) -> None:
    first, end = start - _BEFORE_MIN, start + _AFTER_MIN
    low, high = max(0, first), min(log_rate.size, end)
    if low < high:
        log_rate[low:high] += course[low - first : high - first]
