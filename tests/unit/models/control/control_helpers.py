"""A small cluster whose state the test sets, and small worlds, for the heuristic."""

import copy

import numpy as np
from numpy.typing import NDArray

from models.cluster import rows
from models.cluster.observation import POOL_STATUS, Observation
from models.cluster.plan import Plan
from models.control.hierarchy import Heuristic, HeuristicState
from models.control.parameters import Parameters, Parts
from models.forecaster.port import HORIZONS_MIN, QUANTILES, Forecast
from models.sim.config.events import Event, Target, Traffic
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import Scenario
from models.sim.declarations import declare
from models.sim.population.generate import generate
from models.sim.world import World

CLUSTER = with_apps(load_sim_cluster(), 40)
POPULATION = generate(CLUSTER)
INVENTORY = declare(POPULATION, CLUSTER, [0])._replace(
    min_replicas=np.full(40, 2, np.int32),
    max_replicas=np.full(40, 400, np.int32),
    # Tests set any number of nodes.
    spend_cap_per_hour=1e9,
)
APPS, DOMAINS, POOLS = 40, INVENTORY.priority.size, INVENTORY.pool_cpu.size
ALL = tuple(CLUSTER.domain_names)
PER_MINUTE = 6
START_REPLICAS = 20
Counts = NDArray[np.int32]


class Plant:
    """A cluster of 40 apps with pods of one core; the test sets all of its state.

    Pods are ready at once and share the work evenly.
    """

    def __init__(self, work: float = 9.0, nodes: int = 5) -> None:
        self.work = np.full(APPS, work, np.float32)
        """[A] load, in fully used pods."""
        self.status = np.zeros((1, rows.STATUS, APPS), np.int32)
        self.status[:, rows.ACTIVE], self.status[:, rows.DOMAIN] = 1, INVENTORY.domain
        self.status[:, rows.CPU_REQUEST], self.status[:, rows.MEMORY_REQUEST] = 1000, 1024
        self.status[:, rows.REPLICAS] = self.status[:, rows.READY] = START_REPLICAS
        self.missing = np.zeros((1, APPS), np.int8)
        self.pool = np.zeros((1, POOLS), POOL_STATUS)
        self.pool["ready"], self.pool["quota"] = nodes, 2 * nodes
        self.broken = np.zeros(APPS, np.bool_)
        self.tick = 0

    def observe(self) -> Observation:
        measured = np.zeros((1, rows.SAMPLES, APPS), np.float32)
        pods = self.status[:, rows.READY]
        measured[:, rows.RPS] = measured[:, rows.THROUGHPUT] = 100 * self.work
        measured[:, rows.P50], measured[:, rows.P99] = 0.001, 0.002
        measured[:, rows.CPU] = np.minimum(self.work, pods) * INVENTORY.saturation
        measured[:, rows.MEMORY], measured[:, rows.PODS] = 0.5 * pods, pods
        measured[:, :, self.broken] = np.nan
        tick = np.full(1, self.tick, np.int32)
        return Observation(tick, measured, self.missing, self.status.copy(), self.pool)

    def apply(self, plan: Plan) -> None:
        self.status[:, rows.REPLICAS] = self.status[:, rows.READY] = plan.replicas
        self.status[:, rows.CPU_REQUEST], self.status[:, rows.MEMORY_REQUEST] = (
            plan.cpu,
            plan.memory,
        )
        self.tick += 1

    def run(
        self,
        controller: Heuristic,
        state: HeuristicState,
        ticks: int,
        forecast: Forecast | None = None,
    ) -> tuple[Counts, HeuristicState]:
        """[ticks, A] replicas after each."""
        plans = []
        for _ in range(ticks):
            plan, state = controller.step(self.observe(), forecast, state)
            self.apply(plan)
            plans.append(plan.replicas[0].copy())
        return np.array(plans), state


def heuristic(**parts: bool) -> Heuristic:
    return Heuristic(INVENTORY, POOLS, Parameters(), Parts(**parts))


def settled(
    work: float = 9.0, nodes: int = 5, **parts: bool
) -> tuple[Plant, Heuristic, HeuristicState]:
    """A cluster after 15 minutes of constant load, at the beginning of a minute."""
    plant, controller = Plant(work, nodes), heuristic(**parts)
    _, state = plant.run(controller, controller.start(plant.observe()), 15 * PER_MINUTE)
    return plant, controller, state


def forecast_of(
    plant: Plant, factor: float, until: int | None = None, width: float = 0.0
) -> Forecast:
    """Each domain's requests grow by a factor; the high quantile is `width` above the median."""
    rps = 100 * np.bincount(INVENTORY.domain, plant.work, DOMAINS)
    shape = (1, DOMAINS, len(HORIZONS_MIN), len(QUANTILES))
    domain = np.broadcast_to(factor * rps[None, :, None, None], shape).astype(np.float32)
    domain[..., 2] *= 1 + width
    return Forecast(
        model="by hand",
        made_tick=np.full(1, plant.tick, np.int32),
        valid_until_tick=np.full(1, plant.tick + 30 if until is None else until, np.int32),
        domain=domain,
        domain_peak=domain[..., 2],
    )


def one_step(
    plant: Plant, controller: Heuristic, state: HeuristicState, forecast: Forecast | None = None
) -> Plan:
    """A step that does not change the state."""
    plan, _ = controller.step(plant.observe(), forecast, copy.deepcopy(state))
    return copy.deepcopy(plan)


def next_steps(
    plant: Plant, controller: Heuristic, state: HeuristicState, forecast: Forecast | None = None
) -> tuple[Plan, Plan]:
    """Two steps on copies: a minute begins, and in the second its directive applies."""
    plant, memory = copy.deepcopy((plant, state))
    plan, memory = controller.step(plant.observe(), forecast, memory)
    first = copy.deepcopy(plan)
    plant.apply(plan)
    return first, one_step(plant, controller, memory, forecast)


def same_plan(one: Plan, other: Plan) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in Plan._fields)


def world_of(*events: Event, minutes: int = 10, seeds: tuple[int, ...] = (0,)) -> World:
    scenario = Scenario(
        name="short", shows="What the test needs.", start="Mon 10:00", length_minutes=minutes,
        warmup_minutes=3, events=events,
    )  # fmt: skip
    return World(CLUSTER, scenario, seeds, POPULATION)


SPIKE = Traffic(
    name="spike", target=Target(domains=("payments",)), at_minute=2, factor=2.5, hold_minutes=5
)
HALF_TRAFFIC = Traffic(
    name="less", target=Target(domains=ALL), at_minute=1, factor=0.5, hold_minutes=30
)
