"""What is declared about a cluster: without it, "missing" has no meaning.

Bounds, targets and prices as their owners declare them; nothing measured, no hidden state.
"""

from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F32, I16, I32, Mask
from models.cluster.description import MARKETS, PRIORITIES, Cluster, Pool

RequestType = Literal["api", "web", "batch", "stream", "event"]
REQUEST_TYPES: Final[tuple[RequestType, ...]] = ("api", "web", "batch", "stream", "event")
NO_MAXIMUM: Final = 2**31 - 1
"""As many replicas as an event can name, so that nothing is cut to it."""


class Inventory(NamedTuple):
    """A apps, D domains, P pools."""

    domain: I16
    """[A] domain that declares the app; apps can move, so an observation's domain comes first."""
    tier: I16
    """[A] index into the domain's tier groups."""
    min_replicas: I32
    """[A]."""
    max_replicas: I32
    """[A] NO_MAXIMUM where none is declared."""
    latency_target: F32
    """[A] seconds; infinite for best-effort apps."""
    saturation: F32
    """[A], or [E, A] where environments declare differently: CPU use over request at which load
    tests found the app's pods saturated. Tests run on full nodes, because idle cores of a node are
    not guaranteed. It is a declaration and may be wrong."""
    request_mix: F32
    """[A, request types] declared share of each of REQUEST_TYPES in the requests. A shift of the
    real mix shows only in the CPU per request."""
    priority: I32
    """[D] 0 for P0 to 3 for P3."""
    floor_share: F32
    """[D] share of capacity up to which essential need is served before any other claim."""
    tiers: I32
    """[D] number of tier groups."""
    calls: F32
    """[D, D] inline calls to the domain of the column per request of the domain of the row."""
    domain_pools: I32
    """[D, choices] pools a domain may use, preferred first, -1 where there are fewer."""
    survives_zone: Mask
    """[D] whether it has to carry its work after the loss of a zone."""
    pool_cpu: F32
    """[P] allocatable cores of a node."""
    pool_memory: F32
    """[P] allocatable GiB of a node."""
    pool_price: F32
    """[P] price of a node-hour, in the pool's declared mix of markets."""
    pool_zones: I32
    """[P] zones that its nodes are spread over."""
    spend_cap_per_hour: float
    """Money."""
    tick_s: int


# Fields with one value per app; all others are per domain, per pool or for the cluster.
_PER_APP = (
    "domain", "tier", "min_replicas", "max_replicas", "latency_target", "request_mix",
)  # fmt: skip


def only_domain(inventory: Inventory, members: NDArray[np.integer[Any]]) -> Inventory:
    """The inventory of one domain; `members` are the indices of its apps, in order.

    All domains and pools stay, so that their axes mean the same in every process.
    """
    cut = {name: getattr(inventory, name)[members] for name in _PER_APP}
    return inventory._replace(**cut, saturation=inventory.saturation[..., members])


def declare_cluster(cluster: Cluster) -> Inventory:
    """Domains and pools, with no app yet."""
    machines = [cluster.machine_of(pool) for pool in cluster.pools]
    whole, real = np.zeros(0, np.int32), np.zeros(0, np.float32)
    return Inventory(
        domain=whole.astype(np.int16),
        tier=whole.astype(np.int16),
        min_replicas=whole,
        max_replicas=whole,
        latency_target=real,
        saturation=real,
        request_mix=np.zeros((0, len(REQUEST_TYPES)), np.float32),
        priority=np.array([PRIORITIES.index(d.priority) for d in cluster.domains], np.int32),
        floor_share=np.array([d.floor_share for d in cluster.domains], np.float32),
        tiers=np.array([len(d.tiers) for d in cluster.domains], np.int32),
        calls=_call_matrix(cluster),
        domain_pools=domain_pools(cluster),
        survives_zone=np.array([d.survive == "zone" for d in cluster.domains], np.bool_),
        pool_cpu=np.array([m.cpu_cores - m.reserved_cpu_cores for m in machines], np.float32),
        pool_memory=np.array([m.memory_gib - m.reserved_memory_gib for m in machines], np.float32),
        pool_price=np.array([_price(cluster, pool) for pool in cluster.pools], np.float32),
        pool_zones=np.array([pool.zones for pool in cluster.pools], np.int32),
        spend_cap_per_hour=cluster.spend_cap_per_hour,
        tick_s=cluster.tick_seconds,
    )


def _call_matrix(cluster: Cluster) -> F32:
    names = cluster.domain_names
    matrix = np.zeros((len(names), len(names)), np.float32)
    for call in cluster.calls:
        # Added up, because nothing forbids two entries for the same two domains.
        matrix[names.index(call.caller), names.index(call.callee)] += call.calls_per_request
    return matrix


def _price(cluster: Cluster, pool: Pool) -> float:
    """Average price of a node: which market a node comes from is not observed."""
    shares = (getattr(pool.markets, market) * getattr(cluster.prices, market) for market in MARKETS)
    return cluster.machine_of(pool).price_per_hour * float(sum(shares))


def domain_pools(cluster: Cluster) -> I32:
    """[D, choices] pools of each domain, preferred first, -1 where there are fewer."""
    # A rectangle with padding: kernels take no lists of different lengths.
    width = max(len(domain.pools) for domain in cluster.domains)
    table = np.full((len(cluster.domains), width), -1, np.int32)
    for row, domain in enumerate(cluster.domains):
        table[row, : len(domain.pools)] = [cluster.pool_names.index(p) for p in domain.pools]
    return table
