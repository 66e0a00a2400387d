"""A Soldier that holds one domain's apps decides as within the whole cluster, bit for bit."""

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import pytest

from models.cluster.arrays import I64
from models.cluster.inventory import Inventory, only_domain
from models.cluster.observation import Observation
from models.cluster.plan import Plan, Reason, empty_plan
from models.control.budget import Directive, no_decision
from models.control.commander import Commander
from models.control.demand import DemandEstimator
from models.control.hierarchy import Heuristic
from models.control.parameters import Parameters, Parts
from models.control.report import Report
from models.control.soldiers import Soldiers
from models.features.pools import PoolReadings
from models.forecaster.port import Forecast
from models.forecaster.simulated.catalogue import calendar_of
from models.sim.config.events import Event
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import Scenario, load_scenario
from models.sim.config.timeline import CalendarEntry
from models.sim.population.generate import generate
from models.sim.world import World

CLUSTER = with_apps(load_sim_cluster(), 155)
POPULATION = generate(CLUSTER)
# Moves the events of a shipped scenario into the half hour that the test runs.
SOONER_MIN = 14
PER_MINUTE = 6
T = TypeVar("T", CalendarEntry, Event)
SOLDIERS_FIELDS = ("replicas", "cpu", "memory", "reason")


def half_an_hour_of(name: str) -> World:
    """A shipped scenario in which things happen soon, seed 3."""
    shipped = load_scenario(name, CLUSTER)
    scenario: Scenario = msgspec.structs.replace(
        shipped,
        warmup_minutes=5,
        length_minutes=25,
        events=tuple(_sooner(event) for event in shipped.events),
        calendar=tuple(_sooner(entry) for entry in shipped.calendar),
    )
    return World(CLUSTER, scenario, (3,), POPULATION)


def _sooner(thing: T) -> T:
    return msgspec.structs.replace(thing, at_minute=thing.at_minute - SOONER_MIN)


def only(observation: Observation, members: I64) -> Observation:
    """What a service of one domain observes."""
    status = np.take(observation.status, members, axis=-1)
    status.flags.writeable = False
    return observation._replace(
        measured=np.take(observation.measured, members, axis=-1),
        missing=np.take(observation.missing, members, axis=-1),
        status=status,
    )


def own_part(directive: Directive, domain: int) -> Directive:
    """The part of one domain; zeros for the others."""
    mine = np.arange(directive.growth.shape[1]) == domain
    budget = directive.budget
    parts = {
        name: np.where(mine if values.ndim == 2 else mine[:, None], values, 0.0)
        for name, values in budget._asdict().items()
        if values.ndim > 1
    }
    growth, release = np.where(mine, directive.growth, 1.0), np.where(mine, directive.release, 0.0)
    return Directive(budget._replace(**parts), growth, release)


class SoldierProcess:
    """The Soldier of one domain with its own estimator, memory and plan."""

    def __init__(self, inventory: Inventory, domain: int, parameters: Parameters) -> None:
        self._domain = domain
        self.members = members = np.flatnonzero(inventory.domain == domain)
        own = only_domain(inventory, members)
        self._estimator = DemandEstimator(own, parameters, Parts())
        self._soldier = Soldiers(own, parameters, Parts())
        self.plan = empty_plan(1, members.size, inventory.pool_cpu.size)

    def start(self, observation: Observation) -> None:
        own = only(observation, self.members)
        self._estimated, self._state = self._estimator.start(own), self._soldier.start(own.status)

    def step(self, observation: Observation, directive: Directive) -> Report:
        own, part = only(observation, self.members), own_part(directive, self._domain)
        signals, self._estimated = self._estimator.step(own, self._estimated)
        return self._soldier.step(own.tick, own.status, signals, part, self._state, self.plan)


