"""When the cluster goes on: when everybody has decided, or when it is time."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from services.simcluster.live import LiveCluster

Sleep = Callable[[float], Awaitable[None]]


async def lock_step(live: LiveCluster) -> None:
    """Advance to the end, each tick as soon as it is decided about, however long that takes."""
    while not live.cluster.finished:
        await live.settled()
        live.advance()
        # Writes that are waiting get their turn, also when nobody has to be waited for.
        await asyncio.sleep(0)


async def by_clock(
    live: LiveCluster,
    speed: float,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Sleep = asyncio.sleep,
) -> None:
    """Advance to the end at `speed` simulated seconds per second, whether anybody decides or not.

    A machine that cannot keep up runs late and says so by its tick; it never hurries afterwards,
    because controllers would see a burst of ticks that no cluster has.
    """
    seconds = live.cluster.world.cluster.tick_seconds / speed
    due = monotonic() + seconds
    while not live.cluster.finished:
        now = monotonic()
        await sleep(max(0.0, due - now))
        live.advance()
        due = max(due, now) + seconds
