"""Event time: ticks and their moments, the ids of decisions, and joining the events of a tick."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Generic, NamedTuple, Self, TypeVar

from services._kit.state_codec import Transient

T = TypeVar("T")

POLICY: Final = "heuristic/6"
"""Name and version of the policy that decides in the Soldiers and in the Commander."""


def decision_id(subject: str, tick: int, epoch: int, policy: str = POLICY) -> str:
    """Id of the decision about a domain or a pool; a replay produces the same id."""
    return f"{subject}/{tick}/{epoch}/{policy}"


class Axis(NamedTuple):
    """Maps ticks to moments, from any event that has both."""

    tick: int
    moment: datetime
    tick_s: int

    def tick_at(self, time: str) -> int:
        """The tick nearest to a moment."""
        # Announced times need not fall on the end of a tick.
        return self.tick + round((parse(time) - self.moment).total_seconds() / self.tick_s)

    def minute_of_week(self, tick: int) -> int:
        """Minutes since Monday 00:00 UTC."""
        moment = self.moment + timedelta(seconds=(tick - self.tick) * self.tick_s)
        return moment.weekday() * 1440 + moment.hour * 60 + moment.minute

    def time_at(self, tick: int) -> str:
        """The moment of a tick, as events spell it."""
        return spell(self.moment + timedelta(seconds=(tick - self.tick) * self.tick_s))


def axis_of(tick: int, time: str, tick_s: int) -> Axis:
    """The axis on which `tick` is at `time`."""
    return Axis(tick, parse(time), tick_s)


def parse(time: str) -> datetime:
    """RFC 3339 to UTC."""
    return datetime.fromisoformat(time).astimezone(UTC)


def spell(moment: datetime) -> str:
    """RFC 3339 in UTC; whole seconds have no fraction."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


@dataclass(frozen=True)
class TickBuffer(Generic[T]):
    """Holds the events of open ticks, by name, until a tick is complete.

    Ticks close in order, when every expected event is there or when none has arrived for the grace
    period. What arrives for a closed tick is ignored. Events are not saved: a restart gets them
    delivered again.
    """

    closed: int = -1
    """The last closed tick; -1 before the first."""
    events: Transient[Mapping[int, Mapping[str, T]]] = field(default_factory=dict)
    """Events of open ticks, by tick and name."""
    since: Transient[Mapping[int, float]] = field(default_factory=dict)
    """When the last event of each open tick arrived, by `Clock.now`."""

    def with_event(self, tick: int, name: str, event: T, now: float) -> Self:
        """Add an event; self if its tick has closed or the event is a duplicate."""
        arrived = self.events.get(tick, {})
        if tick <= self.closed or name in arrived:
            return self
        return replace(
            self,
            events={**self.events, tick: {**arrived, name: event}},
            # Each event restarts the grace period. In a large cluster events of a tick are
            # seconds apart: with one period since the first, the last ones would always be late.
            since={**self.since, tick: now},
        )

    @property
    def empty(self) -> bool:
        """Whether no tick is open."""
        return not self.events

    def ready(
        self, names: frozenset[str], now: float, grace_s: float | None, reached: int
    ) -> int | None:
        """The earliest open tick, if it is complete or late; else None.

        Only a tick that most sources have `reached` can be late: otherwise one that is ahead would
        close it for all. Without a grace period a tick waits for ever, and later ones wait for it.
        """
        if not self.events:
            return None
        # The earliest first: later ticks wait for it, even if they are complete.
        tick, due = min(self.events), self.due(grace_s, reached)
        late = due is not None and now >= due
        return tick if late or names <= self.events[tick].keys() else None

    def due(self, grace_s: float | None, reached: int) -> float | None:
        """When the earliest open tick becomes late."""
        if not self.events or grace_s is None:
            return None
        tick = min(self.events)
        return self.since[tick] + grace_s if tick <= reached else None

    def up_to(self, last: int) -> Self:
        """Without the events of later ticks, which turned out to be wrong."""
        return self.without(frozenset(tick for tick in self.events if tick > last))

    def without(self, ticks: frozenset[int]) -> Self:
        """Without the events of these ticks."""
        if not ticks:
            return self
        return replace(
            self,
            events={tick: events for tick, events in self.events.items() if tick not in ticks},
            since={tick: since for tick, since in self.since.items() if tick not in ticks},
        )

    def reopened(self, last: int) -> Self:
        """Take back closed ticks after `last`, which turned out to be wrong."""
        return replace(self.up_to(last), closed=min(self.closed, last - 1))

    def close(self, tick: int) -> tuple[Mapping[str, T], Self]:
        """Events of a tick, and the buffer without it and everything before it."""
        rest = replace(
            self,
            closed=tick,
            events={t: events for t, events in self.events.items() if t > tick},
            since={t: since for t, since in self.since.items() if t > tick},
        )
        return self.events.get(tick, {}), rest
