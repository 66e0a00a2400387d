"""Worlds to learn in: each is warmed up once, then played again and again under another policy.

A track is one scenario with all its seeds in one vectorised world. The plain heuristic plays it
first; what every minute cost it is what policies are compared with.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F64, I32
from models.cluster.inventory import Inventory
from models.compare.families import HEURISTIC, family_of
from models.compare.policies import advisers_of
from models.compare.run import Run
from models.control.budget import Directive
from models.control.demand import AppSignals
from models.control.hierarchy import Heuristic, HeuristicState
from models.control.parameters import Parts
from models.control.report import Report
from models.control.residual import Advisers, AppFactors, Residual, neutral, no_factors
from models.control.tuned import tuned_parameters
from models.features.pools import PoolReadings
from models.forecaster.port import Forecast, ticks_per_minute
from models.forecaster.simulated.catalogue import forecaster_of
from models.sim.accounting import MONEY, NODE_TICKS, OVERSPEND
from models.sim.apps import Population
from models.sim.config.physics import SimCluster, with_scheduling
from models.sim.config.scenario import Scenario
from models.sim.world import World
from models.training.reward import Costs

_ALONE: Final[Mapping[str, Path]] = {}
_HOUR_S: Final = 3600.0
_LEAST: Final = 1e-9


class _Switch:
    """Advisers that are exchanged between runs of one world; without one, nothing changes."""

    def __init__(self) -> None:
        self.now = Advisers()

    def commander(
        self, tick: I32, pools: PoolReadings, report: Report, forecast: Forecast | None, /
    ) -> Residual:
        if self.now.commander is None:
            return neutral(tick.size)
        return self.now.commander(tick, pools, report, forecast)

    def soldier(self, status: I32, signals: AppSignals, directive: Directive, /) -> AppFactors:
        if self.now.soldier is None:
            return no_factors(status.shape[0])
        return self.now.soldier(status, signals, directive)


class Track:
    """One scenario with its seeds, at the end of the warm-up."""

    def __init__(
        self,
        cluster: SimCluster,
        scenario: Scenario,
        seeds: Sequence[int],
        population: Population,
        forecast: str,
        beside: Mapping[str, Path] = _ALONE,
    ) -> None:
        """`beside` are folders of policies of the other level, by kind: they stay as they are."""
        scheduled = with_scheduling(cluster, family_of(HEURISTIC).scheduling)
        self.world = World(scheduled, scenario, seeds, population)
        self.inventory: Inventory = self.world.inventory
        self._switch = _Switch()
        advisers = Advisers(self._switch.commander, self._switch.soldier)
        controller = Heuristic(
            self.inventory, self.world.layout.pools, tuned_parameters(), Parts(), advisers
        )
        make = forecaster_of(forecast)
        forecaster = None if make is None else make(self.world)
        self._run: Run[HeuristicState] = Run(self.world, controller, forecaster)
        self._per_minute = ticks_per_minute(self.inventory.tick_s)
        while self.world.tick < self.world.timeline.warmup_ticks:
            self._run.step()
        self._start, self._beside = self._run.save(), Advisers()
        self.plain = self.play(Advisers())
        self._beside = advisers_of(beside, self.inventory)

    @property
    def minutes(self) -> int:
        """Length of the accounted part."""
        timeline = self.world.timeline
        return (timeline.total_ticks - timeline.warmup_ticks) // self._per_minute

    def play(self, advisers: Advisers) -> Costs:
        """Play the accounted part once; what each minute cost.

        A level without an adviser is that beside, or the heuristic.
        """
        self._run.restore(self._start)
        self._switch.now = Advisers(
            advisers.commander or self._beside.commander, advisers.soldier or self._beside.soldier
        )
        meter, minutes = _Meter(self.world), []
        for _ in range(self.minutes):
            for _ in range(self._per_minute):
                self._run.step()
            minutes.append(meter.read())
        self._switch.now = Advisers()
        return Costs(*(np.stack(values) for values in zip(*minutes, strict=True)))


class _Totals(NamedTuple):
    domains: F64
    nodes: F64
    apps: F64
    money: F64
    overspend: F64
    latency: F64
    """[E, D, 2] sums of requests x p99 seconds, and of requests."""


class _Meter:
    """Reads from the accounts what has been added since the last reading."""

    def __init__(self, world: World) -> None:
        self._world = world
        inventory = world.inventory
        cores = inventory.pool_cpu[inventory.domain_pools[inventory.domain, 0]]
        # What pods hold, as a share of a node of the preferred pool of their domain.
        self._node_minutes = 1.0 / (60.0 * 1000.0 * cores.astype(np.float64))
        targets = [domain.slo.latency_target_ms / 1000.0 for domain in world.cluster.domains]
        self._targets = np.array(targets)
        self._before: _Totals | None = None

    def read(self) -> Costs:
        """Of the last minute."""
        now = self._totals()
        # The accounts start from zero in the first tick after the warm-up.
        before = self._before or _Totals(*(np.zeros_like(values) for values in now))
        self._before = now
        added = _Totals(*(one - other for one, other in zip(now, before, strict=True)))
        p99 = added.latency[..., 0] / np.maximum(added.latency[..., 1], _LEAST)
        return Costs(
            domains=added.domains,
            nodes=added.nodes,
            apps=added.apps,
            held=self._held(),
            late=p99 / self._targets,
            money=added.money,
            overspend=(added.overspend > 0.0).astype(np.float64),
        )

    def _totals(self) -> _Totals:
        accounts, tick_s = self._world.accounts, self._world.cluster.tick_seconds
        return _Totals(
            accounts.domain_minutes.copy(),
            accounts.totals[:, NODE_TICKS] * tick_s / _HOUR_S,
            accounts.violation_minutes.copy(),
            accounts.totals[:, MONEY].copy(),
            accounts.totals[:, OVERSPEND].copy(),
            accounts.latency.copy(),
        )

    def _held(self) -> F64:
        status = self._world.state.status
        pods = np.maximum(
            status[:, rows.REPLICAS],
            status[:, rows.READY] + status[:, rows.STARTING] + status[:, rows.PENDING],
        )
        held: F64 = pods * status[:, rows.CPU_REQUEST] * self._node_minutes
        return held