class SeparateProcesses:
    """A process per domain, and a Commander that gets only their reports."""

    def __init__(self, inventory: Inventory, parameters: Parameters) -> None:
        self._inventory = inventory
        domains = range(inventory.priority.size)
        self.processes = [SoldierProcess(inventory, domain, parameters) for domain in domains]
        self._commander = Commander(inventory, Parameters())
        self.decision = no_decision(1, len(self.processes), inventory.pool_cpu.size)

    def start(self, observation: Observation) -> None:
        for process in self.processes:
            process.start(observation)

    def step(self, observation: Observation, forecast: Forecast | None) -> Report:
        reports = [process.step(observation, self.decision.directive) for process in self.processes]
        merged = Report._make(
            np.stack([sums[:, domain] for domain, sums in enumerate(column)], axis=1)
            for column in zip(*reports, strict=True)
        )
        epoch = observation.tick // PER_MINUTE
        if epoch[0] > self.decision.directive.budget.epoch[0]:
            seen = PoolReadings(observation.pool, self._inventory)
            self.decision = self._commander.decide(observation.tick, seen, merged, forecast, epoch)
        return merged


class RecordingSoldiers(Soldiers):
    """Soldiers whose last report is kept."""

    last: Report

    def step(self, *given: Any, **named: Any) -> Report:
        self.last = super().step(*given, **named)
        return self.last


class Tick(NamedTuple):
    """One tick decided by the whole cluster and by a process per domain."""

    plan: Plan
    same_plans: bool
    same_reports: bool
    same_decisions: bool


def same_rows(plan: Plan, process: SoldierProcess) -> bool:
    return all(
        np.array_equal(getattr(plan, name)[:, process.members], getattr(process.plan, name))
        for name in SOLDIERS_FIELDS
    )


def bits(value: object) -> list[bytes]:
    """Of all arrays in nested tuples."""
    if isinstance(value, np.ndarray):
        return [np.ascontiguousarray(value).tobytes()]
    assert isinstance(value, tuple)
    return [found for part in value for found in bits(part)]


def decided_twice(world: World, parameters: Parameters) -> Iterator[Tick]:
    """The world under the whole heuristic, and processes per domain with equal observations."""
    inventory = world.inventory
    whole = Heuristic(inventory, world.layout.pools, Parameters(), Parts())
    whole._soldiers = soldiers = RecordingSoldiers(inventory, Parameters(), Parts())
    separate, forecaster = SeparateProcesses(inventory, parameters), calendar_of(world)
    first = world.observe()
    state, forecaster_state = whole.start(first), forecaster.start(first)
    separate.start(first)
    while world.tick < world.timeline.total_ticks:
        observation = world.observe()
        forecast, forecaster_state = forecaster.step(observation, forecaster_state)
        plan, state = whole.step(observation, forecast, state)
        report = separate.step(observation, forecast)
        yield Tick(
            plan,
            all(same_rows(plan, process) for process in separate.processes),
            bits(soldiers.last) == bits(report),
            bits(state.decision) == bits(separate.decision),
        )
        world.step(plan)


@pytest.mark.parametrize("name", ["flash-sale-20-min-early", "cascade"])
def test_a_process_per_domain_decides_what_the_whole_cluster_decides(name: str) -> None:
    reasons = set()
    for tick in decided_twice(half_an_hour_of(name), Parameters()):
        assert tick.same_plans
        assert tick.same_reports
        assert tick.same_decisions
        reasons |= set(tick.plan.reason.ravel().tolist())
    # Otherwise the comparison would prove little: the processes had little to decide.
    assert reasons > {Reason.SCALE_OUT, Reason.SCALE_IN, Reason.HOLD_BUDGET, Reason.YIELD}


def test_the_comparison_notices_the_last_bit_of_one_parameter() -> None:
    # Kernels take parameters as float32, so the last bit that can matter is that of a float32.
    nearly = float(np.nextafter(np.float32(Parameters().target_p0), np.float32(1.0)))
    ticks = decided_twice(half_an_hour_of("flash-sale-20-min-early"), Parameters(target_p0=nearly))
    assert not all(tick.same_plans and tick.same_reports and tick.same_decisions for tick in ticks)
