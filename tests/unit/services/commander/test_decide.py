from typing import Any

import msgspec
import pytest

from models.control.commander import VALID_MIN
from models.control.tuned import tuned_parameters
from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.capacity_requested import CapacityRequested
from schemas.pool_observed import PoolObserved
from schemas.topics import topic_of
from schemas.transition_recorded import TransitionRecorded
from services._kit.clock import ManualClock
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services._kit.telemetry import Telemetry
from services.commander.decide import CommanderHandler
from services.commander.metrics import Metrics
from tests.service_helpers import CLUSTER, heartbeat, planned, pools, time_of
from tests.unit.services.commander.commander_helpers import forecast

GRACE_S = 2.0


@pytest.fixture
def bus() -> MemoryBus:
    bus = MemoryBus(ManualClock(1000.0))
    bus.add(lambda: Service(CommanderHandler(CLUSTER, tuned_parameters(), GRACE_S)))
    return bus


def publish_minute(bus: MemoryBus, tick: int, **hold: Any) -> None:
    for domain in CLUSTER.domain_names:
        bus.publish(planned(domain, tick, **hold), forecast(domain, tick))
    bus.publish(*pools(tick))


def budgets(bus: MemoryBus) -> list[BudgetGranted]:
    bus.run()
    return bus.events(BudgetGranted)


def test_shares_and_reserve_sum_to_one(bus: MemoryBus) -> None:
    publish_minute(bus, 6)
    found = budgets(bus)
    assert [budget.domain for budget in found] == list(CLUSTER.domain_names)
    assert sum(b.share for b in found) + found[0].reserve_share == pytest.approx(1.0, abs=1e-12)
    assert {budget.epoch for budget in found} == {1}
    assert all(budget.reasons for budget in found)


def test_each_pool_gets_one_request(bus: MemoryBus) -> None:
    publish_minute(bus, 6)
    bus.run()
    requests = bus.events(CapacityRequested)
    assert [request.pool for request in requests] == list(CLUSTER.pool_names)
    assert {request.epoch for request in requests} == {1}


def test_ticks_within_a_minute_decide_nothing(bus: MemoryBus) -> None:
    publish_minute(bus, 7)
    bus.advance(10 * GRACE_S)
    assert budgets(bus) == []


def test_a_minute_waits_for_missing_events_only_for_the_grace_period(bus: MemoryBus) -> None:
    publish_minute(bus, 0)
    first, *rest = CLUSTER.domain_names
    for domain in rest:
        bus.publish(planned(domain, 6), forecast(domain, 6))
    bus.publish(*pools(6))
    assert {budget.tick for budget in budgets(bus)} == {0}
    bus.advance(GRACE_S + 0.1)
    assert {budget.tick for budget in budgets(bus)} == {0, 6}
    assert {b.domain for b in budgets(bus) if b.tick == 6} == {first, *rest}


def test_plans_that_follow_each_other_slowly_are_all_waited_for(bus: MemoryBus) -> None:
    # In a large cluster the first events of a minute are seconds ahead of its last plan.
    bus.publish(*pools(0))
    for domain in CLUSTER.domain_names:
        bus.advance(0.9 * GRACE_S)
        bus.publish(planned(domain, 0), forecast(domain, 0))
    assert {budget.tick for budget in budgets(bus)} == {0}


def test_a_plan_that_is_late_for_its_minute_counts_from_the_next_one_on(bus: MemoryBus) -> None:
    late, *rest = CLUSTER.domain_names
    for tick in (0, 6):
        bus.publish(*pools(tick))
        for domain in rest:
            bus.publish(planned(domain, tick), forecast(domain, tick))
        bus.advance(GRACE_S + 0.1)
        bus.publish(planned(late, tick, held=10.0 + tick), forecast(late, tick))
    found = budgets(bus)
    # Without this, a domain that is late each time would silence the Commander for good.
    assert [budget.tick for budget in found] == [6] * len(CLUSTER.domain_names)
    assert {budget.domain: budget.held_cores for budget in found}[late] == 10.0
    assert not bus.dead_letters


