"""Why a breaker trips, and what may be applied while it is not closed."""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from models.control.fallback import Level
from schemas.breaker_changed import Action

GIVING: Final = frozenset({"yield", "resize"})
"""Reasons of decreases that make room for others."""


class Phase(IntEnum):
    """State of a breaker."""

    CLOSED = 0
    OPEN = 1
    HALF_OPEN = 2


class Cause(IntEnum):
    """Why it tripped. The numbers are saved in states: append, never renumber."""

    NONE = 0
    STALE = 1
    MISSING = 2
    MISMATCH = 3
    ERRORS = 4
    BURN = 5
    HELD = 6
    REGRESSION = 7
    OSCILLATION = 8
    DECREASES = 9
    STATE_LOST = 10
    # Of the cluster as a whole.
    DOMAINS = 11
    COST = 12
    SILENCE = 13
    BUDGETS = 14
    # An operator's.
    ORDER = 15
    # Of what decisions are based on: these change no phase, but the level.
    SKILL = 16
    OUTPUT = 17

    @property
    def opens(self) -> bool:
        """Whether it opens a breaker. The other causes let increases pass: they are the cure."""
        return self in _OPENING

    @property
    def own_outage(self) -> bool:
        """Whether events of ours stopped: nothing is wrong with the cluster or its samples."""
        return self in _OUTAGES

    @property
    def label(self) -> str:
        """Its name in events."""
        return self.name.lower().replace("_", "-")


_OPENING: Final = frozenset(
    {
        Cause.STALE, Cause.MISSING, Cause.MISMATCH, Cause.HELD, Cause.STATE_LOST, Cause.COST,
        Cause.ORDER,
    }
)  # fmt: skip
_OUTAGES: Final = frozenset({Cause.STALE, Cause.SILENCE})
_SHORTAGES: Final = frozenset({Cause.ERRORS, Cause.BURN, Cause.OSCILLATION, Cause.DOMAINS})
"""Signs that capacity is short: then making room for the apps that lack most is a cure, too."""


_PASSING: Final = frozenset[Action]({"none", "fallback", "decreases-only"})
"""Actions under which every decrease passes."""


class Permission(NamedTuple):
    """Which changes of a domain may be applied."""

    increases: bool
    giving: bool
    """Decreases of an app that gives way to others, and of pod sizes."""
    savings: bool
    """All other decreases."""


def action_of(phase: Phase, cause: Cause, level: Level = Level.POLICY) -> Action:
    """What a breaker does; the stricter of what its phase and its level ask for."""
    if level == Level.HOLD:
        return "freeze"
    if phase == Phase.CLOSED:
        return "none" if level == Level.POLICY else "fallback"
    if phase == Phase.OPEN:
        return "decreases-only" if cause == Cause.COST else "freeze"
    if cause == Cause.REGRESSION:
        return "rollback"
    return "no-scale-in" if cause in _SHORTAGES else "increases-only"


def permitted(actions: Iterable[Action], priority: int) -> Permission:
    """What may be applied to a domain while its breaker and the cluster's do this."""
    every = set(actions)
    # Money never keeps capacity from P0: an outage of it costs more than the cap protects.
    thrifty = "decreases-only" in every and priority > 0
    return Permission(
        increases="freeze" not in every and not thrifty,
        giving=every <= {*_PASSING, "no-scale-in"},
        savings=every <= _PASSING,
    )


def holds(permission: Permission, steps: Sequence[int], reason: str) -> bool:
    """Whether a change is held as a whole; `steps` are its differences of replicas and sizes."""
    if max(steps) > 0 and not permission.increases:
        return True
    may_shrink = permission.giving if reason in GIVING else permission.savings
    return min(steps) < 0 and not may_shrink
