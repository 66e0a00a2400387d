"""What the breakers let decide at most, as Commander and Soldiers learn it from the bus.

A decision of a tick goes by what was said before that tick, as in the simulator. A breaker that
falls silent keeps its last word. It takes back no trust that was lost, because silence proves
nothing. And it takes away none: without heartbeats the actuator applies nothing anyway, and what a
forecast adds to a node request is bounded; to drop it at every restart of ours would leave the next
flash sale unprepared.
"""

from collections import defaultdict
from collections.abc import Collection
from typing import Final

from models.control.fallback import Level
from schemas.breaker_changed import BreakerChanged
from services._kit.handler import CLUSTER
from services._kit.ticks import POLICY

_KEPT: Final = 8
"""Ticks of each scope that are remembered: those nearest to the last one heard."""
_AHEAD_TICKS: Final = 6
"""A breaker further ahead of a decision than this is not believed."""
LEVELS: Final = {level.label: level for level in Level}


class Levels:
    """The newest words of the breakers, by scope."""

    def __init__(self, domains: Collection[str]) -> None:
        self._scopes = frozenset({*domains, CLUSTER})
        self._said: defaultdict[str, dict[int, Level]] = defaultdict(dict)

    def learn(self, event: BreakerChanged) -> None:
        """Remember what a breaker says; of two events of one tick the lower level counts."""
        if event.scope not in self._scopes:  # invented names must not fill the memory
            return
        said, tick = self._said[event.scope], event.tick
        said[tick] = max(said.get(tick, Level.POLICY), LEVELS[event.level])
        # One record from the far future is the first to be forgotten.
        for far in sorted(said, key=lambda one: abs(one - tick))[_KEPT:]:
            del said[far]

    def forget(self, scope: str) -> None:
        """Remove the breaker of a scope after a tombstone."""
        self._said.pop(scope, None)

    def before(self, tick: int, domain: str) -> Level:
        """What decides a tick of a domain at most, by its own breaker and the cluster's."""
        return max(self._of(scope, tick) for scope in (domain, CLUSTER))

    def _of(self, scope: str, tick: int) -> Level:
        said = self._said.get(scope, {})
        known = sorted(one for one in said if one <= tick + _AHEAD_TICKS)
        if not known:
            return Level.POLICY
        earlier = [one for one in known if one < tick]
        # After a restart only newer events may be known: what they say counts, too.
        return said[earlier[-1] if earlier else known[0]]


def versions_at(level: Level) -> dict[str, str]:
    """The versions behind a decision: the policy, and the level where it is limited."""
    limited = {} if level == Level.POLICY else {"level": level.label}
    return {"policy": POLICY} | limited
