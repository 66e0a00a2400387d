"""Single records with a wrong tick, time, epoch or validity do not stop the valid ones."""

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.control.tuned import tuned_parameters
from schemas.budget_granted import BudgetGranted
from schemas.demand_backfilled import DemandBackfilled
from schemas.demand_forecast import DemandForecast
from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.metrics_sampled import MetricsSampled
from schemas.pool_observed import PoolObserved
from schemas.scale_planned import ScalePlanned
from services._kit.clock import ManualClock
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services.aggregator.decide import AggregatorHandler
from services.commander.decide import CommanderHandler
from services.devcluster.memory import MemorySystem
from services.forecaster.decide import ForecasterHandler
from services.soldier.decide import SoldierHandler
from tests.decision_helpers import decided_by_events, decided_in_process, first_difference, match_of
from tests.service_helpers import CLUSTER, declared, pools, sampled, time_of

VICTIM = "payments"
DOMAINS = CLUSTER.domain_names
SERVICES = ("aggregator", "forecaster", "commander", "soldier")
GRACE_S = 2.0
LARGEST = 2**31 - 1
FORGED: dict[str, tuple[type[Event], dict[str, Any]]] = {
    "a sample 345 ticks ahead": (MetricsSampled, {"tick": 345}),
    "a sample of the last tick of all": (MetricsSampled, {"tick": LARGEST}),
    "a sample with a time of its own": (MetricsSampled, {"time": "2031-01-05T00:00:00Z"}),
    "a frame far ahead": (DomainObserved, {"tick": 10**9}),
    "a plan far ahead": (ScalePlanned, {"tick": 6 * 10**8}),
    "a forecast far ahead": (DemandForecast, {"tick": 6 * 10**8, "valid_until_tick": 6 * 10**8}),
    "a forecast for ever": (DemandForecast, {"valid_until_tick": LARGEST}),
    "a pool far ahead": (PoolObserved, {"tick": 6 * 10**8}),
    "a budget of the last epoch": (BudgetGranted, {"epoch": LARGEST}),
    "a budget far ahead": (
        BudgetGranted,
        {"tick": 6 * 10**8, "epoch": 10**8, "valid_until_tick": 6 * 10**8 + 18},
    ),
    "a budget for ever": (BudgetGranted, {"valid_until_tick": LARGEST}),
}


class Cluster:
    """Five domains of one app each, free-running, without an actuator."""

    def __init__(self) -> None:
        self.bus, self.tick = MemoryBus(ManualClock(1000.0)), 0
        parameters = tuned_parameters()
        builds: list[Callable[[], Any]] = [
            lambda: AggregatorHandler(CLUSTER, parameters, GRACE_S),
            lambda: ForecasterHandler(CLUSTER, "persistence", 120, GRACE_S),
            lambda: CommanderHandler(CLUSTER, parameters, GRACE_S),
            lambda: SoldierHandler(CLUSTER, parameters, GRACE_S),
        ]
        for build in builds:
            self.bus.add(partial(_service_of, build))
        for index, domain in enumerate(DOMAINS):
            self.bus.publish(declared(f"{domain}-0001", domain=domain, ordinal=index))
            minutes: list[float | None] = [100.0] * 20_160
            until = time_of(0)
            self.bus.publish(
                DemandBackfilled(domain=domain, until_tick=0, until=until, rps=minutes)
            )

    def play(self, ticks: int) -> None:
        for _ in range(ticks):
            self.bus.publish(*pools(self.tick))
            for domain in DOMAINS:
                apps = [f"{domain}-0001"]
                self.bus.publish(sampled(self.tick, domain=domain, apps=apps))
            self.bus.advance(10.0)
            self.tick += 1

    def restart(self) -> None:
        for service in SERVICES:
            self.bus.kill(service)
            self.bus.start(service)

    def forge(self, kind: type[Event], **changes: Any) -> None:
        """The newest event of the victim (or any pool), with some fields changed."""
        self.bus.publish(forged_from(self.bus, kind, **changes))
        self.bus.advance(GRACE_S)

    def budgets(self, tick: int) -> set[str]:
        return {event.domain for event in self.bus.events(BudgetGranted) if event.tick == tick}


def _service_of(build: Callable[[], Any]) -> Service[Any]:
    return Service(build())


