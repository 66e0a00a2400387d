"""A simulated cluster that several clients share: whoever waits hears when something changes."""

import asyncio

from schemas.capacity_requested import CapacityRequested
from services.simcluster.cluster import Observed, SimulatedCluster
from services.simcluster.exporter import Exporter
from services.simcluster.provisioner import Answer
from services.simcluster.target import Change, Entry


class LiveCluster:
    """Of one event loop. Nothing in here blocks: a step of a large world takes milliseconds."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.exporter = Exporter(cluster)
        self._changed = asyncio.Event()

    def apply(self, domain: str, tick: int, changes: list[Change]) -> list[Entry]:
        """Take the changes of a domain's tick."""
        entries = self.cluster.apply(domain, tick, changes)
        self._tell()
        return entries

    def request_capacity(self, wanted: CapacityRequested) -> Answer:
        """Take a request for nodes."""
        answer = self.cluster.request_capacity(wanted)
        self._tell()
        return answer

    def advance(self) -> None:
        """Move on by one tick."""
        self.cluster.advance()
        self.exporter.count_tick()
        self._tell()

    async def settled(self) -> None:
        """Wait until everybody has decided about the current tick."""
        while not self.cluster.settled:
            await self._changed.wait()

    async def newer_than(self, tick: int) -> Observed:
        """Wait for the observation of a later tick, or for the end of the scenario."""
        while self.cluster.tick <= tick and not self.cluster.finished:
            await self._changed.wait()
        return self.cluster.observation()

    def _tell(self) -> None:
        """Wake everybody who waits now; each looks whether it was what they waited for."""
        self._changed.set()
        self._changed = asyncio.Event()
