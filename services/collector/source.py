"""Where measurements come from. A source is asked; the collector publishes what it answers."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from schemas.app_declared import AppDeclared
from schemas.demand_backfilled import DemandBackfilled
from schemas.event_scheduled import EventScheduled
from schemas.fields import Event


class SourceDown(Exception):  # noqa: N818  the source is down, the collector is not
    """The source does not answer, or not what it should: ask again a little later."""


class StartedAnew(Exception):  # noqa: N818  it names what happened
    """The source has not come to the tick that was last seen: begin again with its first."""


class Observed(NamedTuple):
    """All that there is to see of one tick."""

    tick: int
    events: Sequence[Event]
    """In the order in which they are to be published."""
    finished: bool = False
    """There will be no further tick, and this one has nothing to see either."""


class Source(Protocol):
    """A cluster that is measured."""

    name: str
    """Under which the collector remembers how far it came."""

    async def inventory(self) -> Sequence[AppDeclared]:
        """Every app that is or was there."""

    async def calendar(self) -> Sequence[EventScheduled]:
        """What was announced."""

    async def history(self) -> Sequence[DemandBackfilled]:
        """Traffic before the first tick, where somebody recorded it."""

    async def observe(self, after: int) -> Observed | None:
        """A tick after `after`, as soon as there is one; None: not yet, ask again.

        The next one, if it can still be had: what is left out is a gap. -1 asks for the present.
        """
