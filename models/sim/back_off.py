"""Crash loops: a container that dies again soon is started again later each time.

As the kubelet does it: the first restart comes at once, the next ones after 10 s, 20 s, 40 s and
so on, and ten minutes of health make it forget. Containers of an app are not told apart, so the
level is the mean number of deaths of its containers: one crash among a thousand pods is no loop.
"""

from typing import Final

from models.cluster.records import Record
from models.jit import kernel
from models.sim.describe.physics import LONGEST_BACK_OFF_TICKS

_FIRST_S: Final = 10.0
_LONGEST_S: Final = 300.0
_HEALTHY_S: Final = 600.0


@kernel
def die(loop: Record, share: float, tick: int, tick_s: float) -> int:
    """Let a share of an app's containers die; returns the ticks they wait beyond a restart."""
    if (tick - loop.died) * tick_s >= _HEALTHY_S:
        loop.level = 0.0
    wait = back_off_s(loop.level)
    loop.level += share
    loop.died = tick
    return min(LONGEST_BACK_OFF_TICKS, int(wait / tick_s + 0.5))


@kernel
def back_off_s(level: float) -> float:
    """Seconds of waiting after so many deaths; below one it is the mean of some and none."""
    if level < 1.0:
        return _FIRST_S * level
    return min(_LONGEST_S, _FIRST_S * 2.0 ** (level - 1.0))
