"""The rules for all domains together."""

import math

import numpy as np
import pytest

from models.control.breaker.actions import Cause, Phase
from models.control.breaker.cluster import (
    CAUSES,
    ClusterReadings,
    ClusterThresholds,
    Grant,
    advance_cluster,
    cluster_table,
    implausible,
)
from models.control.breaker.limits import Thresholds
from models.control.breaker.phases import BreakerMemory, start

USUAL = ClusterThresholds()
TABLE = cluster_table(USUAL, Thresholds())
GOOD = {"payments": Grant(5, 0.5, 0.1, 50.0), "data": Grant(5, 0.4, 0.1, 40.0)}


def play(ticks: int, memory: BreakerMemory | None, **values: float) -> list[BreakerMemory]:
    readings = ClusterReadings(*(np.array([values.get(n, 0.0)]) for n in ClusterReadings._fields))
    memories = [memory or start(0, 1, TABLE, 0)]
    for tick in range(ticks):
        now = np.array([tick], np.int32)
        memories.append(advance_cluster(now, readings, memories[-1], TABLE))
    return memories[1:]


@pytest.mark.parametrize(
    ("name", "value", "patience", "cause", "phase"),
    [
        ("domains", 0.6, USUAL.domains_ticks, Cause.DOMAINS, Phase.HALF_OPEN),
        ("cost", 1.2, USUAL.cost_ticks, Cause.COST, Phase.OPEN),
        ("silence", USUAL.silence_ticks + 1, 1, Cause.SILENCE, Phase.HALF_OPEN),
        ("budgets", 1.0, USUAL.budgets_ticks, Cause.BUDGETS, Phase.HALF_OPEN),
    ],
)
def test_it_trips_after_a_condition_has_held_for_its_ticks_and_not_before(
    name: str, value: float, patience: int, cause: Cause, phase: Phase
) -> None:
    seen = play(patience, None, **{name: value})
    assert [one.phase[0, 0] for one in seen] == [Phase.CLOSED] * (patience - 1) + [phase]
    assert seen[-1].cause[0, 0] == cause


def test_what_is_unknown_trips_nothing_and_closes_nothing() -> None:
    nothing = dict.fromkeys(ClusterReadings._fields, math.nan)
    assert play(100, None, **nothing)[-1].phase[0, 0] == Phase.CLOSED
    tripped = play(3, None, domains=1.0)[-1]
    assert play(100, tripped, **nothing)[-1].phase[0, 0] == Phase.HALF_OPEN


def test_a_commander_that_is_back_is_trusted_after_a_few_ticks() -> None:
    silent = play(1, None, silence=99.0)[-1]
    seen = play(Thresholds().resume_ticks, silent)
    assert [one.phase[0, 0] for one in seen[-2:]] == [Phase.HALF_OPEN, Phase.CLOSED]


def test_a_cost_just_below_the_cap_closes_it_again() -> None:
    costly = play(USUAL.cost_ticks, None, cost=1.2)[-1]
    assert play(200, costly, cost=0.5)[-1].phase[0, 0] == Phase.CLOSED


def test_columns_are_in_the_order_of_the_readings() -> None:
    assert [cause.label for cause in CAUSES] == list(ClusterReadings._fields)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, ""),
        ({"data": Grant(5, 0.6, 0.1, 60.0)}, "shares and reserve sum to 1.200"),
        ({"data": Grant(4, 0.9, 0.1, 90.0)}, ""),
        ({"payments": Grant(5, 0.0, 0.1, 0.0)}, "payments has no budget"),
        ({"payments": Grant(5, 0.3, 0.1, -5.0)}, "payments has no budget"),
        ({"payments": Grant(5, math.nan, 0.1, 5.0)}, "shares and reserve sum to nan"),
        ({"data": Grant(5, 0.0, 0.1, 0.0)}, ""),
    ],
)
def test_budgets_are_plausible_if_they_fit_and_leave_no_p0_domain_empty(
    changes: dict[str, Grant], found: str
) -> None:
    wrong = implausible(GOOD | changes, ["payments"])
    assert wrong.startswith(found)
    assert bool(wrong) == bool(found)
