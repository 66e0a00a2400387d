"""SoldierEnv: one decision per tick, about the tier groups of one domain."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import I32
from models.cluster.inventory import declare_cluster
from models.compare.families import HEURISTIC, family_of
from models.environments.environment import Environment, Episode
from models.environments.heuristic_adapters import (
    HeuristicAdapterState,
    SoldierAdapter,
    domain_index,
)
from models.sim.accounting import ARRIVED, VIOLATED
from models.sim.config.physics import SimCluster
from models.sim.config.scenario import Scenario
from models.sim.results.summary import Result
from models.sim.world import World

CHANGE_COST: Final = 0.002
"""Cost of an applied change in node-hours: a pod that runs some minutes for nothing."""
_PER_APP: Final = 10.0
"""Scale of the reward per app, as for the Commander: a quiet tick costs some hundredths."""


class Requests(NamedTuple):
    """Requests of a domain since the warm-up ended."""

    arrived: float
    violated: float


class SoldierEnv(Environment[HeuristicAdapterState]):
    """A residual on the need of one domain's apps; the other domains run the plain heuristic.

    Observation: normalised features of the domain's tier groups, then those of the domain.
    Action: for each tier group a factor on the pods that its apps need; zeros are the heuristic.
    Reward: -(weight x apps x violating share of the tick's requests x minutes
              + cores held / cores of a node x hours + CHANGE_COST x applied changes)
    x `reward_scale`, in the units of J: priority-weighted violation minutes and node-hours.
    """

    def __init__(
        self,
        domain: str = "payments",
        scenarios: Sequence[Scenario | str | Path] | None = None,
        cluster: SimCluster | None = None,
        forecast: str = "calendar",
    ) -> None:
        self._domain = domain
        super().__init__(scenarios, cluster, forecast, family_of(HEURISTIC).scheduling)
        self._before = Requests(0.0, 0.0)
        self._cost = 0.0
        self._index = domain_index(self._cluster.domain_names, domain)
        inventory = declare_cluster(self._cluster)
        declared = self._cluster.domains[self._index]
        self._weight = self._cluster.priority_weights[declared.priority]
        # Of its preferred pool: which pool a pod lands in is not the Soldier's decision.
        self._node_cores = float(inventory.pool_cpu[inventory.domain_pools[self._index, 0]])
        self.reward_scale = _PER_APP / self._cluster.physics_of(declared).apps

    def _adapter_of(self, world: World) -> SoldierAdapter:
        return SoldierAdapter(world, self._domain)

    def _begin(self, world: World) -> None:  # noqa: ARG002  the interface
        self._before, self._cost = Requests(0.0, 0.0), 0.0

    def _after_tick(self, episode: Episode[HeuristicAdapterState]) -> None:
        world = episode.world
        minutes = world.cluster.tick_seconds / 60.0
        status = world.state.status[0]
        in_domain = (status[rows.DOMAIN] == self._index) & (status[rows.ACTIVE] == 1)
        violations = self._weight * in_domain.sum() * self._violating_share(world) * minutes
        # Held cores as parts of a node: which nodes the cluster runs is no decision of one domain.
        nodes = held_cores(status[:, in_domain]) / self._node_cores * minutes / 60.0
        # The world has advanced already: what was applied belongs to the tick before.
        changes = (world.accounts.last["tick"][0, in_domain] == world.tick - 1).sum()
        self._cost += float(violations + nodes + CHANGE_COST * changes)

    def _reward(self, results: list[Result]) -> float:  # noqa: ARG002  has no figures per domain
        cost, self._cost = self._cost, 0.0
        return -cost * self.reward_scale

    def _violating_share(self, world: World) -> float:
        """Violating share of the requests since the last call."""
        now = requests_of(world, self._index)
        arrived = now.arrived - self._before.arrived
        violated = now.violated - self._before.violated
        self._before = now
        # An app that moves takes the requests of the open minute along, so differences may be < 0.
        return float(np.clip(violated / arrived, 0.0, 1.0)) if arrived > 0 else 0.0


def requests_of(world: World, domain: int) -> Requests:
    """Requests of the closed minutes and the open one."""
    accounts = world.accounts
    in_domain = world.state.status[0, rows.DOMAIN] == domain
    # J is accounted per minute, the reward per tick: the open minute has to count as well.
    closed, opened = (
        accounts.domains[0, domain],
        accounts.minute_requests[0][:, in_domain].sum(axis=1),
    )
    return Requests(
        float(closed[ARRIVED] + opened[ARRIVED]), float(closed[VIOLATED] + opened[VIOLATED])
    )


def held_cores(status: I32) -> float:
    """CPU requests of bound and pending pods, surge included."""
    # Replicas without pods yet hold capacity, too, as do surge pods.
    pods = np.maximum(
        status[rows.REPLICAS], status[rows.READY] + status[rows.STARTING] + status[rows.PENDING]
    )
    return float((pods * status[rows.CPU_REQUEST].astype(np.float64)).sum()) / 1000.0
