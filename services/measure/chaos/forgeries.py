"""Forged events that look plausible: budgets, node requests and forecasts."""

import json
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from schemas.budget_granted import BudgetGranted
from schemas.capacity_requested import CapacityRequested, NodesByUrgency
from schemas.codec import encode
from schemas.demand_forecast import DemandForecast
from schemas.fields import Event
from schemas.pool_observed import PoolObserved
from services.measure.chaos.records import HostileRecord

_VALID_TICKS: Final = 18
_LIAR: Final = "forged"


def forged(event: Event) -> list[HostileRecord]:
    """The records of an event, as its own producer would write them."""
    return [
        HostileRecord(one.topic, one.key, one.value, tuple(one.headers))
        for one in encode(event, _LIAR)
    ]


def lopsided(budgets: Sequence[BudgetGranted], favourite: str) -> list[HostileRecord]:
    """Everything for one domain, and the floor for all others, which are to release the rest.

    Shares sum to 1, and the epoch follows that of the true budgets, so nothing is out of bounds.
    """
    total = sum(one.cores for one in budgets) / max(1e-9, sum(one.share for one in budgets))
    floors = {one.domain: min(one.cores, one.floor_cores) for one in budgets}
    left = sum(one.cores for one in budgets) - sum(floors.values()) + floors[favourite]
    found: list[HostileRecord] = []
    for one in budgets:
        cores = left if one.domain == favourite else floors[one.domain]
        found += forged(
            replace(
                one,
                epoch=one.epoch + 1,
                share=min(1.0, cores / total),
                cores=cores,
                memory_gib=one.memory_gib * cores / max(1e-9, one.cores),
                overdraft_cores=0.0,
                urgency=0.0,
                release_cores=max(0.0, one.held_cores - cores),
                reasons=["forged"],
            )
        )
    return found


def quota_requests(pools: Sequence[PoolObserved], tick: int, epoch: int) -> list[HostileRecord]:
    """A request of every pool for all nodes that its quota allows."""
    return [
        record
        for pool in pools
        for record in forged(
            CapacityRequested(
                tick=tick,
                time=pool.time,
                pool=pool.pool,
                epoch=epoch,
                valid_until_tick=tick + _VALID_TICKS,
                nodes=NodesByUrgency(critical=pool.quota),
                min_nodes=pool.quota,
                decision_id=f"{_LIAR}/{tick}",
            )
        )
    ]


def constant_forecasts(
    forecasts: Sequence[DemandForecast], tick: int, time: str, value: float
) -> list[HostileRecord]:
    """The same number for every horizon and quantile; NaN too, which is not JSON."""
    found = []
    for one in forecasts:
        event = replace(one, tick=tick, time=time, valid_until_tick=tick + _VALID_TICKS)
        (record,) = forged(event)
        body = json.loads(record.value or b"{}") | {
            "rps": [[value] * len(one.quantiles) for _ in one.horizons_minutes],
            "peak_rps": [value] * len(one.horizons_minutes),
        }
        found.append(record._replace(value=json.dumps(body).encode()))
    return found
