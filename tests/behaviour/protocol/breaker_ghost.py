"""What a breaker may say: docs/concepts/breaker.md once more, from what is published alone.

Nothing here comes from the rules in `models`. A ghost follows one breaker: it counts the calm ticks
that the breaker has judged, and knows how many of them each change of state needs.
"""

from math import inf
from typing import NamedTuple

from schemas.breaker_changed import STATES_BY_RESTRICTION, BreakerChanged
from services._kit.handler import CLUSTER
from tests.behaviour.protocol.breaker_events import BAD, FAILING, GOOD, LIMITS


class Ghost(NamedTuple):
    """What a breaker has said last, and what happened since."""

    state: str = "new"
    """As published; `lost` if its state was lost since."""
    tick: int = -1
    outage: bool = False
    """Whether it tripped because our own events stopped."""
    calm: int = 0
    """Calm ticks in a row since the state began."""
    bad: int = 0
    """Bad ticks in a row."""
    failing: int = 0
    """Failing ticks in a row, missing ones not counted."""
    trips: int = 0
    earlier: "Ghost | None" = None
    """In the tick before."""

    def lost(self) -> "Ghost":
        """After the breaker lost its state: it may have been open."""
        return Ghost("lost", self.tick, trips=1)

    def judged(self, event: BreakerChanged, kind: str | None) -> "Ghost":
        """A domain's breaker after a frame, before it says what it makes of it; None: silence."""
        if kind is None:
            return self._replace(calm=0)
        # A breaker that lost its state does not know when the last frame was.
        known = self.tick >= 0 and self.state != "lost"
        if known and event.tick <= self.tick:
            return self  # a frame counts once
        age = event.tick - self.tick - 1 if known else 0
        fresh = age <= LIMITS.stale_ticks * LIMITS.calm_part
        # Outcomes cannot get better while nothing may change: an open breaker waits for inputs.
        waits = self.state in ("open", "lost")
        calm = fresh and (kind == GOOD or (kind == FAILING and waits))
        failing = self.failing + (kind == FAILING)
        return self._replace(
            calm=self.calm + 1 if calm else 0,
            bad=self.bad + 1 if kind == BAD else 0,
            failing=0 if kind == GOOD else failing,
        )

    def followed(self, *, plausible: bool) -> "Ghost":
        """The cluster's breaker after a tick of its leader."""
        return self._replace(calm=self.calm + 1 if plausible else 0)

    def overrules(self, event: BreakerChanged) -> bool:
        """Readers go by the tick, not by the arrival; of one tick, the stricter event counts."""
        if event.tick != self.tick:
            return event.tick < self.tick
        order = ("new", *STATES_BY_RESTRICTION, "lost")
        return order.index(event.state) < order.index(self.state)

    def turned(self, before: "Ghost", event: BreakerChanged) -> "Ghost":
        """After the event; `before` is the ghost before the tick was judged."""
        known = "open" if before.state == "lost" else before.state
        stale = event.cause == "stale"
        same = event.state == known and (stale or not before.outage or known != "open")
        earlier = before._replace(earlier=None)
        if same:
            return self._replace(state=event.state, tick=event.tick, earlier=earlier)
        # A trial keeps the cause of what it is the end of.
        trial = event.state == "half-open" and known == "open"
        return Ghost(
            event.state,
            event.tick,
            before.outage if trial else stale,
            trips=before.trips + (event.state == "open" and not stale),
            earlier=earlier,
        )


def wrong_turn(before: Ghost, judged: Ghost, event: BreakerChanged) -> str:
    """What a breaker must not say after a tick; empty if it may say this."""
    name = f"{event.scope}@{event.tick}"
    if judged.calm < _calm_needed(before, event.state):
        return f"{name} is {event.state} after {before.state} and {judged.calm} calm ticks"
    if event.state != "closed" or event.scope == CLUSTER:
        return ""
    gap = before.tick >= 0 and event.tick - before.tick - 1 > LIMITS.stale_ticks
    if gap or judged.bad >= LIMITS.missing_ticks or judged.failing >= LIMITS.error_ticks:
        return f"{name} stays closed"
    return ""


def _calm_needed(before: Ghost, state: str) -> float:
    """Calm ticks in a row after which a breaker may be in this state."""
    match before.state, state:
        case "open" | "lost", "closed":
            return inf  # there is a trial in between
        case "open" | "lost", "half-open":
            doubled = LIMITS.quiet_ticks * 2 ** max(before.trips - 1, 0)
            quiet = min(doubled, LIMITS.quiet_most_ticks)
            return LIMITS.resume_ticks if before.outage else quiet
        case "half-open", "closed":
            return LIMITS.resume_ticks if before.outage else LIMITS.probation_ticks
    return 0
