"""A cluster as its operator describes it: domains, pools, machines, prices and the spend cap.

Every service reads this file. It says nothing about how pods start, nodes boot or traffic varies:
a real cluster does that by itself, and a simulated one has a physics file for it.
`load_cluster` validates once; code behind it relies on a consistent description.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from models.inputs import yamlfile

EXAMPLE_CLUSTER: Final = Path(__file__).parent / "example.yaml"

Priority = Literal["P0", "P1", "P2", "P3"]
PRIORITIES: Final[tuple[Priority, ...]] = ("P0", "P1", "P2", "P3")
Market = Literal["on_demand", "reserved", "spot"]
MARKETS: Final[tuple[Market, ...]] = ("on_demand", "reserved", "spot")
Survive = Literal["none", "zone"]

# Names are keys of Kafka records, labels of metrics and parts of paths: no slash, no space, and at
# most as long as a label of Kubernetes.
Name = Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[a-z0-9][a-z0-9.-]*$")]
Share = Annotated[float, Meta(ge=0, le=1)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A section of a file: unknown keys are errors, values never change."""


class Slo(Section, frozen=True, kw_only=True):
    """The SLO class of a domain, which only simulations read.

    A real app declares its own target (`latency_target_s`). A throughput SLO's target is the time a
    request may queue.
    """

    kind: Literal["latency", "throughput"] = "latency"
    latency_target_ms: Positive = 250.0
    """A slower request violates the SLO."""


class Domain(Section, frozen=True, kw_only=True):
    """A group of apps with one priority, one SLO class, a floor and node pools."""

    name: Name
    title: str = ""
    priority: Priority
    floor_share: Share
    """Share of capacity. Up to it, the domain's essential need is served before any other claim;
    floor that is not needed is lent. An expired budget still allows it."""
    tiers: Annotated[tuple[Name, ...], Meta(min_length=1)]
    """Tier groups in call order, the outermost first."""
    pools: Annotated[tuple[Name, ...], Meta(min_length=1)]
    """Pools its pods may run in, preferred first; the later ones take spillover."""
    survive: Survive = "none"
    """`zone` keeps enough pods running to carry the domain's present work after the loss of a
    zone. Its pools state their `zones` for that."""
    slo: Slo = Slo()


class Call(Section, frozen=True, kw_only=True):
    """Inline calls from one domain's requests to another domain."""

    caller: Name
    callee: Name
    calls_per_request: Positive


class Markets(Section, frozen=True, kw_only=True):
    """How a pool's nodes are bought; the shares sum to 1."""

    on_demand: Share = 0.0
    reserved: Share = 0.0
    spot: Share = 0.0

    def __post_init__(self) -> None:
        # A tolerance, because sums of decimal shares are seldom exact: 0.7 + 0.2 + 0.1 is below 1.
        if abs(self.on_demand + self.reserved + self.spot - 1) > 1e-9:
            raise ValueError("expected on_demand + reserved + spot = 1")


class Machine(Section, frozen=True, kw_only=True):
    """A node type. The reserved parts belong to the kubelet and system daemons."""

    name: Name
    cpu_cores: Positive
    memory_gib: Positive
    reserved_cpu_cores: NotNegative = 0.0
    reserved_memory_gib: NotNegative = 0.0
    max_pods: Count = 110
    price_per_hour: Positive
    """On demand."""

    def __post_init__(self) -> None:
        if self.reserved_cpu_cores >= self.cpu_cores:
            raise ValueError("expected reserved_cpu_cores below cpu_cores")
        if self.reserved_memory_gib >= self.memory_gib:
            raise ValueError("expected reserved_memory_gib below memory_gib")


class Pool(Section, frozen=True, kw_only=True):
    """Interchangeable nodes of one machine type."""

    name: Name
    machine: Name
    zones: Count = 1
    """Zones over which the cloud spreads its nodes evenly. A lost zone takes that part of them."""
    markets: Markets = Markets(on_demand=1.0)


class Prices(Section, frozen=True, kw_only=True):
    """Price of each market over the on-demand price."""

    on_demand: Positive = 1.0
    # Chosen by hand, so a file should state its own.
    reserved: Positive = 0.62
    spot: Positive = 0.35


