"""The Commander: every minute a budget per domain and one node request per pool.

It works on domain sums only: how much work a domain has, what it holds, what is forecast. Nodes are
kept where pods are, and requested for the larger of what Soldiers want and what is forecast in five
minutes, the highest priority first. Budgets divide what Soldiers report. The forecast reaches them
a minute later: growth and headroom of this directive raise what the Soldiers report next.
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
from models.control.insurance import StandingPods
from models.control.parameters import Parameters
from models.control.report import Report
from models.control.residual import (
    Residual,
    believe,
    neutral,
    scale,
    scale_headroom,
    with_distress,
    with_urgency,
)
from models.control.spending import within_cap
from models.features.pools import PoolReadings
from models.forecaster.port import HIGH, HORIZONS_MIN, MEDIAN, Forecast, ticks_per_minute

VALID_MIN: Final = 3
"""Minutes: a budget outlives two missed ones."""
# The numbers below are not among the tuned ones (`parameters.RANGES`). They were chosen by hand on
# the shipped scenarios, and no record compares other values, except where it says so.
_ARRIVING: Final = 0.03
"""Nodes that a cloud delivers within a minute at most, as a share of the ready ones."""
_BOOT_MIN: Final = 1.0
"""Minutes from a node request until pods on it are ready."""
_BELIEVED: Final = 0.5
"""Share of the forecast growth of lower priorities for which nodes are prepared. Not all of it: a
campaign announced at twice its size would buy nodes for nothing, which then leave slowly."""
_PROTECTED: Final = 1
"""The lowest priority that gets headroom."""
_LACKING: Final = 0.01
"""Share of what the highest priority holds that it may lack and still count as served."""
_LEAST: Final = 1e-6
"""Guards divisions, and rounding up: fewer cores or nodes than this are none."""
_SOON: Final = HORIZONS_MIN.index(5)
"""Horizon within which pods start and, except in a stampede, nodes boot."""
_LATER: Final = tuple(HORIZONS_MIN.index(minutes) for minutes in (15, 30))
"""Horizons of a rise that the cloud cannot follow within the first one."""
_LATER_MIN: Final = np.array([HORIZONS_MIN[index] for index in _LATER], np.float64)
_MOST_GROWTH: Final = 4.0
"""Largest growth to prepare for, whatever a forecast says."""
_MOST_HEADROOM: Final = 0.1
"""Headroom applies to the present load as well. With more of it, what P0 gains from an unsure
forecast costs P1 several times as much."""


class Outlook(NamedTuple):
    """A forecast relative to now, never less than now; 1, and no width, without a forecast."""

    soon: F64
    """[E, D] load within the time that pods take to start, over load now."""
    width: F64
    """[E, D] relative distance from its median to its high quantile."""
    ahead: F64
    """[E, D, H] load at each horizon over load now."""


def look_ahead(tick: I32, rps: F64, forecast: Forecast | None) -> Outlook:
    """The forecast relative to now."""
    if forecast is None:
        ahead = np.ones((*rps.shape, len(HORIZONS_MIN)))
        return Outlook(np.ones_like(rps), np.zeros_like(rps), ahead)
    usable = (tick <= forecast.valid_until_tick)[:, None]
    # One broken number discards the whole forecast of its domain.
    usable = usable & np.isfinite(forecast.domain).all(axis=(2, 3))
    # An expired or broken forecast becomes zero, and less than now counts as now.
    values = np.where(usable[:, :, None, None], forecast.domain, 0.0)
    median, high = values[..., MEDIAN], values[:, :, _SOON, HIGH]
    width = np.maximum(high / np.maximum(median[..., _SOON], _LEAST) - 1.0, 0.0)
    ahead = _growth(median, rps[..., None])
    return Outlook(ahead[..., _SOON], width, ahead)


def affordable(headroom: F64, work: F64, spare: F64) -> F64:
    """[E, D] headroom, cut to the `spare` cores [E] beside the `work` [E, D].

    Right after a surprise nodes are scarcest. Headroom requested then is too late for that
    surprise, and takes nodes from apps that lack pods already. All domains are cut alike: comfort
    of the highest priority before the work of others costs more than it saves.
    """
    asked = (headroom * work).sum(axis=1)
    # Spare cores may be negative, when apps lack more than is free: then there is no headroom.
    share = np.clip(spare / np.maximum(asked, _LEAST), 0.0, 1.0)
    cut: F64 = headroom * share[:, None]
    return cut


def _growth(then: F64, now: F64) -> F64:
    """Growth from zero is 1, not infinite: samples may not have arrived yet."""
    growth = np.clip(then / np.maximum(now, _LEAST), 1.0, _MOST_GROWTH)
    return np.where(now > _LEAST, growth, 1.0)


class Commander:
    """Decides for all environments of one cluster."""

    def __init__(self, inventory: Inventory, parameters: Parameters) -> None:
        self._inventory, self._parameters = inventory, parameters
        self._foreseen = parameters.foreseen_level(inventory.priority)
        protected = inventory.priority <= _PROTECTED
        self._protected = protected.astype(np.float64)
        self._memory_per_core = _memory_per_core(inventory)
        self._highest = inventory.priority == inventory.priority.min()
        self._surge = parameters.surge_level(inventory.priority)
        # [D, D] of the row's distress, that for which the highest priority of the column releases.
        # Not that of its callers: their surge reaches it next.
        self._heeded = ((inventory.calls == 0.0) & self._highest[:, None]).astype(np.float64)
        self._standing = StandingPods(inventory, parameters)
        self._shared = shared_pools(inventory.domain_pools, inventory.pool_cpu.size) == 1.0

    def decide(
        self,
        tick: I32,
        pools: PoolReadings,
        report: Report,
        forecast: Forecast | None,
        epoch: I32,
        residual: Residual | None = None,
    ) -> CommanderDecision:
        """Budgets and node requests from now on; `residual` holds a policy's factors."""
        residual = residual or neutral(tick.size)
        outlook = look_ahead(tick, report.rps, forecast)
        # Not less with a surer forecast: it foresees the usual, and no surge that nobody announced.
        wanted = np.clip(outlook.width, self._parameters.headroom, _MOST_HEADROOM)
        demand = affordable(wanted * self._protected, report.work, self._spare(pools, report))
        # After the cut to what is spare: a policy may go beyond it, within the safety rules.
        headroom = self._standing.cushioned(demand, report)
        headroom = scale_headroom(headroom, residual.headroom)
        # After that: insurance is the operator's, not a policy's.
        headroom, insured = self._standing.insured(headroom, report)
        standing = np.maximum(0.0, headroom - np.maximum(0.0, demand))
        report = with_distress(report, residual.urgency)
        # Standing pods come after everybody's comfort: what is left over is divided by weight.
        comfort = scale(report.wanted * (1.0 - standing / (1.0 + headroom)), residual.comfort)
        budget = self._make_budget(tick, pools, report, comfort, headroom, epoch)
        budget = budget._replace(insured=insured)
        spare = scale(np.full((tick.size, 1), self._parameters.node_spare), residual.spare)
        # The highest priority prepares pods for forecast load, the others a part of the nodes.
        believed = 1.0 + (outlook.soon - 1.0) * np.where(self._highest, 1.0, _BELIEVED)
        believed = believe(believed, outlook.ahead, residual.nodes, _MOST_GROWTH)
        coming = report.work / self._foreseen * believed * (1.0 + headroom)
        coming = np.maximum(coming, self._prepared(report, outlook))
        # Pods don't move. Nodes for pods that have one are kept where these pods are, and only what
        # is missing is placed anew: counted in the preferred pools, they would be paid for twice.
        occupied, price = self._standing.nodes(
            self._filled(pools),
            spare,
            self._cores_of_node(report),
            report,
            standing / (1.0 + headroom),
            insured / (1.0 + headroom),
        )
        missing = np.maximum(report.wanted, coming) - (report.held - report.pending)
        room = np.maximum(0.0, pools.quota - occupied)
        extra = self._nodes_for(report, np.maximum(0.0, missing), room, spare)
        nodes = np.minimum(occupied + extra.sum(axis=1), pools.quota)
        release = self._release(pools, report, budget)
        # Pods prepared for a campaign that was announced too large would take room from others for
        # nothing, so lower priorities follow their load.
        growth = np.where(self._highest, outlook.soon, 1.0)
        growth = believe(growth, outlook.ahead, residual.pods, _MOST_GROWTH)
        requested = self._request_nodes(pools, report, nodes, extra, spare)
        left = self._inventory.spend_cap_per_hour - pools.price_per_hour
        requested = within_cap(requested, pools.price, left)
        return CommanderDecision(
            Directive(with_urgency(budget, residual.urgency), growth, release),
            nodes=requested,
            # Otherwise the provisioner would remove prepared nodes as idle before their load comes.
            keep=_whole(nodes),
            insured=_whole(nodes) - _whole(nodes - price),
            spend_left=left - requested.sum(axis=2) @ pools.price,
        )

    def _spare(self, pools: PoolReadings, report: Report) -> F64:
        """[E] free cores, of shared pools if there are any, beyond what single apps lack."""
        free = pools.free_cpu[:, self._shared] if self._shared.any() else pools.free_cpu
        spare: F64 = free.sum(axis=1) - report.distress.sum(axis=1)
        return spare

    def _release(self, pools: PoolReadings, report: Report, budget: Budget) -> F64:
        """Cores that domains release for distress that neither free nor arriving nodes cover.

        Domains shrink towards their budgets. The highest priority releases running pods for its own
        priority, but not for its callers, and its room for surges for lower ones; it releases
        pending pods, and lower priorities release all, for any. A domain in distress makes room for
        its own apps, also where nodes are free but its budget is used up.
        """
        # Not all that is coming: in a stampede most of it is minutes away.
        at_most = _ARRIVING * pools.ready.sum(axis=1, keepdims=True)
        arriving = np.minimum(pools.coming, at_most) * self._inventory.pool_cpu
        # Shared pools only: free cores in a domain's own pool help no other domain.
        available = (pools.free_cpu + arriving)[:, self._shared].sum(axis=1, keepdims=True)
        highest, distress = self._highest, report.distress
        total = distress.sum(axis=1, keepdims=True)
        of_highest = distress @ self._heeded
        of_others = distress[:, ~highest].sum(axis=1, keepdims=True)
        uncovered = np.maximum(0.0, total - available)
        # Asks for twice what is uncovered, a factor chosen by hand: apps in their cool-down, and
        # those with too little to spare, release nothing. The safety rules still limit the rest.
        most_of_highest = np.maximum(2.0 * np.maximum(0.0, of_highest - available), report.pending)
        # Room for a surge that is not there yields to work that is, down to where surges are met.
        # Not while any domain of the highest priority lacks capacity itself: the surge is there.
        roomy = np.maximum(0.0, report.held - report.work / self._surge)
        lacking = distress[:, highest].sum(axis=1, keepdims=True)
        enough = lacking <= _LACKING * report.held[:, highest].sum(axis=1, keepdims=True)
        roomy = np.where(enough, roomy, 0.0)
        roomy = np.minimum(roomy, 2.0 * np.maximum(0.0, of_others - available))
        most_of_highest = np.maximum(most_of_highest, roomy)
        most = np.minimum(2.0 * uncovered, np.where(highest, most_of_highest, np.inf))
        beyond = report.held - budget.cores - budget.overdraft
        # App by app, as distress: what some apps lack does not use up what others have to spare.
        spare = np.maximum(0.0, report.held - report.pending - report.essential + distress)
        # With its budget used up, a domain can help its own apps in no other way.
        blocked = np.clip(beyond + distress, 0.0, distress)
        own = np.maximum(distress * uncovered / np.maximum(total, _LEAST), blocked)
        release: F64 = np.minimum(spare, np.minimum(np.maximum(0.0, beyond), most) + own)
        return release

    def _make_budget(
        self,
        tick: I32,
        pools: PoolReadings,
        report: Report,
        comfort: F64,
        headroom: F64,
        epoch: I32,
    ) -> Budget:
        inventory = self._inventory
        # Ready nodes only: pods that were granted booting nodes queued before those in distress.
        capacity = Pools(pools.cpu, pools.memory, inventory.domain_pools)
        total = capacity.cores.sum(axis=1)
        floor = inventory.floor_share * total[:, None]
        essential = report.essential
        heavy = self._heaviness(report)
        comfort = np.maximum(report.kept, comfort)
        claims = Claims(
            floor, essential * heavy, report.kept * heavy, comfort * heavy, report.held * heavy
        )
        grant, reserve = divide(claims, inventory.priority, capacity, self._parameters.reserve)
        cores = grant.sum(axis=2)
        per_core = capacity.memory / np.maximum(capacity.cores, _LEAST)
        missing = np.maximum(0.0, essential - report.held) / np.maximum(essential, _LEAST)
        waiting = report.pending / np.maximum(report.held, _LEAST)
        at_risk = report.at_risk / np.maximum(report.apps, 1.0)
        # An overdraft needs free cores: more pods would queue before those of apps in distress.
        free = pools.free_cpu[:, self._shared].sum(axis=1) - report.pending.sum(axis=1)
        drawn = np.clip(free, 0.0, reserve * total)
        return Budget(
            epoch=epoch,
            valid_until_tick=tick + VALID_MIN * ticks_per_minute(inventory.tick_s),
            share=cores / np.maximum(total, _LEAST)[:, None],
            reserve=reserve,
            pool_cores=grant,
            cores=cores,
            memory=(grant * per_core[:, None, :]).sum(axis=2),
            overdraft=overdrafts(cores, drawn, inventory.priority),
            floor=floor,
            urgency=np.clip(np.maximum(missing, waiting) + at_risk, 0.0, 1.0),
            headroom=headroom,
            insured=np.zeros_like(headroom),
        )

    def _nodes_for(self, report: Report, cores: F64, room: F64, spare: F64) -> F64:
        """[E, D, P] nodes that hold `cores` [E, D], as far as there is `room` [E, P].

        Assigned like pods: own pools before shared ones, the highest priority first. Reduces
        `room` in place. `spare` [E, 1] is the share of nodes to keep free.
        """
        nodes = np.zeros((*cores.shape, room.shape[1]))
        size = self._cores_of_node(report)
        # Stable, so that domains of one priority keep their declared order in every process.
        for domain in np.argsort(self._inventory.priority, kind="stable"):
            rest = cores[:, domain] * (1.0 + spare[:, 0])
            for pool in self._inventory.domain_pools[domain]:
                if pool >= 0:
                    fits = np.minimum(room[:, pool], rest / size[:, domain, pool])
                    nodes[:, domain, pool] += fits
                    room[:, pool] -= fits
                    rest -= fits * size[:, domain, pool]
        return nodes

    def _filled(self, pools: PoolReadings) -> F64:
        """[E, P] nodes that the bound pods would fill."""
        cpu, memory = self._inventory.pool_cpu, self._inventory.pool_memory
        by_cpu = (pools.cpu - pools.free_cpu) / cpu
        by_memory = (pools.memory - pools.free_memory) / memory
        nodes: F64 = np.maximum(by_cpu, by_memory)
        return nodes

    def _prepared(self, report: Report, outlook: Outlook) -> F64:
        """[E, D] cores to have now for load that is forecast at the longer horizons.

        What the cloud delivers until then need not be here yet.
        """
        believed = np.where(self._highest, 1.0, _BELIEVED)[:, None]
        rise = (outlook.ahead[:, :, _LATER] - 1.0) * believed
        needed = (report.work / self._foreseen)[:, :, None] * (1.0 + rise)
        delivered = self._parameters.arrival * (_LATER_MIN - _BOOT_MIN) * report.held[:, :, None]
        cores: F64 = (needed - delivered).max(axis=2)
        return cores

    def _request_nodes(
        self, pools: PoolReadings, report: Report, nodes: F64, extra: F64, spare: F64
    ) -> I32:
        """[E, P, 4] nodes to request, by urgency, up to `nodes` [E, P].

        `extra` [E, D, P] is the part of them that domains lack.

        First those that the highest priority needs for its work, then those that the others need;
        then the highest priority's comfort, and the others'. Comfort of P0 before the work of P1
        would cost more than it saves.
        """
        missing = np.maximum(0.0, nodes - pools.ready - pools.coming)
        highest = self._highest
        left = missing.copy()
        # Uses up `left`: what remains is comfort.
        urgent = self._nodes_for(report, report.distress, left, spare)
        own = np.minimum(left, extra[:, highest].sum(axis=1))
        parts = (urgent[:, highest].sum(axis=1), urgent[:, ~highest].sum(axis=1), own, left - own)
        # Round the running sum: rounding up each part would request more than the quota.
        whole = np.ceil(np.cumsum(np.stack(parts, axis=2), axis=2) - _LEAST)
        requested: I32 = np.diff(np.maximum(whole, 0.0), axis=2, prepend=0.0).astype(np.int32)
        return requested

    def _heaviness(self, report: Report) -> F64:
        """[E, D] factor on a domain's claims where it uses more of a pool's memory than CPU."""
        per_core = report.held_memory_gib / np.maximum(report.held, _LEAST)
        heavy: F64 = np.maximum(1.0, per_core / self._memory_per_core)
        return heavy

    def _cores_of_node(self, report: Report) -> F64:
        """[E, D, P] cores of a node that pods of the domain's shape can fill.

        Memory binds where pods are heavy in memory for their CPU.
        """
        per_core = report.held_memory_gib / np.maximum(report.held, _LEAST)
        by_memory = self._inventory.pool_memory / np.maximum(per_core, _LEAST)[..., None]
        cores: F64 = np.minimum(self._inventory.pool_cpu.astype(np.float64), by_memory)
        return cores


def _whole(nodes: F64) -> I32:
    whole: I32 = np.ceil(nodes - _LEAST).astype(np.int32)
    return whole


def _memory_per_core(inventory: Inventory) -> F64:
    """[D] GiB per core in the pool with the least of it, of those that a domain may use."""
    per_core = (inventory.pool_memory / inventory.pool_cpu).astype(np.float64)
    choices = inventory.domain_pools
    # The least, because pods may land in any of these pools. Padding (-1) reads a wrong pool, which
    # the mask hides.
    least: F64 = np.where(choices >= 0, per_core[choices], np.inf).min(axis=1)
    return least
