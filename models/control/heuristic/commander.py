"""The Commander: every minute a budget per domain and one node request per pool.

It sees domain aggregates only: how much work a domain has, what it holds, what is forecast. Need
is the larger of now and soon; nodes are asked for ahead, for the forecast's peak, the highest
priority first.
"""

from typing import Final, NamedTuple

import numpy as np

from models.control.budget import Budget, Claims, Pools, divide, overdrafts, shared_pools
from models.control.heuristic.aggregates import BEARABLE, Aggregates
from models.control.heuristic.parameters import Parameters
from models.features.pools import Seen
from models.forecaster.port import HIGH, HORIZONS_MIN, MEDIAN, Forecast
from models.sim.apps import F64, I32
from models.sim.inventory import Inventory

VALID_MIN: Final = 3
"""A budget outlives two missed ones."""
_ARRIVING: Final = 0.03
"""Nodes that a cloud is expected to deliver within a minute, at most, as a share of those ready."""
_PACKING: Final = 0.93
"""How full nodes get by placing pods one by one."""
_FORESEEN: Final = 0.78
"""Utilisation at which the highest priority meets what is foreseen."""
_SOON, _LATER, _HALF_HOUR = range(len(HORIZONS_MIN))
_MOST_GROWTH: Final = 4.0
_MOST_HEADROOM: Final = 0.3
_LEAST: Final = 1e-6


class Outlook(NamedTuple):
    """What a forecast means for the domains, [E, D] each; 1 and 0 without one."""

    soon: F64
    """Growth within the time that pods take to start, over now."""
    peak: F64
    """Growth to prepare nodes for."""
    headroom: F64
    """Share to add: the relative distance from the median to the high quantile."""


class Orders(NamedTuple):
    """What the Commander decides in a minute."""

    budget: Budget
    nodes: I32
    """[E, P, 4] nodes to ask for, by priority of the need."""
    keep: I32
    """[E, P] nodes that are not to be scaled down: they wait for what is coming."""
    release: F64
    """[E, D] cores that each domain gives back, because others cannot do without."""