class Cluster(Section, frozen=True, kw_only=True):
    """The whole file."""

    name: Name
    tick_seconds: Annotated[int, Meta(ge=1, le=60)] = 10
    """Soldiers decide once per tick; the Commander decides once per minute."""
    priority_weights: dict[Priority, NotNegative] = msgspec.field(
        default_factory=lambda: {"P0": 10.0, "P1": 4.0, "P2": 1.0, "P3": 0.3}
    )
    """Weight of one violated app-minute in the objective J."""
    domains: Annotated[tuple[Domain, ...], Meta(min_length=1)]
    calls: tuple[Call, ...] = ()
    pools: Annotated[tuple[Pool, ...], Meta(min_length=1)]
    machines: Annotated[tuple[Machine, ...], Meta(min_length=1)]
    prices: Prices = Prices()
    spend_cap_per_hour: Positive
    largest_factor: Annotated[float, Meta(gt=1, le=1000)] = 20.0
    """Announced factors beyond it are refused, and forecasts beyond this multiple of the highest
    traffic seen are not believed; the same holds for what domains report to need."""

    def __post_init__(self) -> None:
        # The Commander acts once per minute, so a minute has to be a whole number of ticks.
        if 60 % self.tick_seconds != 0:
            raise ValueError(f"tick_seconds: expected a divisor of 60, got {self.tick_seconds}")
        # Names first: a reference to a name that exists twice would be ambiguous.
        _check_names(self)
        _check_references(self)
        _check_zones(self)
        _check_shares(self)

    @property
    def domain_names(self) -> tuple[str, ...]:
        """Domain names in file order, which is the order of every domain axis."""
        return tuple(domain.name for domain in self.domains)

    @property
    def pool_names(self) -> tuple[str, ...]:
        """Pool names in file order, which is the order of every pool axis."""
        return tuple(pool.name for pool in self.pools)

    def machine_of(self, pool: Pool) -> Machine:
        """The machine type of a pool."""
        return next(machine for machine in self.machines if machine.name == pool.machine)


def load_cluster(file: Path | None = None) -> Cluster:
    """Read and validate a cluster file; the example cluster when none is given."""
    return yamlfile.load(file or EXAMPLE_CLUSTER, Cluster)


class Domains(Section, frozen=True, kw_only=True):
    """A file with domains, in the place of those of a cluster file."""

    domains: Annotated[tuple[Domain, ...], Meta(min_length=1)]


def with_domains(cluster: Cluster, domains: tuple[Domain, ...]) -> Cluster:
    """The cluster with other domains, and the calls between those that are left.

    Raises ValueError where they do not fit its pools or each other.
    """
    names = {domain.name for domain in domains}
    calls = tuple(call for call in cluster.calls if {call.caller, call.callee} <= names)
    return msgspec.structs.replace(cluster, domains=domains, calls=calls)


def expect_one_of(path: str, name: str, allowed: set[str]) -> None:
    """Raise a ValueError that names the path in the file and the allowed names."""
    if name not in allowed:
        raise ValueError(f"{path}: expected one of {', '.join(sorted(allowed))}, got {name}")


def _check_names(cluster: Cluster) -> None:
    for label, names in (
        ("domains", cluster.domain_names),
        ("pools", cluster.pool_names),
        ("machines", tuple(machine.name for machine in cluster.machines)),
    ):
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"{label}: expected distinct names, found {repeated[0]} twice")


def _check_references(cluster: Cluster) -> None:
    machines = {machine.name for machine in cluster.machines}
    for pool in cluster.pools:
        expect_one_of(f"pools.{pool.name}.machine", pool.machine, machines)
    for domain in cluster.domains:
        for pool_name in domain.pools:
            expect_one_of(f"domains.{domain.name}.pools", pool_name, set(cluster.pool_names))
    for call in cluster.calls:
        expect_one_of("calls.caller", call.caller, set(cluster.domain_names))
        expect_one_of("calls.callee", call.callee, set(cluster.domain_names))


def _check_zones(cluster: Cluster) -> None:
    zones = {pool.name: pool.zones for pool in cluster.pools}
    for domain in cluster.domains:
        if domain.survive == "none":
            continue
        for name in domain.pools:
            if zones[name] < 2:
                raise ValueError(
                    f"domains.{domain.name}.survive: expected pools.{name} in at least 2 zones, "
                    f"got {zones[name]}; nothing survives the loss of the only one"
                )


def _check_shares(cluster: Cluster) -> None:
    floors = sum(domain.floor_share for domain in cluster.domains)
    # Otherwise floors could not all be kept at once, and invariant 1 would have no meaning.
    if floors > 1:
        raise ValueError(f"domains: expected floor_share to sum to at most 1, got {floors:g}")
    missing = [name for name in PRIORITIES if name not in cluster.priority_weights]
    if missing:
        raise ValueError(f"priority_weights: expected a weight for {missing[0]}")
