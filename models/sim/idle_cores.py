"""CPU above the request: pods burst up to their limit on cores that other pods leave idle.

Requests come first: nothing takes away what an app uses within its requests. The idle cores of a
pool then go to what apps want beyond their requests, the same share to each. Apps may use what is
left up to their limits, again in equal shares. So the pods of a pool together never use more than
its ready nodes have. Load follows capacity: pods in a full pool burst less than pods of the same
app elsewhere.
"""

from typing import NamedTuple

import numpy as np

from models.cluster.arrays import F32, I32
from models.jit import kernel
from models.sim.apps import Traits
from models.sim.rules import ClusterRules
from models.sim.state import BACKLOG, BOUND, State

# Hundredths of a core are fine enough, and the sums of a pool fit into 32 bits.
_CENTI = np.float32(100.0)
_MILLI_PER_CENTI = 10
_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
# Upwards, so that the sums of a pool never understate what its pods use.
_ROUND_UP = np.float32(0.999)
_TINY = np.float32(1e-12)

BURST_ROWS = 4
"""Rows of scratch memory that `add_idle_cores` takes."""


class PodCpu(NamedTuple):
    """Hundredths of a core, one row each; per pod except for `gained`."""

    use: F32
    """Within the request."""
    wanted: F32
    """Beyond the request, for the requests that are waiting now."""
    spare: F32
    """The rest of the limit."""
    gained: F32
    """Granted beyond the requests of all pods of the app together."""


@kernel
def add_idle_cores(
    st: State,
    e: int,
    traits: Traits,
    rules: ClusterRules,
    work: F32,
    demand: F32,
    service: F32,
    servers: F32,
    scratch: F32,
) -> None:
    """Raise `servers` from what requests guarantee to what idle cores allow."""
    flow = st.flow[e]
    cpu = PodCpu(scratch[0], scratch[1], scratch[2], scratch[3])
    _measure_pods(
        traits, st.hidden[e, BOUND], work, flow[BACKLOG], demand, service, servers,
        _ONE / rules.physics[0].tick_s, cpu,
    )  # fmt: skip
    for pool in range(rules.pools.size):
        # Most pools belong to one domain, whose apps are neighbours: skip all others.
        apps = slice(st.pool[e, pool].first_app, st.pool[e, pool].end_app)
        placed = st.placed[e, pool, apps]
        wanted, spare = cpu.wanted[apps], cpu.spare[apps]
        use_sum, wanted_sum, spare_sum = _sum_pool(placed, cpu.use[apps], wanted, spare)
        # Otherwise no app of the pool may burst.
        if spare_sum + wanted_sum > 0:
            ready = int(st.pool[e, pool].ready) * int(rules.pools[pool].cpu) // _MILLI_PER_CENTI
            idle = max(0, ready - use_sum)
            granted = min(1.0, idle / max(1, wanted_sum))
            left = min(1.0, max(0, idle - wanted_sum) / max(1, spare_sum))
            shares = np.float32(granted), np.float32(left)
            _grant_idle(placed, wanted, spare, shares, cpu.gained[apps])
    _add_servers(service, work, traits.cpu_seconds, cpu.gained, servers)


@kernel
def _measure_pods(
    traits: Traits,
    bound: I32,
    work: F32,
    backlog: F32,
    demand: F32,
    service: F32,
    servers: F32,
    per_second: np.float32,
    cpu: PodCpu,
) -> None:
    """Fill `cpu` from the busy servers of each app; nothing is gained yet."""
    limit_ratio, cpu_seconds = traits.limit_ratio, traits.cpu_seconds
    use, wanted, spare, gained = cpu.use, cpu.wanted, cpu.spare, cpu.gained
    for app in range(use.size):
        # Servers that all waiting and arriving requests would keep busy for the whole tick.
        busy = (demand[app] + backlog[app]) * service[app] * per_second
        # A server uses CPU only for a part of its time: IO waits use none.
        cpu_per_server = _CENTI * work[app] * cpu_seconds[app] / service[app]
        cpu_per_pod = cpu_per_server / np.float32(max(np.int32(1), bound[app]))
        burstable = servers[app] * (limit_ratio[app] - _ONE)
        bursting = min(max(busy - servers[app], _ZERO), burstable)
        use[app] = min(busy, servers[app]) * cpu_per_pod
        wanted[app] = bursting * cpu_per_pod
        spare[app] = (burstable - bursting) * cpu_per_pod
        gained[app] = _ZERO


@kernel
def _sum_pool(placed: I32, use: F32, wanted: F32, spare: F32) -> tuple[int, int, int]:
    """Hundredths of a core in a pool, rounded up app by app.

    Integers, because their sum is the same in any order, so the loop vectorises; 32 bits wide for
    the same reason, which hundredths of a core do not overflow.
    """
    use_sum, wanted_sum, spare_sum = np.int32(0), np.int32(0), np.int32(0)
    for app in range(placed.size):
        pods = np.float32(placed[app])
        use_sum = np.int32(use_sum + np.int32(pods * use[app] + _ROUND_UP))
        wanted_sum = np.int32(wanted_sum + np.int32(pods * wanted[app] + _ROUND_UP))
        spare_sum = np.int32(spare_sum + np.int32(pods * spare[app] + _ROUND_UP))
    return int(use_sum), int(wanted_sum), int(spare_sum)


@kernel
def _grant_idle(
    placed: I32, wanted: F32, spare: F32, shares: tuple[np.float32, np.float32], gained: F32
) -> None:
    granted, left = shares
    for app in range(gained.size):
        cpu_per_pod = wanted[app] * granted + spare[app] * left
        gained[app] += np.float32(placed[app]) * cpu_per_pod


@kernel
def _add_servers(service: F32, work: F32, cpu_seconds: F32, gained: F32, servers: F32) -> None:
    """Convert the gained cores back to servers."""
    for app in range(servers.size):
        per_request = _CENTI * work[app] * cpu_seconds[app]
        servers[app] += gained[app] * service[app] / max(per_request, _TINY)
