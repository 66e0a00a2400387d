"""A simulated world behind the face of a cluster: it is observed, written to, and goes on.

No IO here: the process (`app.py`) puts HTTP and Kafka around it, tests and in-memory runs use it
as it is.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from models.cluster.arrays import I32
from models.cluster.observation import (
    ACTIVE,
    CPU_REQUEST,
    DOMAIN,
    MEMORY_REQUEST,
    REPLICAS,
    Observation,
)
from models.cluster.plan import Plan
from models.sim.apps import declare
from models.sim.world import World
from schemas.app_declared import AppDeclared
from schemas.capacity_requested import CapacityRequested
from schemas.demand_backfilled import DemandBackfilled
from schemas.event_scheduled import EventScheduled
from schemas.fields import Event
from schemas.metrics_sampled import MetricsSampled
from schemas.pool_observed import PoolObserved
from services.simcluster import events
from services.simcluster.bill import Bill
from services.simcluster.provisioner import Answer, Provisioner
from services.simcluster.score import Results, Score
from services.simcluster.target import Change, Entry, Numbers, Stored, Target

SOURCE: Final = "simcluster"
MINUTE_S: Final = 60


class Refused(Exception):  # noqa: N818  the request is wrong, the cluster is not
    """What was asked for cannot be; the message says why in one sentence."""


class UnknownDomain(Refused):
    """A domain that the cluster does not have."""


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """All that there is to see in one tick. After the last tick there is nothing."""

    tick: int
    time: str
    finished: bool
    declared: list[AppDeclared]
    """Apps that appeared, moved or vanished since the tick before."""
    sampled: list[MetricsSampled]
    pools: list[PoolObserved]

    @property
    def events(self) -> list[Event]:
        """In the order in which they are to be published: samples of an app after its name."""
        return [*self.declared, *self.sampled, *self.pools]


class SimulatedCluster:
    """One environment of a world; whoever owns it decides when it advances."""

    def __init__(self, world: World) -> None:
        if world.environments != 1:
            raise ValueError(f"expected a world with one seed, got {world.environments}")
        self.world = world
        self.names = events.app_names(world)
        self.axis = events.axis_of_world(world)
        self._inventory = declare(world.population, world.cluster)
        self._place = {name: place for place, name in enumerate(self.names)}
        self._at_start = world.state.status.copy()
        self._declared = self._declared_now()
        self._ever_active = self._at_start[0, ACTIVE] == 1
        self._target = Target()
        self._provisioner = Provisioner(world.cluster.pool_names)
        self._score, self._bill = Score(world), Bill(world)
        self._history: list[DemandBackfilled] | None = None
        self._observed = self._observe()

    @property
    def tick(self) -> int:
        """Ticks since the cluster's origin."""
        return self.world.tick

    @property
    def finished(self) -> bool:
        """Whether the scenario has come to its end."""
        return self.tick >= self.world.timeline.total_ticks

    # What is seen.

    def observation(self) -> Observed:
        """All events of the current tick; the same however often it is asked."""
        return self._observed

    def inventory(self) -> list[AppDeclared]:
        """Every app that is or was there; one that is still to come is not known."""
        apps = np.flatnonzero(self._ever_active).tolist()
        return events.declarations(self.world, self._inventory, self.names, apps)

    def calendar(self) -> list[EventScheduled]:
        """What was announced; not what will happen."""
        return events.calendar_events(self.world, self.axis)

    def history(self) -> list[DemandBackfilled]:
        """Traffic per domain and minute before tick 0."""
        if self._history is None:
            self._history = events.backfill(self.world, self._at_start, self.axis)
        return self._history

    def seen(self) -> Observation:
        """The arrays behind the observation; valid until the next tick."""
        return self.world.observe()

    # What is written.

    def apply(self, domain: str, tick: int, changes: Sequence[Change]) -> list[Entry]:
        """Take the changes of a domain's tick, which closes it; an answer per change, in order."""
        self._check(domain)
        if tick > self.tick:
            raise Refused(f"tick {tick} has not come yet: the cluster is at tick {self.tick}")
        return self._target.write(domain, tick, changes, self._present(domain), self.tick)

    def read_back(self, domain: str) -> dict[str, Stored]:
        """What was asked of each app last, and by which decision."""
        self._check(domain)
        return self._target.read_back(self._present(domain))

    def request_capacity(self, wanted: CapacityRequested) -> Answer:
        """Take a request for nodes of a pool."""
        return self._provisioner.request(wanted, self.tick)

    @property
    def journal(self) -> Sequence[Entry]:
        """Everything that was ever asked of apps, in order."""
        return self._target.journal

    # What makes it go on.

    def closed_tick(self, domain: str) -> int:
        """The newest tick that was written for a domain; -1 before the first."""
        self._check(domain)
        return self._target.closed_tick(domain)

    @property
    def settled(self) -> bool:
        """Whether everybody has decided about this tick; nodes are decided about once a minute."""
        domains = self.world.cluster.domain_names
        if any(self._target.closed_tick(domain) < self.tick for domain in domains):
            return False
        begins = self.tick % (MINUTE_S // self.world.cluster.tick_seconds) == 0
        return not begins or self._provisioner.asked_since(self.tick)

    def advance(self) -> None:
        """Move on by one tick, with what was asked for since the last."""
        if self.finished:
            raise Refused(f"the scenario has ended at tick {self.tick}")
        plan = self._plan()
        self._score.before_step(self.seen(), plan)
        self.world.step(plan)
        self._score.after_step()
        self._bill.add_tick()
        self._observed = self._observe()

    def results(self) -> Results:
        """The figures of the run so far."""
        return self._score.results()

    def _plan(self) -> Plan:
        """What was asked since the last step, and nothing that was asked before.

        So it is for a controller in the world's own process: a wish that meets a resize under way
        is lost, and whoever still has it asks again.
        """
        plan = self.world.hold()
        for app, numbers in self._target.take().items():
            place = self._place[app]
            plan.replicas[0, place] = numbers.replicas
            plan.cpu[0, place] = numbers.cpu_request
            plan.memory[0, place] = numbers.memory_request
        self._provisioner.fill(plan, self.tick)
        return plan

    def _observe(self) -> Observed:
        stamp = events.stamp_of(self.world, self.axis)
        if self.finished:
            return Observed(
                tick=stamp.tick, time=stamp.time, finished=True, declared=[], sampled=[], pools=[]
            )
        seen = self.seen()
        return Observed(
            tick=stamp.tick,
            time=stamp.time,
            finished=False,
            declared=self._changed_declarations(stamp.trace_id),
            sampled=events.samples(self.world, seen, self.names, stamp, SOURCE),
            pools=events.pools(self.world, self._inventory, seen, self._bill.spent, stamp),
        )

    def _changed_declarations(self, trace_id: str) -> list[AppDeclared]:
        before, self._declared = self._declared, self._declared_now()
        self._ever_active |= self._declared[ACTIVE] == 1
        changed = np.flatnonzero((before != self._declared).any(axis=0)).tolist()
        return events.declarations(self.world, self._inventory, self.names, changed, trace_id)

    def _declared_now(self) -> I32:
        """[2, A] whether an app is declared, and where."""
        return self.world.state.status[0, [ACTIVE, DOMAIN]].copy()

    def _present(self, domain: str) -> dict[str, Numbers]:
        status = self.world.state.status
        place = self.world.cluster.domain_names.index(domain)
        apps = events.active_apps(status, place)
        columns = (status[0, row, apps].tolist() for row in (REPLICAS, CPU_REQUEST, MEMORY_REQUEST))
        return {
            self.names[app]: Numbers(*numbers)
            for app, *numbers in zip(apps.tolist(), *columns, strict=True)
        }

    def _check(self, domain: str) -> None:
        if domain not in self.world.cluster.domain_names:
            known = ", ".join(self.world.cluster.domain_names)
            raise UnknownDomain(f"domain {domain} is unknown: expected one of {known}")
