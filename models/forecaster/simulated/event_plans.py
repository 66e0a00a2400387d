"""What is planned in a simulated month, what was announced of it, and what came of it.

A plan is drawn with both: the announcement is made from the plan, what happens is made from the
plan and its outcome. Neither is made from the other, so no calendar tells what happens.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

from models.cluster.calendar import DAY_MINUTES
from models.forecaster.series import ALWAYS, Announced
from models.forecaster.simulated.event_kinds import KINDS, Kind, Part, Range
from models.sim.config.events import Event, Regime, Target, Traffic

QUIET_DAYS: Final = 0.64
"""Share of the days for which nothing is planned."""
MOST_A_DAY: Final = 3
"""Events that begin on a day that is not quiet, at most; of different kinds."""
EARLY, LATE, CANCELLED, SILENT = 0.1, 0.1, 0.1, 0.15
"""Shares of the plannable events; the rest are announced and on time."""
SHIFT_MIN: Final = (5.0, 30.0)
"""How much too early or late an event comes that does not come on time."""
MISJUDGED: Final = 0.3
"""Share of the announcements whose change of traffic is off."""
MISJUDGED_BY: Final = (0.6, 1.6)
SHORT_NOTICE: Final = 0.3
"""Share of the announcements that are made only some hours before."""
NOTICE_HOURS: Final = (1.0, 12.0)

_CLOCK_MIN: Final = 15
"""What is planned is planned for a full quarter of an hour."""
_LENGTH_MIN: Final = 5
_JITTER_MIN: Final = 1.0
_FACTOR_JITTER: Final = 0.15
_LEAST_FACTOR: Final = 0.1
_LOW_LASTS: Final = 1.25
"""Time that a swing stays low over the time that it stays high."""


class Outcome(StrEnum):
    """What became of a plan and its announcement."""

    ON_TIME = "on-time"
    EARLY = "early"
    LATE = "late"
    CANCELLED = "cancelled"
    """Announced, and does not come."""
    SILENT = "silent"
    """Comes without having been announced."""


_SHARES: Final = {
    Outcome.EARLY: EARLY,
    Outcome.LATE: LATE,
    Outcome.CANCELLED: CANCELLED,
    Outcome.SILENT: SILENT,
    Outcome.ON_TIME: 1 - EARLY - LATE - CANCELLED - SILENT,
}


class Planned(NamedTuple):
    """One event as it was meant to be, and what was drawn around it."""

    kind: str
    name: str
    """Distinct within a seed."""
    variant: int
    start_min: int
    """Minute on the series' axis."""
    factor: float
    hold_min: float
    decay_min: float
    slowness: float
    """0 for the kind's shortest ramps, 1 for the longest."""
    outcome: Outcome
    shift_min: float
    """By which it comes early or late, if it does."""
    said_factor: float
    """What an announcement says, whether there is one or not."""
    said_from_min: int
    """When an announcement is made."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """Who is touched."""
        return KINDS[self.kind].variants[self.variant]

    @property
    def announced(self) -> bool:
        """Whether it is in the calendar."""
        return self.outcome is not Outcome.SILENT

    @property
    def comes(self) -> bool:
        """Whether it happens."""
        return self.outcome is not Outcome.CANCELLED


def plans(seed: int, days: int, without: frozenset[str] = frozenset()) -> tuple[Planned, ...]:
    """All that is planned in some days, by day; kinds in `without` are left out.

    A day's draws are its own: more days or fewer kinds leave the other events as they are.
    """
    drawn = (plan for day in range(days) for plan in _day(seed, day))
    within = days * DAY_MINUTES
    return tuple(plan for plan in drawn if plan.kind not in without and plan.start_min < within)


def calendar_of(planned: Sequence[Planned], domain: str) -> tuple[Announced, ...]:
    """What was announced for a domain, by start; nothing of what happens is in it."""
    entries = [
        Announced(
            start_min=plan.start_min,
            end_min=plan.start_min + _said_length(plan),
            factor=plan.said_factor,
            kind=plan.kind,
            announced_from_min=plan.said_from_min,
        )
        for plan in planned
        if plan.announced and any(domain in part.domains for part in plan.parts)
    ]
    return tuple(sorted(entries))


def events_of(planned: Sequence[Planned], days: int) -> tuple[Event, ...]:
    """What happens, as the simulator takes it."""
    last = days * DAY_MINUTES - 1
    return tuple(event for plan in planned if plan.comes for event in _events(plan, last))


def _day(seed: int, day: int) -> Iterator[Planned]:
    rng = np.random.default_rng([seed, day])
    if rng.random() < QUIET_DAYS:
        return
    weights = np.array([kind.weight for kind in KINDS.values()])
    count = int(rng.integers(1, MOST_A_DAY + 1))
    for kind in rng.choice(list(KINDS), count, replace=False, p=weights / weights.sum()):
        yield _plan(rng, str(kind), day)


def _plan(rng: np.random.Generator, name: str, day: int) -> Planned:
    kind = KINDS[name]
    start, factor = _start(rng, kind, day), rng.uniform(*kind.factor)
    return Planned(
        kind=name,
        name=f"{name}-{day}",
        variant=int(rng.integers(len(kind.variants))),
        start_min=start,
        factor=factor,
        hold_min=rng.uniform(*kind.hold_min),
        decay_min=rng.uniform(*kind.decay_min),
        slowness=rng.random(),
        outcome=_outcome(rng, kind),
        shift_min=rng.uniform(*SHIFT_MIN),
        said_factor=_said_factor(rng, factor),
        said_from_min=_said_from(rng, start),
    )


def _start(rng: np.random.Generator, kind: Kind, day: int) -> int:
    first, last = kind.hours
    of_day = int(rng.uniform(first, last) * 60)
    if kind.plannable:
        of_day -= of_day % _CLOCK_MIN
    return day * DAY_MINUTES + of_day


def _outcome(rng: np.random.Generator, kind: Kind) -> Outcome:
    place = rng.choice(len(_SHARES), p=list(_SHARES.values()))
    return list(_SHARES)[place] if kind.plannable else Outcome.SILENT


def _said_factor(rng: np.random.Generator, factor: float) -> float:
    off = float(np.exp(rng.uniform(*np.log(MISJUDGED_BY))))
    judged = off if rng.random() < MISJUDGED else 1.0
    return max(_LEAST_FACTOR, round(1 + (factor - 1) * judged, 1))


def _said_from(rng: np.random.Generator, start: int) -> int:
    notice = rng.uniform(*NOTICE_HOURS) * 60
    return start - int(notice) if rng.random() < SHORT_NOTICE else ALWAYS


def _said_length(plan: Planned) -> int:
    """People announce about how long it lasts, in round numbers."""
    return max(1, round((plan.hold_min + plan.decay_min / 2) / _LENGTH_MIN)) * _LENGTH_MIN


def _events(plan: Planned, last: int) -> Iterator[Event]:
    """One for each part; those that follow begin when the first has been held."""
    make = _swings if KINDS[plan.kind].swings else _wave
    start = min(max(0.0, plan.start_min + _shift(plan)), last)
    over = start + _within(plan.parts[0].ramp_min, plan.slowness) + plan.hold_min
    for place, part in enumerate(plan.parts):
        begin = min(over, last) if part.follows else start
        yield make(plan, part, f"{plan.name}-{place}", begin)


def _shift(plan: Planned) -> float:
    signs = {Outcome.EARLY: -1, Outcome.LATE: 1}
    return signs.get(plan.outcome, 0) * plan.shift_min


def _wave(plan: Planned, part: Part, name: str, begin: float) -> Traffic:
    return Traffic(
        name=name,
        target=_target(part),
        at_minute=begin,
        jitter_minutes=_JITTER_MIN,
        factor=1 + (plan.factor - 1) * part.weight,
        factor_jitter=_FACTOR_JITTER,
        ramp_minutes=_within(part.ramp_min, plan.slowness),
        hold_minutes=plan.hold_min,
        decay_minutes=plan.decay_min,
    )


def _swings(plan: Planned, part: Part, name: str, begin: float) -> Regime:
    return Regime(
        name=name,
        target=_target(part),
        at_minute=begin,
        jitter_minutes=_JITTER_MIN,
        high=plan.factor,
        low=2 - plan.factor,
        factor_jitter=_FACTOR_JITTER,
        high_minutes=plan.hold_min,
        low_minutes=plan.hold_min * _LOW_LASTS,
        ramp_minutes=_within(part.ramp_min, plan.slowness),
        cycles=KINDS[plan.kind].swings,
    )


def _target(part: Part) -> Target:
    return Target(domains=part.domains, tiers=part.tiers, share=part.share)


def _within(bounds: Range, place: float) -> float:
    return bounds[0] + place * (bounds[1] - bounds[0])
