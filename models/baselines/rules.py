"""Baseline: HPA per priority, priority classes with preemption, and reactive rules.

Each priority has its own HPA target, and P0's HPAs act on small deviations. A small rules engine
reacts to pods that wait for nodes:

| pods that wait | rule |
|---|---|
| P0 in a domain | the domain's scale-outs become larger, so that one step is enough |
| a higher priority | P2 and P3 stop growing |
| P0 | P3 releases replicas in steps, down to a floor |
| none | spare nodes are kept in the shared pool, by priority, before pods need them |

The world's node autoscaler batches node requests. Pods are placed by class, with preemption, which
the entrant has to request from the scheduler. Like HPA, it treats zero samples as valid.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.baselines.hpa.simulated import Hpa, HpaState
from models.cluster import rows
from models.cluster.arrays import F64, I32
from models.cluster.inventory import Inventory
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan, Reason
from models.forecaster.port import Forecast
from models.sim.apps import declare
from models.sim.world import World

_P0, _P2, _P3 = 0, 2, 3
_PRIORITIES: Final = 4
_TOLERANCE: Final = 0.1
_NEVER: Final = -(1 << 20)
"""A tick long before any that counts."""
_MILLI: Final = 0.001

Mask = NDArray[np.bool_]


class Parameters(NamedTuple):
    """Targets, thresholds and steps."""

    target_p0: float = 0.6
    """Target CPU use of P0 apps over the use that saturates them; likewise below."""
    target_p1: float = 0.7
    target_p2: float = 0.75
    target_p3: float = 0.8
    tolerance_p0: float = 0.05
    """Deviation above the target from which P0 scales out; HPA's tolerance is 0.1."""
    patience_s: float = 20.0
    """Seconds that pods wait before the rules react."""
    pressing_share: float = 0.002
    """Waiting pods over all pods of their priority; below it no domain has to yield."""
    release_s: float = 300.0
    """Seconds after the last pressure until a stopped priority may grow again."""
    boost: float = 1.1
    """Scale-out steps of P0 apps whose domain waits are multiplied by this."""
    shed_step: float = 0.1
    """Share of its replicas that a P3 app releases per minute."""
    shed_floor: float = 0.8
    """Share of the replicas at the beginning of the pressure that it keeps."""
    headroom_p0: float = 0.03
    """Spare cores over the cores that pods of the priority hold; likewise below."""
    headroom_p1: float = 0.01


RANGES: Final[dict[str, tuple[float, float]]] = {
    "target_p0": (0.4, 0.85),
    "target_p1": (0.45, 0.9),
    "target_p2": (0.5, 0.95),
    "target_p3": (0.5, 0.95),
    "tolerance_p0": (0.0, 0.1),
    "patience_s": (10.0, 120.0),
    "pressing_share": (0.0001, 0.02),
    "release_s": (30.0, 900.0),
    "boost": (1.0, 2.0),
    "shed_step": (0.02, 0.4),
    "shed_floor": (0.2, 1.0),
    "headroom_p0": (0.0, 0.1),
    "headroom_p1": (0.0, 0.05),
}


class RulesState(NamedTuple):
    """E environments, A apps, D domains."""

    hpa: HpaState
    waiting: I32
    """[E, D] ticks in a row in which a domain has had pods without a node."""
    pressed: I32
    """[E, 4] last tick in which more than `pressing_share` of a priority's pods waited too long."""
    before: I32
    """[E, A] replicas at the last tick without P0 pressure, the base of `shed_floor`."""


