"""Everything that was decided in a run, as it stands in the topics."""

from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from schemas.budget_granted import BudgetGranted
from schemas.capacity_requested import CapacityRequested
from schemas.demand_forecast import DemandForecast
from schemas.fields import TickEvent
from schemas.rejected import Rejected
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from schemas.topics import key_of
from services.cli.system.reading import Onlooker, options_of

E = TypeVar("E", bound=TickEvent)
Place = tuple[int, str]
"""Tick, and domain or pool."""


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


def decisions_from_topics(bootstrap: str | None, credentials: Path | None = None) -> Decisions:
    """All of a run; the system of `hirl up` when no brokers are named."""
    return read_decisions(options_of(bootstrap, credentials))


def read_decisions(options: dict[str, Any]) -> Decisions:
    """The same with the arguments of a client."""
    odd: list[str] = []
    with Onlooker(options) as onlooker:
        return Decisions(
            forecasts=_placed(onlooker.whole(DemandForecast), odd),
            budgets=_placed(onlooker.whole(BudgetGranted), odd),
            plans=_placed(onlooker.whole(ScalePlanned), odd),
            applied=_placed(onlooker.whole(ScaleApplied), odd),
            requests=_placed(onlooker.whole(CapacityRequested), odd),
            contradictions=odd,
            dead_letters=onlooker.whole(Rejected),
        )


def _placed(events: list[E], odd: list[str]) -> dict[Place, E]:
    placed: dict[Place, E] = {}
    for event in events:
        place = event.tick, key_of(event)
        if placed.setdefault(place, event) != event:
            odd.append(f"{type(event).__name__} of {place[1]} at tick {place[0]}")
    return placed
