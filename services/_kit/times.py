"""Event time: ticks, and the moments they stand for."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple


class Axis(NamedTuple):
    """Where the ticks of a cluster lie, from any event that names both a tick and its time."""

    tick: int
    moment: datetime
    tick_s: int

    def tick_at(self, time: str) -> int:
        """The tick of a moment, rounded."""
        return self.tick + round((parse(time) - self.moment).total_seconds() / self.tick_s)

    def time_at(self, tick: int) -> str:
        """The moment of a tick."""
        return spell(self.moment + timedelta(seconds=(tick - self.tick) * self.tick_s))

    def minute_of_week(self, tick: int) -> int:
        """Minutes since Monday 00:00 UTC."""
        moment = self.moment + timedelta(seconds=(tick - self.tick) * self.tick_s)
        return moment.weekday() * 1440 + moment.hour * 60 + moment.minute


def axis_of(tick: int, time: str, tick_s: int) -> Axis:
    """The axis on which `tick` is at `time`."""
    return Axis(tick, parse(time), tick_s)


def parse(time: str) -> datetime:
    """RFC 3339 in UTC."""
    return datetime.fromisoformat(time).astimezone(UTC)


def spell(moment: datetime) -> str:
    """The reverse; whole seconds have no fraction."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