def forged_from(bus: MemoryBus, kind: type[Event], **changes: Any) -> Event:
    newest = bus.newest(kind)
    before = newest.get(VICTIM) or next(iter(newest.values()))
    ahead = changes.get("tick")
    if ahead is None:
        # A forger speaks of the next tick or minute, before the true event arrives.
        step = 1 if kind is MetricsSampled else 6
        changes |= {"tick": getattr(before, "tick") + step}  # noqa: B009  of every kind here
        changes = {"time": time_of(changes["tick"])} | changes
    return msgspec.structs.replace(before, **changes)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("name", FORGED)
def test_budgets_go_on_for_every_domain(name: str, *, restarts: bool) -> None:
    kind, changes = FORGED[name]
    cluster = Cluster()
    cluster.play(15)
    if restarts:
        cluster.restart()
    cluster.forge(kind, **changes)
    assert [letter.error for letter in cluster.bus.dead_letters] != []
    cluster.play(22)
    for minute in (18, 24, 30, 36):
        assert cluster.budgets(minute) == set(DOMAINS), minute
    plans = [e.tick for e in cluster.bus.events(ScalePlanned) if e.domain == VICTIM]
    assert plans[-20:] == list(range(17, 37))
    bound = [e for e in cluster.bus.events(ScalePlanned) if e.domain == VICTIM and e.tick == 31]
    assert [plan.epoch for plan in bound] == [5]


@pytest.mark.parametrize("name", [name for name, (kind, _) in FORGED.items() if kind in (
    MetricsSampled, PoolObserved,
)])  # fmt: skip
def test_wrong_records_before_the_first_tick_delay_budgets_by_a_minute_at_most(name: str) -> None:
    kind, changes = FORGED[name]
    cluster, donor = Cluster(), Cluster()
    donor.play(1)
    cluster.bus.publish(forged_from(donor.bus, kind, **changes))
    cluster.bus.advance(GRACE_S)
    cluster.play(26)
    # Nothing is granted before every domain has reported a plan.
    for minute in (12, 18, 24):
        assert cluster.budgets(minute) == set(DOMAINS), minute


records = st.lists(
    st.tuples(
        st.integers(1, 30),
        st.sampled_from(sorted(FORGED)),
        st.sampled_from(["tick", "time", "epoch", "valid_until_tick", ""]),
        st.integers(0, LARGEST),
    ),
    max_size=12,
)


@settings(max_examples=10, deadline=None)
@given(records)
def test_random_forgeries_stop_no_other_domain(
    forged: list[tuple[int, str, str, int]],
) -> None:
    cluster = Cluster()
    cluster.play(13)
    for tick in range(30):
        for _, name, field, value in [one for one in forged if one[0] == tick]:
            kind, changes = FORGED[name]
            if field and field in kind.__struct_fields__:
                changes = {field: time_of(value % 8640) if field == "time" else value}
            cluster.bus.publish(forged_from(cluster.bus, kind, **changes))
        cluster.play(1)
    cluster.play(6)
    for minute in (18, 24, 30, 36, 42):
        assert cluster.budgets(minute) >= set(DOMAINS) - {VICTIM}, minute


FORGED_IN_LOCK_STEP = [
    name for name, (kind, _) in FORGED.items() if kind not in (DomainObserved, ScalePlanned)
]


@pytest.mark.parametrize("name", FORGED_IN_LOCK_STEP)
def test_in_lock_step_every_decision_stays_the_same(name: str) -> None:
    kind, changes = FORGED[name]
    running = MemorySystem(match_of(60, 3).world)
    for tick in islice(running.ticks(), 20):
        if tick == 8:
            running.bus.publish(forged_from(running.bus, kind, **changes))
    kinds = (ScalePlanned, BudgetGranted, DemandForecast)
    # The forged events are on the topics, too; what services decided comes after them.
    found = decided_by_events([e for k in kinds for e in running.bus.events(k) if e.tick <= 20])
    for decided in islice(decided_in_process(match_of(60, 3)), 20):
        expected = {about: v for about, v in decided.values.items() if "nodes" not in about}
        assert first_difference(expected, found.get(decided.tick, {})) is None
    assert running.bus.dead_letters
