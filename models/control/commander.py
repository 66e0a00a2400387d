"""The Commander: every minute a budget per domain and one node request per pool.

It sees domain aggregates only: how much work a domain has, what it holds, what is forecast. Need
is the larger of now and soon; nodes are asked for as far ahead as they take to boot, the highest
priority first.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I32
from models.cluster.inventory import Inventory
from models.control.budget import (
    Budget,
    Claims,
    CommanderDecision,
    Directive,
    Pools,
    divide,
    overdrafts,
    shared_pools,
)
from models.control.parameters import Parameters
from models.control.report import Report
from models.control.residual import (
    Residual,
    neutral,
    scale_headroom,
    with_distress,
    with_urgency,
)
from models.features.pools import PoolReadings
from models.forecaster.port import HIGH, HORIZONS_MIN, MEDIAN, Forecast

VALID_MIN: Final = 3
"""A budget outlives two missed ones."""
_ARRIVING: Final = 0.03
"""Nodes that a cloud is expected to deliver within a minute, at most, as a share of those ready."""
_PACKING: Final = 0.93
"""How full nodes get by placing pods one by one."""
_BELIEVED: Final = 0.5
"""Of the growth that is foreseen for lower priorities, for which nodes are prepared."""
_LEAST: Final = 1e-6


_SOON: Final = HORIZONS_MIN.index(5)
"""Within which pods start and, but for a stampede, nodes boot."""
_MOST_GROWTH: Final = 4.0
_MOST_HEADROOM: Final = 0.1
"""Every app of a domain is sized for it, also for what is there already: with more, what an unsure
forecast saves for P0 costs P1 several times as much."""


class Outlook(NamedTuple):
    """[E, D] each; 1 and 0 without a forecast."""

    soon: F64
    """Growth within the time that pods take to start, over now."""
    headroom: F64
    """Share to add: the relative distance from the median to the high quantile."""


def look_ahead(tick: I32, rps: F64, forecast: Forecast | None) -> Outlook:
    """What the forecast says, relative to now; it never says less than now."""
    if forecast is None:
        return Outlook(np.ones_like(rps), np.zeros_like(rps))
    usable = (tick <= forecast.valid_until_tick)[:, None]
    usable = usable & np.isfinite(forecast.domain).all(axis=(2, 3))
    # What cannot be used foretells nothing, and less than now counts as now.
    values = np.where(usable[:, :, None], forecast.domain[:, :, _SOON], 0.0)
    median, high = values[..., MEDIAN], values[..., HIGH]
    width = np.clip(high / np.maximum(median, _LEAST) - 1.0, 0.0, _MOST_HEADROOM)
    return Outlook(_growth(median, rps), width)


def affordable(outlook: Outlook, work: F64, spare: F64) -> Outlook:
    """The same with less headroom where little is `spare` [E], in cores beside the `work` [E, D].

    A forecast is least sure right after a surprise. What is asked for then is too late for that
    surprise, and takes nodes from those who lack what is there already. All domains are cut alike:
    comfort of the highest priority before the work of others costs more than it saves.
    """
    asked = (outlook.headroom * work).sum(axis=1)
    share = np.clip(spare / np.maximum(asked, _LEAST), 0.0, 1.0)
    return outlook._replace(headroom=outlook.headroom * share[:, None])


def _growth(then: F64, now: F64) -> F64:
    """Nothing can be said to grow from nothing: samples may not have arrived yet."""
    growth = np.clip(then / np.maximum(now, _LEAST), 1.0, _MOST_GROWTH)
    return np.where(now > _LEAST, growth, 1.0)


class Commander:
    """Decides for all environments of one cluster."""

    def __init__(self, inventory: Inventory, parameters: Parameters) -> None:
        self._inventory, self._parameters = inventory, parameters
        self._foreseen = parameters.foreseen_level(inventory.priority)
        self._memory_per_core = _memory_per_core(inventory)
        self._highest = inventory.priority == inventory.priority.min()
        self._shared = shared_pools(inventory.domain_pools, inventory.pool_cpu.size) == 1.0

    def decide(
        self,
        tick: I32,
        seen: PoolReadings,
        report: Report,
        forecast: Forecast | None,
        epoch: I32,
        residual: Residual | None = None,
    ) -> CommanderDecision:
        """Budgets and node requests from now on; a policy's `residual` is on what they rest on."""
        residual = residual or neutral(tick.size)
        foreseen = look_ahead(tick, report.rps, forecast)
        outlook = affordable(foreseen, report.work, self._spare(seen, report))
        headroom = scale_headroom(outlook.headroom, residual.headroom)
        outlook = outlook._replace(headroom=headroom)
        report = with_distress(report, residual.urgency)
        budget = self._grant(tick, seen, report, outlook.headroom, epoch)
        # The highest priority prepares pods for what is foreseen, the others a part of the nodes.
        believed = 1.0 + (outlook.soon - 1.0) * np.where(self._highest, 1.0, _BELIEVED)
        coming = report.work / self._foreseen * believed * (1.0 + outlook.headroom)
        wanted = self._place(report, np.maximum(report.wanted, coming), seen.quota.copy())
        release = self._release(seen, report, budget)
        growth = np.where(self._highest, outlook.soon, 1.0)
        return CommanderDecision(
            Directive(with_urgency(budget, residual.urgency), growth, release),
            nodes=self._ask(seen, report, wanted),
            keep=np.ceil(wanted.sum(axis=1)).astype(np.int32),
        )

    def _spare(self, seen: PoolReadings, report: Report) -> F64:
        """[E] free cores, of shared pools if there are any, beyond what single apps lack."""
        free = seen.free_cpu[:, self._shared] if self._shared.any() else seen.free_cpu
        spare: F64 = free.sum(axis=1) - report.distress.sum(axis=1)
        return spare

    def _release(self, seen: PoolReadings, report: Report, budget: Budget) -> F64:
        """What the domains give back for distress that neither free nor arriving nodes cover.

        They come down towards their budgets: the highest priority for its equals only, and else
        by its pending pods; the others for anybody. A domain in distress makes room for its own,
        also where nodes are free but its budget is used up.
        """
        at_most = _ARRIVING * seen.ready.sum(axis=1, keepdims=True)
        arriving = np.minimum(seen.coming, at_most) * self._inventory.pool_cpu
        there = (seen.free_cpu + arriving)[:, self._shared].sum(axis=1, keepdims=True)
        first, distress = self._highest, report.distress
        total = distress.sum(axis=1, keepdims=True)
        of_first = distress[:, first].sum(axis=1, keepdims=True)
        uncovered = np.maximum(0.0, total - there)
        most_of_first = np.maximum(2.0 * np.maximum(0.0, of_first - there), report.pending)
        most = np.minimum(2.0 * uncovered, np.where(first, most_of_first, np.inf))
        beyond = report.held - budget.cores - budget.overdraft
        spare = np.maximum(0.0, report.held - report.essential)
        # Where a budget is used up, its domain can help its own apps by no other means.
        blocked = np.clip(beyond + distress, 0.0, distress)
        own = np.maximum(distress * uncovered / np.maximum(total, _LEAST), blocked)
        release: F64 = np.minimum(spare, np.minimum(np.maximum(0.0, beyond), most) + own)
        return release

    def _grant(
        self, tick: I32, seen: PoolReadings, report: Report, headroom: F64, epoch: I32
    ) -> Budget:
        inventory, part = self._inventory, self._parameters
        pools = Pools(seen.cpu, seen.memory, inventory.domain_pools)
        total = pools.cores.sum(axis=1)
        floor = inventory.floor_share * total[:, None]
        essential = report.essential
        heavy = self._heaviness(report)
        comfort = np.maximum(report.kept, report.wanted)
        claims = Claims(
            floor, essential * heavy, report.kept * heavy, comfort * heavy, report.held * heavy
        )
        grant, reserve = divide(claims, inventory.priority, pools, part.reserve)
        cores = grant.sum(axis=2)
        per_core = pools.memory / np.maximum(pools.cores, _LEAST)
        missing = np.maximum(0.0, essential - report.held) / np.maximum(essential, _LEAST)
        waiting = report.pending / np.maximum(report.held, _LEAST)
        at_risk = report.at_risk / np.maximum(report.apps, 1.0)
        # Only what is free can be drawn: pods beyond it would queue before those in distress.
        free = seen.free_cpu[:, self._shared].sum(axis=1) - report.pending.sum(axis=1)
        drawn = np.clip(free, 0.0, reserve * total)
        return Budget(
            epoch=epoch,
            valid_until_tick=tick + VALID_MIN * 60 // inventory.tick_s,
            share=cores / np.maximum(total, _LEAST)[:, None],
            reserve=reserve,
            pool_cores=grant,
            cores=cores,
            memory=(grant * per_core[:, None, :]).sum(axis=2),
            overdraft=overdrafts(cores, drawn, inventory.priority),
            floor=floor,
            urgency=np.clip(np.maximum(missing, waiting) + at_risk, 0.0, 1.0),
            headroom=headroom,
        )

    def _place(self, report: Report, cores: F64, room: F64) -> F64:
        """[E, D, P] nodes for `cores` [E, D] of each domain, where there is `room` [E, P] for them.

        Like pods: own pools before shared ones, the highest priority first. Room is used up.
        """
        nodes = np.zeros((*cores.shape, room.shape[1]))
        size = self._cores_of_node(report)
        for domain in np.argsort(self._inventory.priority, kind="stable"):
            rest = cores[:, domain] * (1.0 + self._parameters.node_spare) / _PACKING
            for pool in self._inventory.domain_pools[domain]:
                if pool >= 0:
                    there = np.minimum(room[:, pool], rest / size[:, domain, pool])
                    nodes[:, domain, pool] += there
                    room[:, pool] -= there
                    rest -= there * size[:, domain, pool]
        return nodes

    def _ask(self, seen: PoolReadings, report: Report, wanted: F64) -> I32:
        """[E, P, 4] nodes to ask for, by urgency, of the nodes that are `wanted` [E, D, P].

        First those without which the highest priority cannot do its work, then those of the
        others; then the highest priority's comfort, and the others'. Comfort of P0 before the
        work of P1 would cost more than it saves.
        """
        missing = np.maximum(0.0, wanted.sum(axis=1) - seen.ready - seen.coming)
        highest = self._highest
        left = missing.copy()
        urgent = self._place(report, report.distress, left)
        own = np.minimum(left, wanted[:, highest].sum(axis=1))
        parts = (urgent[:, highest].sum(axis=1), urgent[:, ~highest].sum(axis=1), own, left - own)
        # Rounded as a running sum: each part rounded up would ask for more than the quota.
        whole = np.ceil(np.cumsum(np.stack(parts, axis=2), axis=2) - _LEAST)
        asked: I32 = np.diff(np.maximum(whole, 0.0), axis=2, prepend=0.0).astype(np.int32)
        return asked

    def _heaviness(self, report: Report) -> F64:
        """[E, D] times its cores that a domain claims, where its memory takes up more of a pool."""
        per_core = report.held_memory_gib / np.maximum(report.held, _LEAST)
        heavy: F64 = np.maximum(1.0, per_core / self._memory_per_core)
        return heavy

    def _cores_of_node(self, report: Report) -> F64:
        """[E, D, P] cores of a node that pods of the domain's shape can fill.

        Memory binds where pods are heavy for their CPU.
        """
        per_core = report.held_memory_gib / np.maximum(report.held, _LEAST)
        by_memory = self._inventory.pool_memory / np.maximum(per_core, _LEAST)[..., None]
        cores: F64 = np.minimum(self._inventory.pool_cpu.astype(np.float64), by_memory)
        return cores


def _memory_per_core(inventory: Inventory) -> F64:
    """[D] GiB per core in the leanest pool that a domain may use."""
    per_core = (inventory.pool_memory / inventory.pool_cpu).astype(np.float64)
    choices = inventory.domain_pools
    least: F64 = np.where(choices >= 0, per_core[choices], np.inf).min(axis=1)
    return least