def test_a_late_plan_that_is_older_than_what_is_known_changes_nothing(bus: MemoryBus) -> None:
    for tick in (0, 6):
        publish_minute(bus, tick)
    bus.run()
    before = bus.state("commander", "cluster")
    bus.publish(planned(CLUSTER.domain_names[0], 0, held=1.0), *pools(0))
    bus.run()
    assert bus.state("commander", "cluster") == before


def test_without_forecasts_no_growth_is_expected(bus: MemoryBus) -> None:
    for domain in CLUSTER.domain_names:
        bus.publish(planned(domain, 0))
    bus.publish(*pools(0))
    bus.advance(GRACE_S + 0.1)
    found = budgets(bus)
    assert len(found) == len(CLUSTER.domain_names)
    assert {budget.growth for budget in found} == {1.0}


def test_a_forecast_of_other_horizons_is_a_dead_letter_and_the_minute_goes_on(
    bus: MemoryBus,
) -> None:
    first = CLUSTER.domain_names[0]
    other: dict[str, Any] = {
        "horizons_minutes": [5, 15], "rps": [[1.0] * 3] * 2, "peak_rps": [1.0] * 2
    }  # fmt: skip
    bus.publish(msgspec.structs.replace(forecast(first, 6), **other))
    publish_minute(bus, 6)
    assert len(budgets(bus)) == len(CLUSTER.domain_names)
    assert [letter.error for letter in bus.dead_letters] == ["other-horizons"]


def test_before_every_pool_was_observed_nothing_is_granted(bus: MemoryBus) -> None:
    for domain in CLUSTER.domain_names:
        bus.publish(planned(domain, 0), forecast(domain, 0))
    bus.advance(GRACE_S + 0.1)
    assert budgets(bus) == []


def test_before_every_domain_reported_nothing_is_granted(bus: MemoryBus) -> None:
    first, *rest = CLUSTER.domain_names
    for domain in rest:
        bus.publish(planned(domain, 0), forecast(domain, 0))
    bus.publish(*pools(0))
    bus.advance(GRACE_S + 0.1)
    assert budgets(bus) == []
    for domain in CLUSTER.domain_names:
        bus.publish(planned(domain, 6), forecast(domain, 6))
    bus.advance(GRACE_S + 0.1)
    assert {budget.domain for budget in budgets(bus)} == {first, *rest}


def test_a_domain_that_fell_back_gets_its_budget_without_a_forecast(bus: MemoryBus) -> None:
    first, second = CLUSTER.domain_names[:2]
    bus.publish(heartbeat(5, scope=first, level="reactive"))
    for domain in CLUSTER.domain_names:
        bus.publish(planned(domain, 6), forecast(domain, 6, growth=2.0))
    bus.publish(*pools(6))
    found = {budget.domain: budget for budget in budgets(bus)}
    assert found[first].growth == 1.0
    assert found[first].versions["level"] == "reactive"
    assert found[first].reasons[0] == ("the breaker fell back to reactive, forecasts are not used")
    assert found[second].growth == 2.0
    assert "level" not in found[second].versions


def test_the_level_of_the_cluster_counts_for_every_domain_until_its_breaker_is_removed(
    bus: MemoryBus,
) -> None:
    bus.publish(heartbeat(5, scope="cluster", level="heuristic"))
    publish_minute(bus, 6)
    assert {budget.versions["level"] for budget in budgets(bus)} == {"heuristic"}
    bus.put(topic_of(BreakerChanged).name, b"cluster", None)
    publish_minute(bus, 12)
    assert {len(budget.versions) for budget in budgets(bus) if budget.tick == 12} == {1}


def test_events_of_an_undecidable_minute_are_acknowledged(bus: MemoryBus) -> None:
    bus.publish(*pools(0))
    bus.advance(GRACE_S + 0.1)
    committed = bus._processes["commander"].committed[topic_of(PoolObserved).name]
    assert committed == len(CLUSTER.pool_names)


