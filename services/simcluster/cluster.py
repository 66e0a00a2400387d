"""A simulated world with the interface of a cluster: observe it, write to it, advance it.

No IO here: the process (`app.py`) adds HTTP and Kafka; tests and in-memory runs use it directly.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from models.cluster import rows
from models.cluster.arrays import I32
from models.cluster.observation import Observation
from models.cluster.plan import Plan
from models.sim.world import World
from schemas.app_declared import AppDeclared
from schemas.capacity_requested import CapacityRequested
from schemas.demand_backfilled import DemandBackfilled
from schemas.event_scheduled import EventScheduled
from schemas.fields import Event
from schemas.metrics_sampled import MetricsSampled
from schemas.pool_observed import PoolObserved
from services.simcluster import events
from services.simcluster.provisioner import Answer, Provisioner
from services.simcluster.score import Bill, Results, Score
from services.simcluster.target import Change, Entry, Present, Stored, Target

SOURCE: Final = "simcluster"
MINUTE_S: Final = 60
_PRESENT: Final = (
    rows.REPLICAS,
    rows.CPU_REQUEST,
    rows.MEMORY_REQUEST,
    rows.READY,
    rows.STARTING,
    rows.PENDING,
)
"""Rows of a status, in the order of the fields of `Present`."""


class RequestRefused(Exception):  # noqa: N818  the request is wrong, the cluster is not
    """The request cannot be fulfilled; the message says why in one sentence."""


class UnknownDomain(RequestRefused):
    """A domain that the cluster does not have."""


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """All events of one tick; none after the last tick."""

    tick: int
    time: str
    finished: bool
    declared: list[AppDeclared]
    """Apps that were added, moved or removed since the tick before."""
    sampled: list[MetricsSampled]
    pools: list[PoolObserved]

    @property
    def events(self) -> list[Event]:
        """In publishing order: declarations before samples."""
        return [*self.declared, *self.sampled, *self.pools]


class SimulatedCluster:
    """One environment of a world; its owner decides when it advances."""

    def __init__(self, world: World) -> None:
        if world.environments != 1:
            raise ValueError(f"expected a world with one seed, got {world.environments}")
        self.world = world
        self.names = events.app_names(world)
        self.axis = events.axis_of_world(world)
        self._inventory = world.inventory
        self._index = {name: index for index, name in enumerate(self.names)}
        # A copy: steps change the state in place, and the history is computed on its first request.
        self._at_start = world.state.status.copy()
        self._declared = self._declared_now()
        self._ever_active = self._at_start[0, rows.ACTIVE] == 1
        self._target = Target()
        self._early: dict[str, int] = {}
        """By domain, a tick that was decided one tick early, on samples that somebody forged."""
        self._provisioner = Provisioner(world.cluster.pool_names)
        self._score, self._bill = Score(world), Bill(world)
        self._history: list[DemandBackfilled] | None = None
        # Built once per tick: each build reports what changed since the one before.
        self._observed = self._observe()

    @property
    def tick(self) -> int:
        """Ticks since the cluster's origin."""
        return self.world.tick

    @property
    def finished(self) -> bool:
        """Whether the scenario has ended."""
        return self.tick >= self.world.timeline.total_ticks

    # Observing.

    def observation(self) -> Observed:
        """Events of the current tick; the same at each call."""
        return self._observed

    def inventory(self) -> list[AppDeclared]:
        """Every present and removed app, but none that appears later."""
        apps = np.flatnonzero(self._ever_active).tolist()
        return events.declarations(self.world, self._inventory, self.names, apps)

    def calendar(self) -> list[EventScheduled]:
        """Announced events; what happens may differ."""
        return events.calendar_events(self.world, self.axis)

    def history(self) -> list[DemandBackfilled]:
        """Traffic per domain and minute before tick 0."""
        if self._history is None:
            self._history = events.backfill(self.world, self._at_start, self.axis)
        return self._history

    def observed_arrays(self) -> Observation:
        """The arrays behind the observation; valid until the next tick."""
        return self.world.observe()

    # Writing.

    def apply(self, domain: str, tick: int, changes: Sequence[Change]) -> list[Entry]:
        """Apply the changes of a domain's tick and close it; one entry per change, in order."""
        self._check(domain)
        # A restarted cluster begins at tick 0: no decision of an earlier run may close its ticks.
        if tick > self.tick:
            if tick == self.tick + 1:
                # It is not decided again, so a cluster in lock-step would wait for it for ever.
                self._early[domain] = tick
            raise RequestRefused(
                f"tick {tick} is in the future: the cluster is at tick {self.tick}"
            )
        return self._target.write(domain, tick, changes, self._present(domain), self.tick)

    def read_back(self, domain: str) -> dict[str, Stored]:
        """Last decision of each app, with its numbers, and what it has now."""
        self._check(domain)
        return self._target.read_back(self._present(domain))

    def request_capacity(self, wanted: CapacityRequested) -> Answer:
        """Pass a node request to the provisioner."""
        return self._provisioner.request(wanted, self.tick)

    @property
    def journal(self) -> Sequence[Entry]:
        """All writes, in order."""
        return self._target.journal

    # Advancing.

    def closed_tick(self, domain: str) -> int:
        """The newest tick with a write for a domain; -1 before the first."""
        self._check(domain)
        return self._target.closed_tick(domain)

    @property
    def settled(self) -> bool:
        """Whether this tick is decided for every domain and, once a minute, for every pool."""
        domains = self.world.cluster.domain_names
        if any(
            max(self._target.closed_tick(domain), self._early.get(domain, -1)) < self.tick
            for domain in domains
        ):
            return False
        # The Commander requests nodes at the first tick of a minute only.
        starts_minute = self.tick % (MINUTE_S // self.world.cluster.tick_seconds) == 0
        return not starts_minute or self._provisioner.requested_since(self.tick)

    def advance(self) -> None:
        """Advance by one tick, with the writes since the last one."""
        if self.finished:
            raise RequestRefused(f"the scenario ended at tick {self.tick}")
        plan = self._plan()
        # Before the step: the score compares the plan with what its controller saw.
        self._score.before_step(self.observed_arrays(), plan)
        self.world.step(plan)
        self._score.after_step()
        self._bill.add_tick()
        self._observed = self._observe()

    def results(self) -> Results:
        """The figures of the run so far."""
        return self._score.results()

    def _plan(self) -> Plan:
        """Writes since the last step only.

        This matches controllers inside the world's process: a write that meets a running resize is
        lost, and the controller repeats it if it still wants it.
        """
        plan = self.world.hold()
        for app, numbers in self._target.take().items():
            index = self._index[app]
            plan.replicas[0, index] = numbers.replicas
            plan.cpu[0, index] = numbers.cpu_request
            plan.memory[0, index] = numbers.memory_request
        # `hold` leaves all pools uncoordinated; the provisioner marks those with a valid request.
        self._provisioner.fill(plan, self.tick)
        return plan

    def _observe(self) -> Observed:
        stamp = events.stamp_of(self.world, self.axis)
        if self.finished:
            return Observed(
                tick=stamp.tick, time=stamp.time, finished=True, declared=[], sampled=[], pools=[]
            )
        arrays = self.observed_arrays()
        return Observed(
            tick=stamp.tick,
            time=stamp.time,
            finished=False,
            declared=self._changed_declarations(stamp.trace_id),
            sampled=events.samples(self.world, arrays, self.names, stamp, SOURCE),
            pools=events.pools(self.world, self._inventory, arrays, self._bill.spent, stamp),
        )

    def _changed_declarations(self, trace_id: str) -> list[AppDeclared]:
        before, self._declared = self._declared, self._declared_now()
        # Kept for `inventory`: a collector that starts late must also learn of removed apps.
        self._ever_active |= self._declared[rows.ACTIVE] == 1
        changed = np.flatnonzero((before != self._declared).any(axis=0)).tolist()
        return events.declarations(self.world, self._inventory, self.names, changed, trace_id)

    def _declared_now(self) -> I32:
        """[2, A] whether each app is declared, and its domain."""
        return self.world.state.status[0, [rows.ACTIVE, rows.DOMAIN]].copy()

    def _present(self, domain: str) -> dict[str, Present]:
        status = self.world.state.status
        apps = events.active_apps(status, self.world.cluster.domain_names.index(domain))
        columns = (status[0, row, apps].tolist() for row in _PRESENT)
        return {
            self.names[app]: Present(*numbers)
            for app, *numbers in zip(apps.tolist(), *columns, strict=True)
        }

    def _check(self, domain: str) -> None:
        if domain not in self.world.cluster.domain_names:
            names = ", ".join(self.world.cluster.domain_names)
            raise UnknownDomain(f"domain {domain} is unknown: expected one of {names}")