class Commander:
    """Decides for all environments of one cluster."""

    def __init__(self, inventory: Inventory, parameters: Parameters) -> None:
        self._inventory, self._parameters = inventory, parameters
        surge = np.maximum(parameters.surge_target, parameters.target(inventory.priority))
        # What is foreseen is prepared for with less comfort than what is there: announcements
        # exaggerate, and what was prepared in vain is missing elsewhere.
        highest = inventory.priority == inventory.priority.min()
        level = np.where(highest, _FORESEEN, BEARABLE)
        self.foreseen_level: F64 = np.maximum(surge, level)

    def decide(
        self, tick: I32, seen: Seen, domains: Aggregates, outlook: Outlook, epoch: I32
    ) -> Orders:
        """Budgets and node requests from now on."""
        budget = self._grant(tick, seen, domains, outlook.headroom, epoch)
        coming = domains.work / self.foreseen_level * outlook.peak * (1.0 + outlook.headroom)
        wanted = self._place(domains, np.maximum(domains.wanted, coming), seen.quota.copy())
        return Orders(
            budget=budget,
            nodes=self._ask(seen, domains, wanted),
            keep=np.ceil(wanted.sum(axis=1)).astype(np.int32),
            release=self._release(seen, domains, budget),
        )

    def _release(self, seen: Seen, domains: Aggregates, budget: Budget) -> F64:
        """What the domains give back for distress that neither free nor arriving nodes cover.

        A domain of the highest priority gives its pending pods only; a lower one comes down to
        its budget; and a domain in distress makes room for its own.
        """
        inventory = self._inventory
        shared = shared_pools(inventory.domain_pools, inventory.pool_cpu.size)
        most = _ARRIVING * seen.ready.sum(axis=1, keepdims=True)
        arriving = np.minimum(seen.coming, most) * inventory.pool_cpu
        free = ((seen.free_cpu + arriving) * shared).sum(axis=1)
        distress = domains.distress
        uncovered = np.maximum(0.0, distress.sum(axis=1) - free)[:, None]
        part = uncovered / np.maximum(distress.sum(axis=1, keepdims=True), _LEAST)
        above = np.maximum(0.0, domains.held - budget.cores - budget.overdraft)
        first = inventory.priority == inventory.priority.min()
        above = np.where(first, np.minimum(above, domains.pending), above)
        spare = np.maximum(0.0, domains.held - domains.essential)
        release: F64 = np.minimum(spare, np.minimum(above, 2.0 * uncovered) + distress * part)
        return release

    def _grant(
        self, tick: I32, seen: Seen, domains: Aggregates, headroom: F64, epoch: I32
    ) -> Budget:
        inventory, part = self._inventory, self._parameters
        pools = Pools(seen.cpu, seen.memory, inventory.domain_pools)
        total = pools.cores.sum(axis=1)
        floor = inventory.floor_share * total[:, None]
        essential = domains.essential
        comfort = np.maximum(domains.kept, domains.wanted)
        claims = Claims(floor, essential, domains.kept, comfort, domains.held)
        grant, reserve = divide(claims, inventory.priority, pools, part.reserve)
        cores = grant.sum(axis=2)
        per_core = pools.memory / np.maximum(pools.cores, _LEAST)
        missing = np.maximum(0.0, essential - domains.held) / np.maximum(essential, _LEAST)
        waiting = domains.pending / np.maximum(domains.held, _LEAST)
        return Budget(
            epoch=epoch,
            valid_until_tick=tick + VALID_MIN * 60 // inventory.tick_s,
            share=cores / np.maximum(total, _LEAST)[:, None],
            reserve=reserve,
            pool_cores=grant,
            cores=cores,
            memory=(grant * per_core[:, None, :]).sum(axis=2),
            overdraft=overdrafts(cores, reserve * total, inventory.priority),
            floor=floor,
            urgency=np.clip(np.maximum(missing, waiting) + domains.at_risk, 0.0, 1.0),
            headroom=headroom,
        )

    def _place(self, domains: Aggregates, cores: F64, room: F64) -> F64:
        """[E, D, P] nodes for `cores` [E, D] of each domain, where there is `room` [E, P] for them.

        Like pods: own pools before shared ones, the highest priority first. Room is used up.
        """
        nodes = np.zeros((*cores.shape, room.shape[1]))
        size = self._cores_of_node(domains)
        for domain in np.argsort(self._inventory.priority, kind="stable"):
            rest = cores[:, domain] * (1.0 + self._parameters.node_spare) / _PACKING
            for pool in self._inventory.domain_pools[domain]:
                if pool >= 0:
                    there = np.minimum(room[:, pool], rest / size[:, domain, pool])
                    nodes[:, domain, pool] += there
                    room[:, pool] -= there
                    rest -= there * size[:, domain, pool]
        return nodes

    def _ask(self, seen: Seen, domains: Aggregates, wanted: F64) -> I32:
        """[E, P, 4] nodes to ask for, by urgency, of the nodes that are `wanted` [E, D, P].

        First those without which the highest priority cannot do its work, then those of the
        others; then the highest priority's comfort, and the others'. Comfort of P0 before the
        work of P1 would cost more than it saves.
        """
        missing = np.maximum(0.0, wanted.sum(axis=1) - seen.ready - seen.coming)
        highest = self._inventory.priority == self._inventory.priority.min()
        left = missing.copy()
        urgent = self._place(domains, domains.distress, left)
        own = np.minimum(left, wanted[:, highest].sum(axis=1))
        parts = (urgent[:, highest].sum(axis=1), urgent[:, ~highest].sum(axis=1), own, left - own)
        # Rounded as a running sum: each part rounded up would ask for more than the quota.
        whole = np.ceil(np.cumsum(np.stack(parts, axis=2), axis=2) - _LEAST)
        asked: I32 = np.diff(np.maximum(whole, 0.0), axis=2, prepend=0.0).astype(np.int32)
        return asked

    def _cores_of_node(self, domains: Aggregates) -> F64:
        """[E, D, P] cores of a node that pods of the domain's shape can fill.

        Memory binds where pods are heavy for their CPU.
        """
        per_core = domains.held_memory / np.maximum(domains.held, _LEAST)
        by_memory = self._inventory.pool_memory / np.maximum(per_core, _LEAST)[..., None]
        cores: F64 = np.minimum(self._inventory.pool_cpu.astype(np.float64), by_memory)
        return cores


def look_ahead(tick: I32, rps: F64, forecast: Forecast | None) -> Outlook:
    """What the forecast says, relative to now; it never says less than now."""
    ones = np.ones_like(rps)
    if forecast is None:
        return Outlook(ones, ones, np.zeros_like(rps))
    numbers = np.isfinite(forecast.domain).all(axis=(2, 3))
    numbers &= np.isfinite(forecast.domain_peak).all(axis=2)
    usable = (tick <= forecast.valid_until_tick)[:, None] & numbers
    # What cannot be used foretells nothing, and less than now counts as now.
    values = np.where(usable[:, :, None, None], forecast.domain, 0.0)
    peaks = np.where(usable[:, :, None], forecast.domain_peak, 0.0)
    now = np.maximum(rps, _LEAST)
    median = values[..., MEDIAN]
    soon = np.clip(median[..., _SOON] / now, 1.0, _MOST_GROWTH)
    peak = np.clip(peaks[..., _HALF_HOUR] / now, 1.0, _MOST_GROWTH)
    high = values[..., _SOON, HIGH]
    width = np.clip(high / np.maximum(median[..., _SOON], _LEAST) - 1.0, 0.0, _MOST_HEADROOM)
    return Outlook(soon, peak, width)
