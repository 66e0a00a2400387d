"""The whole system on the in-memory bus decides as the in-process run, despite crashes."""

from itertools import islice
from typing import Any

import numpy as np
import pytest

from models.control.breaker import forecasts as breaker_forecasts
from models.control.tuned import tuned_parameters
from models.forecaster import calendar, seasonal
from models.forecaster.learned.artefact import CARD, SHIPPED
from schemas.budget_granted import BudgetGranted
from schemas.capacity_requested import CapacityRequested
from schemas.demand_forecast import DemandForecast
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from schemas.topics import topic_of
from services._kit.handler import Handler
from services._kit.memory import Killed, MemoryBus, Moment
from services.actuator.decide import ActuatorHandler
from services.actuator.settings import Modes
from services.aggregator.decide import AggregatorHandler
from services.breaker.decide import BreakerHandler
from services.commander.decide import CommanderHandler
from services.devcluster import memory
from services.devcluster.memory import MemorySystem
from services.forecaster.decide import ForecasterHandler
from services.soldier.decide import SoldierHandler
from tests.decision_helpers import decided_by_events, decided_in_process, first_difference, match_of

APPS, SEED, TICKS = 60, 3, 30
TRAINED = "heuristic:tft"
HANDLERS: tuple[type[Handler[Any]], ...] = (
    AggregatorHandler,
    ForecasterHandler,
    CommanderHandler,
    SoldierHandler,
    ActuatorHandler,
    BreakerHandler,
)
SERVICES = tuple(handler.name for handler in HANDLERS)
DECISIONS = (ScalePlanned, BudgetGranted, CapacityRequested, DemandForecast)


def compare(
    system: MemorySystem, ticks: int = TICKS, insured: frozenset[str] = frozenset()
) -> str | None:
    """The first difference to the in-process run; None when there is none."""
    for _ in islice(system.ticks(), ticks):
        pass
    found = decided_by_events([e for kind in DECISIONS for e in system.bus.events(kind)])
    for decided in islice(decided_in_process(match_of(APPS, SEED, insured=insured)), ticks):
        difference = first_difference(decided.values, found.get(decided.tick, {}))
        if difference is not None:
            return f"tick {decided.tick}: {difference}"
    return None


def system(modes: Modes | None = None) -> MemorySystem:
    return MemorySystem(match_of(APPS, SEED).world, modes=modes)


def test_services_decide_bit_for_bit_as_the_in_process_run() -> None:
    assert compare(system()) is None


def test_services_insure_bit_for_bit_as_the_in_process_run() -> None:
    # P0 has a cushion that would carry the loss anyway.
    insured = frozenset({"merchant"})
    running = MemorySystem(match_of(APPS, SEED, insured=insured).world)
    assert compare(running, insured=insured) is None
    budgets = running.bus.events(BudgetGranted)
    assert {budget.domain for budget in budgets if budget.insured_headroom > 0.0} == insured


@pytest.mark.skipif(not (SHIPPED / CARD).exists(), reason="no trained forecaster is shipped")
@pytest.mark.parametrize("restarts", [False, True])
def test_with_the_trained_forecaster_services_decide_bit_for_bit_as_the_in_process_run(
    *, restarts: bool
) -> None:
    world = match_of(APPS, SEED, controller=TRAINED).world
    running, ticks = MemorySystem(world, forecast="tft"), 20
    for tick in islice(running.ticks(), ticks):
        if restarts and tick % 4 == 3:
            running.bus.kill("forecaster", redeliver=3)
            running.bus.start("forecaster")
    found = decided_by_events([e for kind in DECISIONS for e in running.bus.events(kind)])
    for decided in islice(decided_in_process(match_of(APPS, SEED, controller=TRAINED)), ticks):
        assert first_difference(decided.values, found[decided.tick]) is None
    served = {event.model for event in running.bus.events(DemandForecast)}
    assert {model.split("/")[0] for model in served} == {"tft"}


def test_a_coefficient_that_differs_in_its_last_bit_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual = tuned_parameters()
    # The kernels take it as float32, so that is where its last bit is.
    bit = float(np.nextafter(np.float32(usual.smoothing), np.float32(1)))
    monkeypatch.setattr(memory, "tuned_parameters", lambda: usual._replace(smoothing=bit))
    assert compare(system()) is not None


