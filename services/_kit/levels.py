"""The fallback level that Commander and Soldiers decide at, learned from the breakers' events.

A decision of a tick uses the level that was published before that tick, as in the simulator. If a
breaker stops publishing, its last level stays in force. It must not rise, because silence proves
nothing. It need not fall either: without heartbeats the actuator applies nothing, and what a
forecast adds to a node request is bounded. Dropping forecasts at every restart of a breaker would
leave the next flash sale unprepared.
"""

from collections import defaultdict
from collections.abc import Collection
from typing import Final

from models.control.fallback import Level
from schemas.breaker_changed import BreakerChanged
from services._kit.handler import CLUSTER
from services._kit.ticks import POLICY

_KEPT: Final = 8
"""Ticks that are remembered for each scope: those nearest to the last one received."""
_AHEAD_TICKS: Final = 6
"""A breaker further ahead of a decision than this is not believed."""
LEVELS: Final = {level.label: level for level in Level}


class Levels:
    """The last levels of each breaker, by scope and tick."""

    def __init__(self, domains: Collection[str]) -> None:
        self._scopes = frozenset({*domains, CLUSTER})
        self._levels: defaultdict[str, dict[int, Level]] = defaultdict(dict)

    def learn(self, event: BreakerChanged) -> None:
        """Remember the level of an event; of two events of one tick the lower level counts."""
        if event.scope not in self._scopes:  # invented names must not fill the memory
            return
        levels, tick = self._levels[event.scope], event.tick
        # `max`, because a lower level has a higher number.
        levels[tick] = max(levels.get(tick, Level.POLICY), LEVELS[event.level])
        # By distance, so that a forged tick in the far future is dropped first.
        for far in sorted(levels, key=lambda one: abs(one - tick))[_KEPT:]:
            del levels[far]

    def forget(self, scope: str) -> None:
        """Remove the breaker of a scope after a tombstone."""
        self._levels.pop(scope, None)

    def before(self, tick: int, domain: str) -> Level:
        """The lower of the domain's and the cluster's level in force at a tick."""
        return max(self._of(scope, tick) for scope in (domain, CLUSTER))

    def _of(self, scope: str, tick: int) -> Level:
        levels = self._levels.get(scope, {})
        known = sorted(one for one in levels if one <= tick + _AHEAD_TICKS)
        if not known:
            return Level.POLICY
        earlier = [one for one in known if one < tick]
        # After a restart only newer events may be known: then the oldest of them counts.
        return levels[earlier[-1] if earlier else known[0]]


def versions_at(level: Level) -> dict[str, str]:
    """The versions behind a decision: the policy, and the level where it is limited."""
    limited = {} if level == Level.POLICY else {"level": level.label}
    return {"policy": POLICY} | limited
