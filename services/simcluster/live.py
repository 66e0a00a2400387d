"""A simulated cluster shared by several clients, and the two ways in which it advances."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from schemas.capacity_requested import CapacityRequested
from services.simcluster.cluster import Observed, SimulatedCluster
from services.simcluster.exporter import Exporter
from services.simcluster.provisioner import Answer
from services.simcluster.target import Change, Entry

Sleep = Callable[[float], Awaitable[None]]


class LiveCluster:
    """Notifies waiting tasks of one event loop. A step of a large world blocks for milliseconds."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.exporter = Exporter(cluster)
        self._changed = asyncio.Event()

    def apply(self, domain: str, tick: int, changes: list[Change]) -> list[Entry]:
        """Apply the changes of a domain's tick."""
        try:
            return self.cluster.apply(domain, tick, changes)
        finally:
            # Also after a refusal: a tick that is decided too early is not waited for.
            self._notify()

    def request_capacity(self, wanted: CapacityRequested) -> Answer:
        """Pass a node request to the provisioner."""
        answer = self.cluster.request_capacity(wanted)
        self._notify()
        return answer

    def advance(self) -> None:
        """Advance by one tick."""
        self.cluster.advance()
        # After the step: the exporter counts the tick that the step has just ended.
        self.exporter.count_tick()
        self._notify()

    async def settled(self) -> None:
        """Wait until the current tick is decided for every domain and pool."""
        while not self.cluster.settled:
            await self._changed.wait()

    async def newer_than(self, tick: int) -> Observed:
        """Wait for the observation of a later tick, or for the end of the scenario."""
        while self.cluster.tick <= tick and not self.cluster.finished:
            await self._changed.wait()
        return self.cluster.observation()

    def _notify(self) -> None:
        # Wakes all waiting tasks; each checks its own condition again.
        self._changed.set()
        self._changed = asyncio.Event()


async def lock_step(live: LiveCluster) -> None:
    """Advance to the end, each tick as soon as it is decided, without a timeout."""
    while not live.cluster.finished:
        await live.settled()
        live.advance()
        # Yield, so that pending requests are served even when no tick has to be waited for.
        await asyncio.sleep(0)


async def by_clock(
    live: LiveCluster,
    speed: float,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Advance to the end at `speed` simulated seconds per second, decided or not.

    A machine that cannot keep up runs late. It does not catch up afterwards: controllers would see
    a burst of ticks that no real cluster has.
    """
    seconds = live.cluster.world.cluster.tick_seconds / speed
    due = monotonic() + seconds
    while not live.cluster.finished:
        now = monotonic()
        await sleep(max(0.0, due - now))
        live.advance()
        # On time, count from the due time, so that oversleeping doesn't add up; late, from now.
        due = max(due, now) + seconds