class RulesEngine:
    """HPA with targets by priority, and rules for which priority yields."""

    name = "rules"
    pipeline = Pipeline.HPA

    def __init__(
        self, inventory: Inventory, pools: int, parameters: Parameters | None = None
    ) -> None:
        self._inventory = inventory
        self._pools = pools
        p = self._parameters = parameters or Parameters()
        priority = inventory.priority[inventory.domain]
        target = np.array([p.target_p0, p.target_p1, p.target_p2, p.target_p3])[priority]
        up = np.where(priority == _P0, p.tolerance_p0, _TOLERANCE)
        self._hpa = Hpa(inventory, pools, inventory.tick_s, target, (up, _TOLERANCE))
        self._headroom = np.array([p.headroom_p0, p.headroom_p1, 0.0, 0.0])[inventory.priority]
        self._overflow = overflow_pools(inventory)

    def start(self, observation: Observation) -> RulesState:
        """Initial state without pressure."""
        environments = observation.tick.size
        return RulesState(
            hpa=self._hpa.start(observation),
            waiting=np.zeros((environments, self._inventory.priority.size), np.int32),
            pressed=np.full((environments, _PRIORITIES), _NEVER, np.int32),
            before=observation.status[:, rows.REPLICAS].copy(),
        )

    def step(
        self,
        observation: Observation,
        forecast: Forecast | None,  # noqa: ARG002  every controller has this shape; rules only react
        state: RulesState,
    ) -> tuple[Plan, RulesState]:
        """HPA's plan, corrected by the rules in the order of the table."""
        plan, hpa = self._hpa.step(observation, None, state.hpa)
        state = self._watch(observation, state._replace(hpa=hpa))
        domain = observation.status[:, rows.DOMAIN]
        priority = self._inventory.priority[domain]
        replicas = self._boosted(observation, plan.replicas, priority, state)
        replicas = self._frozen(observation, replicas, priority, state)
        replicas = self._shed(observation, replicas, priority, state)
        # Zero replicas switch an HPA off; the minimum must not switch it on again.
        bounded = np.clip(replicas, self._inventory.min_replicas, self._inventory.max_replicas)
        plan = _explained(observation, plan, np.where(replicas > 0, bounded, replicas))
        return plan._replace(nodes=self._spare_nodes(observation)), state

    def _watch(self, observation: Observation, state: RulesState) -> RulesState:
        """Update which domains wait, for how long, and which priorities are under pressure."""
        status = observation.status
        live = status[:, rows.ACTIVE] * (
            status[:, rows.READY] + status[:, rows.STARTING] + status[:, rows.PENDING]
        )
        pods = self._by_domain(observation, live.astype(np.float64))
        pending = self._by_domain(observation, status[:, rows.PENDING].astype(np.float64))
        # Ticks in a row by domain, not by pod: an observation has no identities of pods.
        waiting = np.where(pending > 0, state.waiting + 1, 0).astype(np.int32)
        late = np.where(self._is_late(waiting), pending, 0.0)
        share = self._by_priority(late) / np.maximum(1.0, self._by_priority(pods))
        pressing = share > self._parameters.pressing_share
        pressed = np.where(pressing, observation.tick[:, None], state.pressed).astype(np.int32)
        # Frozen during the pressure and until it is released: otherwise every step of `_shed` would
        # lower its own floor.
        calm = ~self._yields(observation, pressed, _P0)[:, None]
        before = np.where(calm, status[:, rows.REPLICAS], state.before).astype(np.int32)
        return state._replace(waiting=waiting, pressed=pressed, before=before)

    def _is_late(self, waiting: I32) -> Mask:
        late: Mask = waiting * self._inventory.tick_s > self._parameters.patience_s
        return late

    def _yields(self, observation: Observation, pressed: I32, to: int) -> Mask:
        """[E] whether priorities up to `to` were under pressure until recently."""
        ago_s = (observation.tick - pressed[:, : to + 1].max(axis=1)) * self._inventory.tick_s
        recent: Mask = ago_s < self._parameters.release_s
        return recent

    def _by_domain(self, observation: Observation, values: F64) -> F64:
        """[E, D] sums of [E, A], by the apps' present domains."""
        domains = self._inventory.priority.size
        pairs = zip(observation.status[:, rows.DOMAIN], values, strict=True)
        return np.array([np.bincount(domain, row, domains) for domain, row in pairs])

    def _by_priority(self, values: F64) -> F64:
        """[E, 4] sums of [E, D]."""
        priority = self._inventory.priority
        return np.array([np.bincount(priority, row, _PRIORITIES) for row in values])

    def _boosted(
        self, observation: Observation, replicas: I32, priority: I32, state: RulesState
    ) -> I32:
        current = observation.status[:, rows.REPLICAS]
        late = np.take_along_axis(
            self._is_late(state.waiting),
            observation.status[:, rows.DOMAIN].astype(np.int64),
            axis=1,
        )
        step = np.ceil((replicas - current) * self._parameters.boost).astype(np.int32)
        applies = late & (priority == _P0) & (replicas > current)
        return np.where(applies, current + step, replicas)

    def _frozen(
        self, observation: Observation, replicas: I32, priority: I32, state: RulesState
    ) -> I32:
        """P2 yields to P0 and P1, P3 to all others."""
        current = observation.status[:, rows.REPLICAS]
        stopped = np.zeros(replicas.shape, np.bool_)
        # P0 and P1 never stop growing.
        for level in (_P2, _P3):
            yields = self._yields(observation, state.pressed, level - 1)
            stopped |= (priority == level) & yields[:, None]
        return np.where(stopped, np.minimum(replicas, current), replicas)

    def _shed(
        self, observation: Observation, replicas: I32, priority: I32, state: RulesState
    ) -> I32:
        """In each minute of P0 pressure, P3 shrinks a step towards its floor."""
        p, tick = self._parameters, observation.tick
        minute = tick * self._inventory.tick_s % 60 < self._inventory.tick_s
        pressing = (tick == state.pressed[:, _P0]) & minute
        current = observation.status[:, rows.REPLICAS]
        floor = np.ceil(p.shed_floor * state.before)
        less = np.maximum(floor, np.floor((1 - p.shed_step) * current)).astype(np.int32)
        applies = pressing[:, None] & (priority == _P3)
        return np.where(applies, np.minimum(replicas, less), replicas)

    def _spare_nodes(self, observation: Observation) -> I32:
        """[E, P, 4] nodes that the headroom lacks, requested in each domain's last pool."""
        status, inventory = observation.status, self._inventory
        cores = (
            status[:, rows.CPU_REQUEST]
            * _MILLI
            * (status[:, rows.READY] + status[:, rows.STARTING])
        )
        spare = self._by_domain(observation, cores) * self._headroom
        # Nodes on their way count as free: what is requested once is not requested again.
        pool = observation.pool
        free = pool["free_cpu"] + pool["coming"] * inventory.pool_cpu
        nodes = np.zeros((observation.tick.size, self._pools, _PRIORITIES), np.int32)
        for domain in np.argsort(inventory.priority, kind="stable"):
            pool_index, priority = self._overflow[domain], inventory.priority[domain]
            short = np.maximum(0.0, spare[:, domain] - free[:, pool_index])
            nodes[:, pool_index, priority] += np.ceil(
                short / inventory.pool_cpu[pool_index]
            ).astype(np.int32)
            # Spare cores of one domain are not spare for the next.
            free[:, pool_index] += short - spare[:, domain]
        return nodes


def _explained(observation: Observation, plan: Plan, replicas: I32) -> Plan:
    """Reasons after the rules: an app that gets less than HPA wanted yields."""
    current = observation.status[:, rows.REPLICAS]
    out = np.where(replicas > current, int(Reason.SCALE_OUT), plan.reason)
    reason = np.where(replicas < plan.replicas, int(Reason.YIELD), out).astype(np.int32)
    return plan._replace(replicas=replicas.astype(np.int32), reason=reason)


def overflow_pools(inventory: Inventory) -> I32:
    """[D] the last pool that a domain may use: it takes pods that do not fit into the others."""
    # A domain lists its pools in order of preference, then -1.
    last = (inventory.domain_pools >= 0).sum(axis=1) - 1
    return np.take_along_axis(inventory.domain_pools, last[:, None], axis=1)[:, 0]


def rules_of(world: World, parameters: Parameters | None = None) -> RulesEngine:
    """A new rules engine for the world."""
    return RulesEngine(declare(world.population, world.cluster), world.layout.pools, parameters)