def test_a_silent_domain_gets_no_new_budget_but_keeps_its_share(bus: MemoryBus) -> None:
    publish_minute(bus, 0)
    silent, *rest = CLUSTER.domain_names
    for tick in range(6, 6 * (VALID_MIN + 2), 6):
        for domain in rest:
            bus.publish(planned(domain, tick, held=400.0, distress=4000.0), forecast(domain, tick))
        bus.publish(*pools(tick))
        bus.advance(GRACE_S + 0.1)
    found = budgets(bus)
    last = max(budget.tick for budget in found)
    assert max(budget.tick for budget in found if budget.domain == silent) == last - 6
    at_last = [budget for budget in found if budget.tick == last]
    assert [budget.domain for budget in at_last] == rest
    assert sum(budget.share for budget in at_last) + at_last[0].reserve_share < 1.0


def test_epochs_continue_after_a_restart_without_repeating(bus: MemoryBus) -> None:
    for tick in (0, 6):
        publish_minute(bus, tick)
    budgets(bus)
    bus.kill("commander", redeliver=4)
    bus.start("commander")
    publish_minute(bus, 12)
    epochs = [budget.epoch for budget in budgets(bus) if budget.domain == "payments"]
    assert epochs == [0, 1, 2]


def test_each_minute_records_a_transition(bus: MemoryBus) -> None:
    for tick in (0, 6, 12):
        publish_minute(bus, tick)
    bus.run()
    steps = bus.events(TransitionRecorded)
    assert [(step.tick, step.next_tick) for step in steps] == [(0, 6), (6, 12)]
    assert {step.agent for step in steps} == {"commander"}


def requested(bus: MemoryBus) -> dict[str, CapacityRequested]:
    bus.run()
    return bus.newest(CapacityRequested)


def test_an_implausible_forecast_buys_no_nodes_and_the_budget_says_why(bus: MemoryBus) -> None:
    publish_minute(bus, 6)
    calm = requested(bus)
    for domain in CLUSTER.domain_names:
        bus.publish(planned(domain, 12), forecast(domain, 12, growth=1e9))
    bus.publish(*pools(12))
    forged = requested(bus)
    assert [forged[pool].nodes for pool in calm] == [one.nodes for one in calm.values()]
    newest = bus.newest(BudgetGranted)
    assert all(one.growth == 1.0 for one in newest.values())
    assert all(one.reasons[0].startswith("not believed: a forecast") for one in newest.values())


def test_a_forecast_within_the_bounds_is_believed(bus: MemoryBus) -> None:
    publish_minute(bus, 6)
    for domain in CLUSTER.domain_names:
        bus.publish(planned(domain, 12), forecast(domain, 12, growth=3.0))
    bus.publish(*pools(12))
    assert bus_growth(bus) == 3.0


def bus_growth(bus: MemoryBus) -> float:
    bus.run()
    return bus.newest(BudgetGranted)["payments"].growth


@pytest.mark.parametrize("held", [1e9, 1e12])
def test_sums_that_explode_are_not_believed_and_the_last_ones_count(
    bus: MemoryBus, held: float
) -> None:
    publish_minute(bus, 6)
    calm = requested(bus)
    first, *others = CLUSTER.domain_names
    bus.publish(planned(first, 12, held=held), forecast(first, 12))
    for domain in others:
        bus.publish(planned(domain, 12), forecast(domain, 12))
    bus.publish(*pools(12))
    assert {p: r.nodes for p, r in requested(bus).items()} == {p: r.nodes for p, r in calm.items()}
    newest = bus.newest(BudgetGranted)
    assert newest[first].held_cores == 100.0
    assert newest[first].reasons[0].startswith("not believed: ")
    assert not any(one.startswith("not believed") for one in newest[others[0]].reasons)


