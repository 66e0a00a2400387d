"""All decisions of a run, read back from the topics."""

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
from services.admin.reader import TopicReader

E = TypeVar("E", bound=TickEvent)
Key = tuple[int, str]
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
_TRAILING_S: Final = 3.0
"""Decisions about the last tick may arrive shortly after the cluster has ended."""


class Decisions(NamedTuple):
    """Decisions by tick and domain, node requests by tick and pool; each event counts once."""

    forecasts: dict[Key, DemandForecast]
    budgets: dict[Key, BudgetGranted]
    plans: dict[Key, ScalePlanned]
    applied: dict[Key, ScaleApplied]
    requests: dict[Key, CapacityRequested]
    contradictions: list[str]
    """A line for each key that was decided twice in different ways; should be empty."""
    dead_letters: list[Rejected]


def read_decisions(options: dict[str, Any], *, dead_letters: bool = True) -> Decisions:
    """All decisions of a run that the topics still hold; of dead letters there may be many."""
    kinds = [kind for kind in _KINDS if dead_letters or kind is not Rejected]
    with TopicReader(options) as reader:
        return _by_kind([event for kind in kinds for event in reader.read_all(kind)])


def record_decisions(options: dict[str, Any], has_ended: Callable[[], bool]) -> Decisions:
    """All decisions of a run, read while it runs: compaction soon removes old budgets."""
    events: list[Event] = []
    with TopicReader(options) as reader:
        reader.seek([topic_of(kind).name for kind in _KINDS], from_beginning=True)
        while True:
            # Asked before polling, so that the last poll begins after the end and misses nothing.
            ended = has_ended()
            found = [one.event for one in reader.poll(_TRAILING_S if ended else _POLL_S)]
            events += [event for event in found if event is not None]
            # Not `not found`: a part of a large event is a record, but yields no event.
            if ended and reader.is_idle:
                return _by_kind(events)


def _by_kind(events: list[Event]) -> Decisions:
    contradictions: list[str] = []
    return Decisions(
        forecasts=_by_key(events, DemandForecast, contradictions),
        budgets=_by_key(events, BudgetGranted, contradictions),
        plans=_by_key(events, ScalePlanned, contradictions),
        applied=_by_key(events, ScaleApplied, contradictions),
        requests=_by_key(events, CapacityRequested, contradictions),
        contradictions=contradictions,
        dead_letters=[event for event in events if isinstance(event, Rejected)],
    )


def _by_key(events: list[Event], kind: type[E], contradictions: list[str]) -> dict[Key, E]:
    found: dict[Key, E] = {}
    for event in events:
        if isinstance(event, kind):
            key = event.tick, key_of(event)
            # Delivery is at least once, so an equal event is a repeat and no contradiction.
            if found.setdefault(key, event) != event:
                contradictions.append(f"{kind.__name__} of {key[1]} at tick {key[0]}")
    return found
