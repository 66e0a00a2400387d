"""The whole system in one process: every service on the in-memory bus, a simulated cluster at hand.

The same handlers as on Kafka, in lock-step: the cluster goes on when every domain's tick is
closed. Where there is no broker, and for tests that compare it with one.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from models.control.breaker import Thresholds
from models.sim.world import World
from schemas.capacity_requested import CapacityRequested
from services._kit.clock import ManualClock
from services._kit.handler import Service
from services._kit.inventory import parameters_of
from services._kit.memory import MemoryBus
from services.actuator.decide import ActuatorHandler
from services.actuator.settings import Modes
from services.actuator.target import Write, Written
from services.aggregator.decide import AggregatorHandler
from services.breaker.decide import BreakerHandler
from services.commander.decide import CommanderHandler
from services.devcluster.request import rule_minutes
from services.forecaster.decide import ForecasterHandler
from services.simcluster.cluster import SimulatedCluster
from services.simcluster.target import Change
from services.soldier.decide import SoldierHandler


class DirectTarget:
    """The actuator's target without HTTP."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    async def carry_out(self, write: Write) -> Written:
        """Hand the changes over, and answer for each app."""
        changes = [Change(**msgspec.structs.asdict(change)) for change in write.changes]
        entries = self._cluster.apply(write.domain, write.tick, changes)
        answers = {entry.app: entry.outcome for entry in entries}
        return Written(domain=write.domain, tick=write.tick, answers=dict(answers))


class MemorySystem:
    """Services and cluster; `ticks` lets them run, one tick at a time."""

    def __init__(
        self, world: World, forecast: str = "calendar", modes: Modes | None = None
    ) -> None:
        self.cluster = SimulatedCluster(world)
        self.clock = ManualClock()
        self.bus = MemoryBus(self.clock)
        for build in _builders(self.cluster, forecast, modes or Modes()):
            self.bus.add(build)
        self._asked = 0

    def ticks(self) -> Iterator[int]:
        """Run tick by tick to the end of the scenario; yields each tick that was closed."""
        cluster, bus = self.cluster, self.bus
        bus.publish(*cluster.inventory(), *cluster.calendar(), *cluster.history())
        while not cluster.finished:
            tick = cluster.tick
            bus.publish(*cluster.observation().events)
            bus.run()
            self._obey()
            if not cluster.settled:
                raise RuntimeError(f"tick {tick} did not close")
            yield tick
            cluster.advance()
            self.clock.advance(cluster.world.cluster.tick_seconds)

    def _obey(self) -> None:
        """Bring node requests to the provisioner, each once."""
        requests = self.bus.events(CapacityRequested)
        for request in requests[self._asked :]:
            self.cluster.request_capacity(request)
        self._asked = len(requests)


def _builders(
    simulated: SimulatedCluster, forecast: str, modes: Modes
) -> list[Callable[[], Service[Any]]]:
    """What makes each service, anew at each start. In lock-step nothing is ever late."""
    world = simulated.world
    cluster, minutes = world.cluster, rule_minutes(world.timeline)
    parameters, target = parameters_of(), DirectTarget(simulated)
    return [
        lambda: Service(AggregatorHandler(cluster, parameters, None)),
        lambda: Service(ForecasterHandler(cluster, forecast, minutes, None)),
        lambda: Service(CommanderHandler(cluster, parameters, None)),
        lambda: Service(SoldierHandler(cluster, parameters, None)),
        lambda: Service(ActuatorHandler(cluster, modes, None, None), target),
        lambda: Service(BreakerHandler(Thresholds(), None)),
    ]