@pytest.mark.parametrize("memory_gib", [1e308, 1e6])
def test_memory_that_explodes_in_one_report_changes_no_budget_of_any_domain(
    bus: MemoryBus, memory_gib: float
) -> None:
    publish_minute(bus, 6)
    bus.run()
    calm = bus.newest(BudgetGranted)
    for domain in CLUSTER.domain_names:
        plan = planned(domain, 12)
        assert plan.sums is not None
        if domain == CLUSTER.domain_names[-1]:
            forged = msgspec.structs.replace(plan.sums, held_memory_gib=memory_gib)
            plan = msgspec.structs.replace(plan, sums=forged)
        bus.publish(plan, forecast(domain, 12))
    bus.publish(*pools(12))
    bus.run()
    newest = bus.newest(BudgetGranted)
    assert {one.tick for one in newest.values()} == {12}
    assert [one.cores for one in newest.values()] == [one.cores for one in calm.values()]


def test_one_report_of_almost_nothing_silences_no_domain(bus: MemoryBus) -> None:
    # After it each true report is too large to be believed, until two of them agree.
    publish_minute(bus, 6)
    first, *others = CLUSTER.domain_names
    for tick, held in ((12, 0.001), (18, 100.0), (24, 100.0)):
        bus.publish(planned(first, tick, held=held), forecast(first, tick))
        for domain in others:
            bus.publish(planned(domain, tick), forecast(domain, tick))
        bus.publish(*pools(tick))
    bus.run()
    newest = bus.newest(BudgetGranted)[first]
    assert (newest.tick, newest.held_cores) == (24, 100.0)
    assert not newest.reasons[0].startswith("not believed")


def test_doubts_are_over_with_the_next_believable_minute(bus: MemoryBus) -> None:
    publish_minute(bus, 6)
    for tick, growth in ((12, 1e9), (18, 1.0)):
        for domain in CLUSTER.domain_names:
            bus.publish(planned(domain, tick), forecast(domain, tick, growth=growth))
        bus.publish(*pools(tick))
    assert bus_growth(bus) == 1.0
    assert not bus.newest(BudgetGranted)["payments"].reasons[0].startswith("not believed")


def test_implausible_inputs_are_counted() -> None:
    telemetry = Telemetry("commander", ManualClock())
    count = Metrics(telemetry)
    plain = BudgetGranted(
        tick=0, time=time_of(0), domain="payments", epoch=0, valid_until_tick=9, share=0.1,
        cores=1.0, memory_gib=1.0, reserve_share=0.1, reasons=["not believed: x", "other"],
    )  # fmt: skip
    count(plain)
    labels = {"domain": "payments"}
    assert telemetry.registry.get_sample_value("hirl_implausible_inputs_total", labels) == 1


def test_insurance_shows_in_budgets_requests_and_metrics_with_its_price_and_reason() -> None:
    first, *others = CLUSTER.domains
    insured = msgspec.structs.replace(
        CLUSTER,
        domains=(msgspec.structs.replace(first, survive="zone"), *others),
        pools=tuple(msgspec.structs.replace(pool, zones=3) for pool in CLUSTER.pools),
    )
    parameters = tuned_parameters()._replace(node_spare=0.0, cushion_p0=0.0)
    bus, telemetry = MemoryBus(ManualClock(1000.0)), Telemetry("commander", ManualClock())
    handler = CommanderHandler(insured, parameters, GRACE_S)
    bus.add(lambda: Service(handler, observe=lambda _: Metrics(telemetry)))
    publish_minute(bus, 6, held=1000.0)
    budget, *rest = budgets(bus)
    assert budget.insured_headroom > 0.0
    assert budget.headroom >= budget.insured_headroom
    assert any("to carry the loss of a zone" in reason for reason in budget.reasons)
    assert {other.insured_headroom for other in rest} == {0.0}
    requests = bus.events(CapacityRequested)
    prices = {request.pool: request.insured_per_hour for request in requests}
    paid = [request for request in requests if request.insured_nodes]
    assert {request.pool for request in paid} <= set(first.pools)
    assert paid
    for request in paid:
        assert request.insured_nodes <= request.min_nodes
        assert request.insured_per_hour > 0.0
        assert f"{request.insured_nodes} nodes" in request.reasons[0]
    for pool, price in prices.items():
        found = telemetry.registry.get_sample_value("hirl_insured_per_hour", {"pool": pool})
        assert found == price
