"""When a breaker trips and how it recovers, by priority of the domain."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I8, I32, Mask
from models.control.breaker.actions import Cause


class Thresholds(NamedTuple):
    """When a breaker of priority P2 trips and how it recovers. A tick is 10 s."""

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
    held_share: float = 0.5
    """Share of the planned changes that the actuator could not make, over five minutes."""
    held_ticks: int = 12
    """Ticks for which `held_share` must be exceeded before the breaker opens."""
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
    regression_share: float = 0.1
    """Share of the requests that go to apps that met their SLO before they were shrunk, and do not
    now, though their traffic grew by less than they shrank."""
    regression_ticks: int = 6
    """Ticks for which `regression_share` must be exceeded before the domain is rolled back."""
    oscillation_share: float = 0.4
    """Share of the apps whose replicas turned back within five minutes."""
    oscillation_ticks: int = 6
    """Ticks for which `oscillation_share` must be exceeded before decreases are held."""
    decrease_share: float = 0.2
    """Share of the cores of running pods that was taken away within a minute: twice what the
    blast radius allows."""
    decrease_ticks: int = 2
    """Ticks for which `decrease_share` must be exceeded before decreases are held."""
    skill_share: float = 0.7
    """Share of the recent forecasts that were clearly worse than the naive one, which lets the
    present continue."""
    skill_ticks: int = 12
    """Ticks for which `skill_share` must be exceeded before the domain does without forecasts."""
    output_share: float = 0.1
    """Share of the usual traffic that traffic moved by while the forecast stayed the same, bit for
    bit. Forecasts without usable numbers exceed any share."""
    output_ticks: int = 12
    """Ticks for which `output_share` must be exceeded before the domain does without forecasts."""
    calm_part: float = 0.5
    """A reading is calm at or below this part of its threshold; the gap prevents flapping."""
    quiet_ticks: int = 30
    """Ticks in a row with calm inputs before an open breaker becomes half-open; doubles with each
    trip."""
    quiet_most_ticks: int = 360
    """Upper limit of `quiet_ticks` after doubling."""
    probation_ticks: int = 30
    """Calm ticks in a row before a half-open breaker closes."""
    resume_ticks: int = 6
    """Replaces `quiet_ticks` and `probation_ticks` after an outage of our own, when frames stopped:
    the frames that arrive again show that it is over."""
    forget_ticks: int = 360
    """Ticks closed after which earlier trips are forgotten."""


class Grade(NamedTuple):
    """Factors on the thresholds of a priority."""

    share: float
    """On every share."""
    ticks: float
    """On the times that conditions have to last, and on the windows of burn."""

    @property
    def stale(self) -> float:
        """On the time without frames: halfway, because a restart of ours may take 20 s."""
        return (1 + self.ticks) / 2


GRADES: Final = (Grade(0.8, 0.5), Grade(0.9, 0.75), Grade(1.0, 1.0), Grade(1.2, 1.5))
"""P0 to P3: the more a domain matters, the sooner its breaker trips."""
_SHARES: Final = tuple(name for name in Thresholds._fields if name.endswith("_share"))
_TIMES: Final = (
    "missing_ticks", "mismatch_ticks", "held_ticks", "error_ticks", "burn_ticks",
    "burn_short_ticks", "burn_long_ticks", "regression_ticks", "oscillation_ticks",
    "decrease_ticks", "skill_ticks", "output_ticks",
)  # fmt: skip
_FEWEST_TICKS: Final = 2
"""One bad tick never trips a breaker, whatever the priority."""


def graded(limits: Thresholds, priority: int) -> Thresholds:
    """The thresholds of a domain of this priority."""
    grade = GRADES[priority]
    changed: dict[str, Any] = {
        name: min(0.95, getattr(limits, name) * grade.share) for name in _SHARES
    }
    for name in _TIMES:
        changed[name] = max(_FEWEST_TICKS, int(getattr(limits, name) * grade.ticks))
    return limits._replace(stale_ticks=int(limits.stale_ticks * grade.stale), **changed)


class Table(NamedTuple):
    """The limits of D breakers on C conditions, as arrays."""

    causes: I8
    """[C] what each condition is."""
    threshold: F64
    """[D, C]."""
    patience: I32
    """[D, C] ticks for which each condition has to hold."""
    opens: Mask
    """[C] whether it opens the breaker; the others make it half-open."""
    calm_part: float
    quiet: int
    quiet_most: int
    probation: int
    resume: int
    forget: int


def table_of(limits: Sequence[Thresholds]) -> Table:
    """The table of some domains; what is not graded is the same in all of them."""
    thresholds = [
        [x.stale_ticks, x.missing_share, x.mismatch_share, x.held_share, x.error_share,
         x.burn_share, x.regression_share, x.oscillation_share, x.decrease_share]
        for x in limits
    ]  # fmt: skip
    # An age is a number of ticks already, so the first stale reading trips.
    patience = [
        [1, x.missing_ticks, x.mismatch_ticks, x.held_ticks, x.error_ticks, x.burn_ticks,
         x.regression_ticks, x.oscillation_ticks, x.decrease_ticks]
        for x in limits
    ]  # fmt: skip
    causes = (
        Cause.STALE, Cause.MISSING, Cause.MISMATCH, Cause.HELD, Cause.ERRORS, Cause.BURN,
        Cause.REGRESSION, Cause.OSCILLATION, Cause.DECREASES,
    )  # fmt: skip
    return compile_table(causes, thresholds, patience, limits[0])


def fallback_table(limits: Sequence[Thresholds]) -> Table:
    """The conditions on which some domains fall back."""
    return compile_table(
        (Cause.SKILL, Cause.OUTPUT),
        [[x.skill_share, x.output_share] for x in limits],
        [[x.skill_ticks, x.output_ticks] for x in limits],
        limits[0],
    )


def compile_table(
    causes: Sequence[Cause],
    thresholds: Sequence[Sequence[float]],
    patience: Sequence[Sequence[int]],
    recovery: Thresholds,
) -> Table:
    """A table of any conditions, with the recovery times of `recovery`."""
    return Table(
        causes=np.array(causes, np.int8),
        threshold=np.array(thresholds, np.float64),
        patience=np.array(patience, np.int32),
        opens=np.array([cause.opens for cause in causes]),
        calm_part=recovery.calm_part,
        quiet=recovery.quiet_ticks,
        quiet_most=recovery.quiet_most_ticks,
        probation=recovery.probation_ticks,
        resume=recovery.resume_ticks,
        forget=recovery.forget_ticks,
    )
