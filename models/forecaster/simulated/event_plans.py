"""Planned events of a simulated month: what is announced, and what happens.

Both follow from the plan: the announcement from the plan alone, the event from the plan and its
outcome. Neither follows from the other, so the calendar does not reveal what happens.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

from models.cluster.calendar import DAY_MINUTES
from models.forecaster.series import ALWAYS, Announced
from models.forecaster.simulated.event_kinds import KINDS, Kind, Part, Range
from models.sim.config.events import Event, Regime, Target, Traffic

# No statistics of real calendars are behind these numbers: how often events come early, late or not
# at all, and how wrong announcements are, was chosen by hand.
QUIET_DAYS: Final = 0.64
"""Share of days without a planned event."""
MOST_A_DAY: Final = 3
"""Largest number of events that begin on one day, all of different kinds."""
EARLY, LATE, CANCELLED, SILENT = 0.1, 0.1, 0.1, 0.15
"""Shares of plannable events; the rest are announced and on time."""
SHIFT_MIN: Final = (5.0, 30.0)
"""Minutes by which an event is early or late."""
MISJUDGED: Final = 0.3
"""Share of announcements with a wrong factor."""
MISJUDGED_BY: Final = (0.6, 1.6)
"""Smallest and largest factor on the announced change of those, drawn on a logarithmic scale."""
SHORT_NOTICE: Final = 0.3
"""Share of announcements that are made only hours before the event."""
NOTICE_HOURS: Final = (1.0, 12.0)

_CLOCK_MIN: Final = 15
"""Planned starts are on the quarter of an hour."""
_LENGTH_MIN: Final = 5
"""Announced lengths are multiples of this: people announce round numbers."""
_JITTER_MIN: Final = 1.0
_FACTOR_JITTER: Final = 0.15
_LEAST_FACTOR: Final = 0.1
_LOW_LASTS: Final = 1.25
"""Time that a swing stays low over the time it stays high."""


class EventOutcome(StrEnum):
    """What happens to a planned event and its announcement."""

    ON_TIME = "on-time"
    EARLY = "early"
    LATE = "late"
    CANCELLED = "cancelled"
    """Announced, but does not happen."""
    SILENT = "silent"
    """Happens without having been announced."""


_SHARES: Final = {
    EventOutcome.EARLY: EARLY,
    EventOutcome.LATE: LATE,
    EventOutcome.CANCELLED: CANCELLED,
    EventOutcome.SILENT: SILENT,
    EventOutcome.ON_TIME: 1 - EARLY - LATE - CANCELLED - SILENT,
}


class Planned(NamedTuple):
    """An event as planned, with everything that was drawn for it."""

    kind: str
    name: str
    """Unique within a seed."""
    variant: int
    start_min: int
    """Minute on the series' axis."""
    factor: float
    hold_min: float
    decay_min: float
    slowness: float
    """0 for the kind's shortest ramps, 1 for the longest."""
    outcome: EventOutcome
    shift_min: float
    """Minutes by which it is early or late, if it is."""
    announced_factor: float
    """Factor of the announcement, whether or not there is one."""
    announced_from_min: int
    """Minute in which the announcement is made."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """Affected apps."""
        return KINDS[self.kind].variants[self.variant]

    @property
    def announced(self) -> bool:
        """Whether it is in the calendar."""
        return self.outcome is not EventOutcome.SILENT

    @property
    def happens(self) -> bool:
        """Whether it happens."""
        return self.outcome is not EventOutcome.CANCELLED


def plans(seed: int, days: int, without: frozenset[str] = frozenset()) -> tuple[Planned, ...]:
    """All plans for a number of days, by day; kinds in `without` are left out.

    Each day has its own random stream: more days or fewer kinds don't change the other events.
    """
    # Left out after drawing, so that the other events stay the same.
    drawn = (plan for day in range(days) for plan in _day(seed, day))
    within = days * DAY_MINUTES
    return tuple(plan for plan in drawn if plan.kind not in without and plan.start_min < within)


def calendar_of(planned: Sequence[Planned], domain: str) -> tuple[Announced, ...]:
    """Announcements for a domain, by start; they contain nothing of what happens."""
    entries = [
        Announced(
            start_min=plan.start_min,
            end_min=plan.start_min + _announced_length(plan),
            factor=plan.announced_factor,
            kind=plan.kind,
            announced_from_min=plan.announced_from_min,
        )
        for plan in planned
        if plan.announced and any(domain in part.domains for part in plan.parts)
    ]
    return tuple(sorted(entries))


def events_of(planned: Sequence[Planned], days: int) -> tuple[Event, ...]:
    """The events that happen, as the simulator's configuration."""
    last = days * DAY_MINUTES - 1
    return tuple(event for plan in planned if plan.happens for event in _events(plan, last))


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
    # Everything is drawn for every event, used or not: an outcome must not change later draws.
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
        announced_factor=_announced_factor(rng, factor),
        announced_from_min=_announced_from(rng, start),
    )


def _start(rng: np.random.Generator, kind: Kind, day: int) -> int:
    first, last = kind.hours
    of_day = int(rng.uniform(first, last) * 60)
    if kind.plannable:
        of_day -= of_day % _CLOCK_MIN
    return day * DAY_MINUTES + of_day


def _outcome(rng: np.random.Generator, kind: Kind) -> EventOutcome:
    # Drawn before the check, for the same reason.
    index = rng.choice(len(_SHARES), p=list(_SHARES.values()))
    return list(_SHARES)[index] if kind.plannable else EventOutcome.SILENT


def _announced_factor(rng: np.random.Generator, factor: float) -> float:
    off = float(np.exp(rng.uniform(*np.log(MISJUDGED_BY))))
    judged = off if rng.random() < MISJUDGED else 1.0
    # People announce rounded factors.
    return max(_LEAST_FACTOR, round(1 + (factor - 1) * judged, 1))


def _announced_from(rng: np.random.Generator, start: int) -> int:
    notice = rng.uniform(*NOTICE_HOURS) * 60
    return start - int(notice) if rng.random() < SHORT_NOTICE else ALWAYS


def _announced_length(plan: Planned) -> int:
    """The approximate duration, in round numbers."""
    return max(1, round((plan.hold_min + plan.decay_min / 2) / _LENGTH_MIN)) * _LENGTH_MIN


def _events(plan: Planned, last: int) -> Iterator[Event]:
    """One event per part; parts that follow begin when the first part's hold ends."""
    make = _swings if KINDS[plan.kind].swings else _wave
    # The simulator accepts no event outside of the scenario.
    start = min(max(0.0, plan.start_min + _shift(plan)), last)
    over = start + _within(plan.parts[0].ramp_min, plan.slowness) + plan.hold_min
    for index, part in enumerate(plan.parts):
        # Delayed traffic arrives after an outage, so this part starts late.
        begin = min(over, last) if part.follows else start
        yield make(plan, part, f"{plan.name}-{index}", begin)


def _shift(plan: Planned) -> float:
    signs = {EventOutcome.EARLY: -1, EventOutcome.LATE: 1}
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


def _within(bounds: Range, share: float) -> float:
    return bounds[0] + share * (bounds[1] - bounds[0])
