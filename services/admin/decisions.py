"""Everything that was decided in a run, as it stands in the topics."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from schemas.budget_granted import BudgetGranted
from schemas.capacity_requested import CapacityRequested
from schemas.demand_forecast import DemandForecast
from schemas.fields import Event, TickEvent
from schemas.rejected import Rejected
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from schemas.topics import key_of, topic_of
from services.admin.reader import Onlooker

E = TypeVar("E", bound=TickEvent)
Place = tuple[int, str]
"""Tick, and domain or pool."""
_KINDS: Final[tuple[type[Event], ...]] = (
    DemandForecast,
    BudgetGranted,
    ScalePlanned,
    ScaleApplied,
    CapacityRequested,
    Rejected,
)
_POLL_S: Final = 0.2
_LAST_WORD_S: Final = 3.0
"""What is decided about the last tick may be said a moment after the cluster has ended."""


class Decisions(NamedTuple):
    """By tick and domain, node requests by tick and pool; what is said again counts once."""

    forecasts: dict[Place, DemandForecast]
    budgets: dict[Place, BudgetGranted]
    plans: dict[Place, ScalePlanned]
    applied: dict[Place, ScaleApplied]
    requests: dict[Place, CapacityRequested]
    contradictions: list[str]
    """Where the same tick of the same domain was decided differently; ought to be empty."""
    dead_letters: list[Rejected]


def read_decisions(options: dict[str, Any]) -> Decisions:
    """All decisions of a run that the topics still hold."""
    with Onlooker(options) as onlooker:
        return _sorted([event for kind in _KINDS for event in onlooker.whole(kind)])


def record_decisions(options: dict[str, Any], has_ended: Callable[[], bool]) -> Decisions:
    """All of a run, read while it goes on: a compacted topic keeps no old budgets for long."""
    events: list[Event] = []
    with Onlooker(options) as onlooker:
        onlooker.watch([topic_of(kind).name for kind in _KINDS], from_beginning=True)
        while True:
            ended = has_ended()
            found = [one.event for one in onlooker.next(_LAST_WORD_S if ended else _POLL_S)]
            events += [event for event in found if event is not None]
            if ended and onlooker.silent:
                return _sorted(events)


def _sorted(events: list[Event]) -> Decisions:
    odd: list[str] = []
    return Decisions(
        forecasts=_placed(events, DemandForecast, odd),
        budgets=_placed(events, BudgetGranted, odd),
        plans=_placed(events, ScalePlanned, odd),
        applied=_placed(events, ScaleApplied, odd),
        requests=_placed(events, CapacityRequested, odd),
        contradictions=odd,
        dead_letters=[event for event in events if isinstance(event, Rejected)],
    )


def _placed(events: list[Event], kind: type[E], odd: list[str]) -> dict[Place, E]:
    placed: dict[Place, E] = {}
    for event in events:
        if isinstance(event, kind):
            place = event.tick, key_of(event)
            if placed.setdefault(place, event) != event:
                odd.append(f"{kind.__name__} of {place[1]} at tick {place[0]}")
    return placed