def test_domains_with_wrong_forecasts_fall_back_bit_for_bit_as_in_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sound = seasonal.values_and_peaks

    def three_times(*given: Any) -> Any:
        values, peaks = sound(*given)
        return 3 * values, 3 * peaks

    monkeypatch.setattr(calendar, "values_and_peaks", three_times)
    # The first outcome counts, five minutes after its forecast.
    monkeypatch.setattr(breaker_forecasts, "_LEAST_OUTCOMES", 1)
    running, ticks = system(), 55
    assert compare(running, ticks) is None
    levels = {plan.versions.get("level", "policy") for plan in running.bus.events(ScalePlanned)}
    assert levels == {"policy", "reactive"}
    growth = {
        (budget.versions.get("level", "policy"), budget.growth)
        for budget in running.bus.events(BudgetGranted)
        if budget.domain == "payments"
    }
    assert ("reactive", 1.0) in growth
    assert max(growth) == ("reactive", 1.0)
    assert max(factor for level, factor in growth if level == "policy") > 2


def test_a_service_that_dies_between_two_ticks_changes_nothing() -> None:
    running = system()
    for tick in islice(running.ticks(), TICKS):
        victim = SERVICES[tick % len(SERVICES)]
        running.bus.kill(victim, redeliver=3)
        running.bus.start(victim)
    assert _same_as_undisturbed(running)


def test_everything_delivered_twice_changes_nothing() -> None:
    running = system()
    running.bus.duplicate = lambda _: True
    assert compare(running) is None
    assert _applied_once(running)


def test_each_planned_change_is_reported_exactly_once() -> None:
    running = system()
    assert compare(running) is None
    planned = {plan.decision_id: plan.changes for plan in running.bus.events(ScalePlanned)}
    applied = {done.decision_id: len(done.apps) for done in running.bus.events(ScaleApplied)}
    assert applied == planned
    assert sum(planned.values()) > 0


def test_preview_decides_and_changes_nothing() -> None:
    running = system(Modes("preview"))
    for _ in islice(running.ticks(), TICKS):
        pass
    done = running.bus.events(ScaleApplied)
    assert sum(len(event.apps) for event in done) > 0
    assert {reason for event in done for reason in event.reasons} == {"preview"}
    assert not running.cluster.journal


def test_an_undecodable_record_on_any_topic_is_dead_lettered_and_the_system_goes_on() -> None:
    running = system()
    ticks = running.ticks()
    next(ticks)
    # Every topic that any service reads, reference data included.
    read = {topic_of(kind).name for one in HANDLERS for kind in (*one.inputs, *one.reference)}
    for topic in read:
        running.bus.put(topic, b"poison", b"{ this is no event")
    assert [next(ticks) for _ in range(6)] == list(range(1, 7))
    assert {letter.topic for letter in running.bus.dead_letters} == read
    assert {letter.service for letter in running.bus.dead_letters} == set(SERVICES)


def _same_as_undisturbed(running: MemorySystem, ticks: int = TICKS) -> bool:
    found = decided_by_events([e for kind in DECISIONS for e in running.bus.events(kind)])
    expected = islice(decided_in_process(match_of(APPS, SEED)), ticks)
    return all(first_difference(d.values, found[d.tick]) is None for d in expected)


def _applied_once(running: MemorySystem) -> bool:
    applied = [(e.app, e.decision_id) for e in running.cluster.journal if e.outcome == "applied"]
    return len(applied) == len(set(applied))


@pytest.mark.parametrize("moment", ["publish", "save", "acknowledge"])
@pytest.mark.parametrize("victim", SERVICES)
def test_a_service_that_dies_in_the_middle_of_a_tick_changes_nothing(
    victim: str, moment: Moment, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, run = system(), MemoryBus.run

    def run_and_restart(bus: MemoryBus) -> None:
        try:
            run(bus)
        except Killed:
            bus.start(victim)
            run(bus)

    monkeypatch.setattr(MemoryBus, "run", run_and_restart)
    for tick in islice(running.ticks(), 14):
        if tick in (5, 11):
            running.bus.fail_next(victim, moment)
    assert _same_as_undisturbed(running, 14)
    assert _applied_once(running)


@pytest.mark.parametrize("victim", SERVICES)
def test_a_service_that_is_down_when_a_minute_begins_changes_nothing(
    victim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, run, deaths = system(), MemoryBus.run, []

    def run_and_restart(bus: MemoryBus) -> None:
        try:
            run(bus)
        except Killed:
            deaths.append(running.cluster.tick)
            run(bus)  # without it
            bus.start(victim)
            run(bus)

    monkeypatch.setattr(MemoryBus, "run", run_and_restart)
    for tick in islice(running.ticks(), 14):
        if tick + 1 in (6, 12):
            running.bus.fail_next(victim, "save")
    assert deaths == [6, 12]
    assert _same_as_undisturbed(running, 14)
    assert _applied_once(running)
