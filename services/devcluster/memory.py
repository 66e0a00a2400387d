"""The whole system in one process: every service on the in-memory bus, with a simulated cluster.

It runs the same handlers as on Kafka, in lock-step: the cluster advances when every domain has
closed its tick. It needs no broker, and tests compare it with the system on Kafka.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from models.control.breaker.limits import Thresholds
from models.control.parameters import Parts
from models.control.tuned import tuned_parameters
from models.sim.world import World
from schemas.capacity_requested import CapacityRequested
from services._kit.clock import ManualClock
from services._kit.handler import Executor, Service
from services._kit.memory import MemoryBus
from services.actuator.decide import ActuatorHandler
from services.actuator.settings import Modes
from services.actuator.target import (
    Answer,
    Present,
    Read,
    Reading,
    StepLimits,
    TargetRequest,
    Withdrawal,
    Written,
    withdrawn,
)
from services.aggregator.decide import AggregatorHandler
from services.breaker.decide import BreakerHandler
from services.commander.decide import CommanderHandler
from services.devcluster.processes import Notify
from services.devcluster.record import Simulation
from services.devcluster.request import Request, rule_minutes, simulation_of
from services.forecaster.decide import ForecasterHandler
from services.simcluster.app import compile_kernels, world_of
from services.simcluster.cluster import RequestRefused, SimulatedCluster
from services.simcluster.settings import Settings
from services.simcluster.target import Change
from services.soldier.decide import SoldierHandler

_ALL_PARTS: Final = Parts()


class DirectTarget:
    """The actuator's target: calls the simulated cluster directly instead of over HTTP."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    async def carry_out(self, request: TargetRequest) -> Reading | Written:
        """Read what the domain has, or apply the changes; the answer has an outcome per app."""
        if isinstance(request, Withdrawal):
            # As over HTTP: a tick that the cluster does not take has no changes.
            with suppress(RequestRefused):
                self._cluster.apply(request.domain, request.tick, [])
            stored = self._cluster.read_back(request.domain)
            return withdrawn(request, {app: last.decision_id for app, last in stored.items()})
        if isinstance(request, Read):
            stored = self._cluster.read_back(request.domain)
            present = {app: last.present for app, last in stored.items()}
            apps = msgspec.convert(present, dict[str, Present], from_attributes=True)
            return Reading(domain=request.domain, tick=request.tick, apps=apps)
        # The actuator and the cluster share no types: over HTTP they share only the JSON.
        changes = msgspec.convert(request.changes, list[Change], from_attributes=True)
        try:
            entries = self._cluster.apply(request.domain, request.tick, changes)
        except RequestRefused as error:
            # As over HTTP: a refusal is an answer, for example to a tick of the future.
            refused: dict[str, Answer] = {change.app: "refused" for change in request.changes}
            return Written(
                domain=request.domain, tick=request.tick, answers=refused, detail=str(error)
            )
        answers = {entry.app: entry.outcome for entry in entries}
        return Written(domain=request.domain, tick=request.tick, answers=dict(answers))


class MemorySystem:
    """All services and the cluster; `ticks` runs them one tick at a time."""

    def __init__(
        self, world: World, forecast: str = "calendar", modes: Modes | None = None
    ) -> None:
        self.cluster = SimulatedCluster(world)
        self.clock = ManualClock()
        self.bus = MemoryBus(self.clock)
        for build in service_builders(
            world, DirectTarget(self.cluster), forecast, modes or Modes()
        ):
            self.bus.add(build)
        self._forwarded = 0
        """Node requests that the provisioner has received."""

    def ticks(self) -> Iterator[int]:
        """Run to the end of the scenario; yields each tick when it is closed."""
        cluster, bus = self.cluster, self.bus
        # Reference data first: services on Kafka, too, read it whole before any event.
        bus.publish(*cluster.inventory(), *cluster.calendar(), *cluster.history())
        while not cluster.finished:
            tick = cluster.tick
            bus.publish(*cluster.observation().events)
            bus.run()
            self._forward_node_requests()
            # The bus is empty, so nothing can close the tick any more: waiting would never end.
            if not cluster.settled:
                raise RuntimeError(f"tick {tick} did not close")
            yield tick
            cluster.advance()
            # Dead-man checks read this clock: let it pass as fast as simulated time.
            self.clock.advance(cluster.world.cluster.tick_seconds)

    def _forward_node_requests(self) -> None:
        """Deliver each node request to the provisioner once."""
        requests = self.bus.events(CapacityRequested)
        for request in requests[self._forwarded :]:
            self.cluster.request_capacity(request)
        self._forwarded = len(requests)


def memory_system(request: Request, notify: Notify) -> tuple[MemorySystem, Simulation]:
    """The system of a request before its first tick, with the world's kernels compiled."""
    cluster, scenario = request.load()
    notify("building the world")
    settings = Settings(
        scenario=request.scenario,
        seed=request.seed,
        cluster=str(request.cluster or ""),
        physics=str(request.physics or ""),
        apps=request.apps or 0,
    )
    world = world_of(settings)
    compile_kernels(world)
    system = MemorySystem(world, request.forecast, Modes(request.mode))
    return system, simulation_of(request, cluster, scenario)


def service_builders(
    world: World,
    target: Executor,
    forecast: str,
    modes: Modes,
    limits: StepLimits | None = None,
    parts: Parts = _ALL_PARTS,
) -> list[Callable[[], Service[Any]]]:
    """A factory per service. Without grace periods: in lock-step no data is ever late."""
    cluster, minutes = world.cluster, rule_minutes(world.timeline)
    parameters = tuned_parameters()
    return [
        lambda: Service(AggregatorHandler(cluster, parameters, None)),
        lambda: Service(ForecasterHandler(cluster, forecast, minutes, None)),
        lambda: Service(CommanderHandler(cluster, parameters, None)),
        lambda: Service(SoldierHandler(cluster, parameters, None, parts=parts)),
        lambda: Service(ActuatorHandler(cluster, modes, None, None, limits=limits), target),
        lambda: Service(BreakerHandler(cluster, Thresholds(), None)),
    ]
