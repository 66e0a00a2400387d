"""Forged events are valid, and their content is checked against nothing else."""

import json
from math import nan

import pytest
from msgspec.structs import replace

from schemas.budget_granted import BudgetGranted
from schemas.capacity_requested import CapacityRequested
from schemas.codec import Malformed, decode
from schemas.demand_forecast import DemandForecast
from schemas.pool_observed import PoolObserved
from services._kit.arrays import with_budget
from services.measure.chaos import forgeries
from tests.unit.services.system_helpers import example

TRUE = [
    replace(
        example(BudgetGranted), domain=name, tick=120, epoch=20, valid_until_tick=138, cores=cores,
        share=cores / 1000.0, reserve_share=0.1, floor_cores=floor, held_cores=cores,
    )
    for name, cores, floor in (("payments", 600.0, 400.0), ("internal", 300.0, 100.0))
]  # fmt: skip


def test_lopsided_budgets_add_up_and_leave_the_others_their_floor() -> None:
    forged = [decode(one.topic, one.value) for one in forgeries.lopsided(TRUE, "internal")]
    by_domain = {one.domain: one for one in forged if isinstance(one, BudgetGranted)}
    assert (by_domain["payments"].cores, by_domain["internal"].cores) == (400.0, 500.0)
    assert by_domain["payments"].release_cores == 200.0
    assert sum(one.share for one in by_domain.values()) + 0.1 == pytest.approx(1.0)


def test_lopsided_budgets_replace_the_true_ones_until_the_next() -> None:
    (forged,) = [
        decode(one.topic, one.value)
        for one in forgeries.lopsided(TRUE, "internal")
        if one.key == b"payments"
    ]
    assert isinstance(forged, BudgetGranted)
    believed = with_budget((TRUE[0],), forged, 125, 6)
    assert believed[-1] == forged
    following = replace(TRUE[0], tick=126, epoch=21, valid_until_tick=144)
    assert with_budget(believed, following, 131, 6)[-1] == following


def test_quota_requests_ask_for_all_nodes_of_every_pool() -> None:
    pool = replace(example(PoolObserved), quota=77)
    (one,) = forgeries.quota_requests([pool], 9, 1)
    request = decode(one.topic, one.value)
    assert isinstance(request, CapacityRequested)
    assert (request.nodes.critical, request.min_nodes, request.tick) == (77, 77, 9)


def test_a_constant_forecast_is_valid_and_one_of_nan_is_not() -> None:
    true = example(DemandForecast)
    (one,) = forgeries.constant_forecasts([true], 12, true.time, 1.0)
    forged = decode(one.topic, one.value)
    assert isinstance(forged, DemandForecast)
    assert {value for row in forged.rps for value in row} == {1.0}
    assert (forged.tick, forged.valid_until_tick) == (12, 30)
    (one,) = forgeries.constant_forecasts([true], 12, true.time, nan)
    assert b"NaN" in (one.value or b"")
    with pytest.raises(Malformed):
        decode(one.topic, one.value)
    assert json.loads(one.value or b"")["domain"] == true.domain
