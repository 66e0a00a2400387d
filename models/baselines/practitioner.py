"""Baseline: what a team with experience builds from parts that exist.

| part | what it stands for |
|---|---|
| triggers on request rate and CPU, one target per priority | HPAs on external metrics (KEDA) |
| pods are placed by priority | PriorityClasses; the entrant asks for that scheduler |
| spare nodes in every pool | placeholder pods of a negative priority, scaled with the cluster |
| floors before announced events | KEDA's cron scaler, its replicas from the announced factor |

It reads the same samples as our own controller. Placeholders are not simulated as pods: a pod that
fits takes the room at once, as if it evicted one, and nodes for evicted placeholders are requested
last. Other than for real pods, that request is not delayed by the autoscaler's batches.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from models.baselines.hpa.behaviour import BehaviourMemory
from models.baselines.hpa.external import ExternalHpa
from models.baselines.hpa.window import NO_METRIC
from models.baselines.triggers import (
    TARGET_RANGES,
    Load,
    Triggers,
    TriggerState,
    recommend,
)
from models.cluster import rows
from models.cluster.arrays import F64, I32
from models.cluster.calendar import Announcement
from models.cluster.inventory import Inventory
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan
from models.forecaster.port import Forecast
from models.sim.config.timeline import announcements
from models.sim.world import World

_MINUTE_S: Final = 60
_USUAL_MIN: Final = 5
"""Time constant of the usual replicas, from which floors are worked out."""
_LAST: Final = 3
"""Priority of requests for spare nodes: after everything else."""


class Parameters(NamedTuple):
    """Targets, spare nodes, floors and stabilisation."""

    target_p0: float = 0.5
    """Target rate per pod over the rate at which pods are declared to saturate; likewise below."""
    target_p1: float = 0.6
    target_p2: float = 0.75
    target_p3: float = 0.85
    spare_share: float = 0.05
    """Placeholder pods, in cores over the cores in use, in every pool."""
    lead_min: float = 10.0
    """Minutes before an announced start from which its floors hold."""
    stabilisation_s: float = 300.0
    """Window of scaling in: `stabilizationWindowSeconds`."""


RANGES: Final[dict[str, tuple[float, float]]] = {
    **TARGET_RANGES,
    "spare_share": (0.0, 0.15),
    "lead_min": (2.0, 30.0),
    "stabilisation_s": (60.0, 900.0),
}
"""Where the calibration searches."""


class PractitionerState(NamedTuple):
    """E environments, K announcements, A apps."""

    hpa: BehaviourMemory
    triggers: TriggerState
    usual: F64
    """[E, A] replicas at the targets, smoothed; 0 before the first sample."""
    floor: F64
    """[E, K, A] NaN until the floor begins."""


class Practitioner:
    """HPAs on request rate, placeholder pods, and floors for announced events."""

    name = "practitioner"
    pipeline = Pipeline.OURS

    def __init__(
        self,
        inventory: Inventory,
        pools: int,
        announced: Sequence[Announcement],
        parameters: Parameters | None = None,
    ) -> None:
        p = self._parameters = parameters or Parameters()
        self._inventory = inventory
        targets = (p.target_p0, p.target_p1, p.target_p2, p.target_p3)
        self._triggers = Triggers(inventory, targets)
        self._hpa = ExternalHpa(inventory, pools, p.stabilisation_s)
        self._floors = Floors(inventory, announced, p.lead_min)

    def start(self, observation: Observation) -> PractitionerState:
        """Initial state; no floor has begun."""
        return PractitionerState(
            hpa=self._hpa.start(observation),
            triggers=self._triggers.start(observation),
            usual=np.zeros(observation.missing.shape),
            floor=self._floors.start(observation),
        )

    def step(
        self,
        observation: Observation,
        forecast: Forecast | None,  # noqa: ARG002  every controller has this shape; it uses none
        state: PractitionerState,
    ) -> tuple[Plan, PractitionerState]:
        """What the triggers and floors recommend, through the HPAs, and spare nodes."""
        load, triggers = self._triggers.read(observation, state.triggers)
        usual = self._smoothed(load, state.usual)
        floor, due = self._floors.step(observation, usual, state.floor)
        wanted = recommend(observation, load, due)
        plan = self._hpa.step(observation, wanted, state.hpa)
        self._hold_spare_nodes(observation, plan)
        return plan, state._replace(triggers=triggers, usual=usual, floor=floor)

    def _smoothed(self, load: Load, usual: F64) -> F64:
        now = load.replicas
        step = min(1.0, self._inventory.tick_s / (_USUAL_MIN * _MINUTE_S))
        followed = np.where(usual > 0, usual + step * (now - usual), now)
        smoothed: F64 = np.where(load.failed, usual, followed)
        return smoothed

    def _hold_spare_nodes(self, observation: Observation, plan: Plan) -> None:
        """Request what placeholders lack, and keep the nodes that they occupy."""
        pool, cpu = observation.pool, self._inventory.pool_cpu
        used = np.maximum(0.0, pool["ready"] * cpu - pool["free_cpu"])
        spare = self._parameters.spare_share * used
        # Nodes on their way count: what is requested once is not requested again.
        short = spare - pool["free_cpu"] - pool["coming"] * cpu
        plan.nodes[:] = 0
        plan.nodes[:, :, _LAST] = np.ceil(np.maximum(0.0, short) / cpu)
        idle = np.maximum(0.0, pool["free_cpu"] - spare)
        plan.keep[:] = pool["ready"] - np.floor(idle / cpu)


class Floors:
    """Replicas that a cron scaler asks for, from some minutes before an event to its end."""

    def __init__(
        self, inventory: Inventory, announced: Sequence[Announcement], lead_min: float
    ) -> None:
        lead = round(lead_min * _MINUTE_S / inventory.tick_s)
        self._begin = np.array([one.start_tick - lead for one in announced], np.int64)
        self._end = np.array([one.end_tick for one in announced], np.int64)
        self._factor = np.array([one.expected_factor for one in announced], np.float64)
        self._named = np.zeros((len(announced), inventory.priority.size), np.bool_)
        for row, one in enumerate(announced):
            self._named[row, list(one.domains)] = True

    def start(self, observation: Observation) -> F64:
        """[E, K, A] no floor."""
        environments, apps = observation.missing.shape
        return np.full((environments, self._begin.size, apps), np.nan)

    def step(self, observation: Observation, usual: F64, floor: F64) -> tuple[F64, I32]:
        """The floors, fixed when they begin, and [E, A] the highest in force now or NO_METRIC."""
        shape = observation.missing.shape
        if self._begin.size == 0:
            return floor, np.full(shape, NO_METRIC, np.int32)
        tick = observation.tick[:, None]
        on = (self._begin <= tick) & (tick < self._end)
        # An app's present domain: apps can move.
        named = self._named[:, observation.status[:, rows.DOMAIN]].transpose(1, 0, 2)
        holds = on[:, :, None] & named
        # Not below what is usual: a cron scaler adds replicas and never takes any away.
        raised = np.ceil(np.maximum(1.0, self._factor)[None, :, None] * usual[:, None])
        begins = holds & np.isnan(floor) & (usual > 0)[:, None]
        floor = np.where(begins, raised, floor)
        due = np.where(holds & ~np.isnan(floor), floor, float(NO_METRIC)).max(axis=1)
        return floor, due.astype(np.int32)


def practitioner_of(world: World, parameters: Parameters | None = None) -> Practitioner:
    """A practitioner for the world, who knows what was announced."""
    announced = announcements(world.scenario.calendar, world.cluster.domain_names, world.timeline)
    return Practitioner(world.inventory, world.layout.pools, announced, parameters)
