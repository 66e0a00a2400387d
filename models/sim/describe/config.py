"""The cluster as a user describes it: domains, pools, prices and the physics of pods and nodes.

Every field has its unit in its name or its docstring. `load_cluster` validates once;
whatever passes is consistent, so nothing behind it checks again.
"""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from models.inputs import yamlfile

DEFAULT_CLUSTER = Path(__file__).parents[1] / "cluster.yaml"

Priority = Literal["P0", "P1", "P2", "P3"]
PRIORITIES: tuple[Priority, ...] = ("P0", "P1", "P2", "P3")
Guard = Literal["none", "fail-open", "queue"]
Market = Literal["on_demand", "reserved", "spot"]
MARKETS: tuple[Market, ...] = ("on_demand", "reserved", "spot")

LONGEST_LAG_TICKS = 6
"""Older samples are not kept."""
LONGEST_RESTART_TICKS = 15
LONGEST_BACK_OFF_TICKS = 30
"""What a crash loop adds at most to a restart: the kubelet's 300 s in ticks of 10 s."""

Name = Annotated[str, Meta(min_length=1, max_length=63, pattern=r"^[a-z0-9][a-z0-9.-]*$")]
Share = Annotated[float, Meta(ge=0, le=1)]
Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
LimitRatio = Annotated[float, Meta(ge=1, le=10)]


class _Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A section of the file: unknown keys are errors, values never change."""


class Slo(_Spec, frozen=True, kw_only=True):
    """What a domain promises. A throughput SLO's target is the time a request may queue."""

    kind: Literal["latency", "throughput"] = "latency"
    latency_target_ms: Positive
    """A slower request violates."""
    timeout_ms: Positive
    """The caller gives up; must be longer than the target."""

    def __post_init__(self) -> None:
        if self.timeout_ms <= self.latency_target_ms:
            raise ValueError("expected timeout_ms above latency_target_ms")


class Limits(_Spec, frozen=True, kw_only=True):
    """How far pods may go above what they request and are packed by; 1 is no further."""

    cpu_ratio: LimitRatio = 1.0
    """CPU limit over request; what is above the request comes from cores that others leave idle."""
    memory_ratio: LimitRatio = 1.0
    """Memory over request at which a container is killed."""


class Domain(_Spec, frozen=True, kw_only=True):
    """A group of apps with one priority, one SLO class, a floor and node pools."""

    name: Name
    title: str = ""
    priority: Priority
    apps: Count
    pod_share: Share
    """Share of the cluster's pods at peak."""
    floor_share: Share
    """Share of capacity that no budget goes below while feasible."""
    tiers: Annotated[tuple[Name, ...], Meta(min_length=1)]
    """Tier groups in call order, the outermost first."""
    pools: Annotated[tuple[Name, ...], Meta(min_length=1)]
    """Where its pods may run, preferred first; the later ones are spillover."""
    slo: Slo
    limits: Limits = Limits()
    retryable: bool = True
    """Whether callers try again; a payment must not be sent twice."""
    best_effort_share: Share = 0.0
    """Share of its apps without any target."""
    weekend_factor: Positive = 1.0
    """Weekend traffic over weekday traffic."""


class Call(_Spec, frozen=True, kw_only=True):
    """Inline calls from one domain's requests to another domain."""

    caller: Name
    callee: Name
    calls_per_request: Positive
    guard: Guard = "none"


class Markets(_Spec, frozen=True, kw_only=True):
    """How a pool's nodes are bought; the shares sum to 1."""

    on_demand: Share = 0.0
    reserved: Share = 0.0
    spot: Share = 0.0

    def __post_init__(self) -> None:
        if abs(self.on_demand + self.reserved + self.spot - 1) > 1e-9:
            raise ValueError("expected on_demand + reserved + spot = 1")


class Machine(_Spec, frozen=True, kw_only=True):
    """A node type. The reserved parts belong to the kubelet and system daemons."""

    name: Name
    cpu_cores: Positive
    memory_gib: Positive
    reserved_cpu_cores: NotNegative = 0.0
    reserved_memory_gib: NotNegative = 0.0
    max_pods: Count = 110
    price_per_hour: Positive

    def __post_init__(self) -> None:
        if self.reserved_cpu_cores >= self.cpu_cores:
            raise ValueError("expected reserved_cpu_cores below cpu_cores")
        if self.reserved_memory_gib >= self.memory_gib:
            raise ValueError("expected reserved_memory_gib below memory_gib")


class Pool(_Spec, frozen=True, kw_only=True):
    """A range of nodes of one machine type over all zones."""

    name: Name
    machine: Name
    headroom: Share
    """Free allocatable CPU at the start, as a share of the pool."""
    max_nodes: Annotated[float, Meta(ge=1)]
    """Quota, as a multiple of the nodes at the daily peak."""
    markets: Markets
    pod_share: Share = 0.0
    """Share of every domain's pods that run here from the start (shared pools)."""


class Prices(_Spec, frozen=True, kw_only=True):
    """Price of each market over the on-demand price."""

    on_demand: Positive = 1.0
    reserved: Positive = 0.62
    spot: Positive = 0.35


class Scheduler(_Spec, frozen=True, kw_only=True):
    """In which order pending pods are placed, and how fast."""

    order: Literal["fifo", "priority"] = "fifo"
    preemption: bool = False
    """Whether a pod that does not fit evicts pods of a lower class."""
    pods_per_second: Positive = 300.0


class Provisioner(_Spec, frozen=True, kw_only=True):
    """The node autoscaler and the cloud behind it."""

    batch_window_s: NotNegative = 10.0
    """How long unschedulable pods are collected before nodes are asked for."""
    requests_per_second: Positive
    """Independent requests (one per app and batch) worked off."""
    launches_per_second: Positive
    """Nodes the cloud starts, over all pools."""
    boot_s: Positive
    """From launch to a ready node when nothing else boots."""
    boot_contention: NotNegative
    """Longest relative slow-down of a boot by others booting."""
    contention_half: Positive
    """Booting nodes at which half of that slow-down is reached."""
    scale_down_utilisation: Share = 0.5
    scale_down_after_s: Positive = 600.0
    scale_down_nodes_per_minute: Count = 10


class PodStart(_Spec, frozen=True, kw_only=True):
    """A pod's way from bound to ready, each part log-normal around its median."""

    image_pull_s: NotNegative
    image_cached_share: Share
    boot_s: NotNegative
    warm_up_s: NotNegative
    sigma: NotNegative
    readiness_period_s: NotNegative


class Churn(_Spec, frozen=True, kw_only=True):
    """What moves pods without any autoscaler."""

    deploys_per_app_per_day: NotNegative
    max_surge: Share = 0.25
    max_unavailable: Share = 0.25
    crashes_per_pod_per_day: NotNegative
    restart_s: Positive = 20.0
    node_evictions_per_day: NotNegative
    """Drains per node, for maintenance."""
    spot_reclaims_per_day: NotNegative
    """Reclaims per spot node."""


class Metrics(_Spec, frozen=True, kw_only=True):
    """What stands between the truth and a controller."""

    lag_s: NotNegative = 10.0
    hpa_lag_s: NotNegative = 27.5
    noise: NotNegative = 0.03
    """Relative standard deviation of a sample."""
    missing_share: Share = 0.004


class RequestWork(_Spec, frozen=True, kw_only=True):
    """CPU time of a request of each type, relative to the others.

    Apps are calibrated by their mean request, so this matters only where a mix shifts.
    """

    api: Positive = 1.0
    web: Positive = 1.5
    batch: Positive = 6.0
    stream: Positive = 0.5
    event: Positive = 0.7


class Population(_Spec, frozen=True, kw_only=True):
    """How the apps are generated from the fitted tables."""

    seed: Annotated[int, Meta(ge=0)] = 78
    pods_at_peak: Count
    cpu_use: Annotated[float, Meta(gt=0, lt=1)] = 0.675
    """Average used over allocatable CPU that initial sizes aim at."""
    wrong_class_share: Share = 0.07
    request_work: RequestWork = RequestWork()


class Cluster(_Spec, frozen=True, kw_only=True):
    """The whole file."""

    name: Name
    tick_seconds: Annotated[int, Meta(ge=1, le=60)] = 10
    commander_every_ticks: Count = 6
    zones: Annotated[tuple[Name, ...], Meta(min_length=1)]
    priority_weights: dict[Priority, NotNegative]
    domains: Annotated[tuple[Domain, ...], Meta(min_length=1)]
    calls: tuple[Call, ...] = ()
    pools: Annotated[tuple[Pool, ...], Meta(min_length=1)]
    machines: Annotated[tuple[Machine, ...], Meta(min_length=1)]
    prices: Prices
    spend_cap_per_hour: Positive
    scheduler: Scheduler
    provisioner: Provisioner
    pod_start: PodStart
    churn: Churn
    metrics: Metrics
    population: Population

    def __post_init__(self) -> None:
        _check_times(self)
        _check_names(self)
        _check_references(self)
        _check_shares(self)

    @property
    def apps(self) -> int:
        """Apps of all domains."""
        return sum(domain.apps for domain in self.domains)

    @property
    def domain_names(self) -> tuple[str, ...]:
        """Domain names in file order, which is the order of every domain axis."""
        return tuple(domain.name for domain in self.domains)

    @property
    def pool_names(self) -> tuple[str, ...]:
        """Pool names in file order, which is the order of every pool axis."""
        return tuple(pool.name for pool in self.pools)

    def machine_of(self, pool: Pool) -> Machine:
        """The machine type a pool is made of."""
        return next(machine for machine in self.machines if machine.name == pool.machine)


def load_cluster(file: Path | None = None) -> Cluster:
    """Read and validate a cluster file; the example cluster when none is given."""
    return yamlfile.load(file or DEFAULT_CLUSTER, Cluster)


def with_apps(cluster: Cluster, apps: int) -> Cluster:
    """The same cluster with `apps` apps in all, domains and pods scaled alike."""
    factor = apps / cluster.apps
    counts = [max(1, round(domain.apps * factor)) for domain in cluster.domains]
    counts[0] += max(1 - counts[0], apps - sum(counts))
    domains = tuple(
        msgspec.structs.replace(domain, apps=count)
        for domain, count in zip(cluster.domains, counts, strict=True)
    )
    pods = max(1, round(cluster.population.pods_at_peak * factor))
    provisioner = msgspec.structs.replace(
        cluster.provisioner,
        # The cloud of a larger customer is as much larger: rates go with size, so that
        # a cluster of any size meets the same need-to-ready times.
        requests_per_second=cluster.provisioner.requests_per_second * factor,
        launches_per_second=cluster.provisioner.launches_per_second * factor,
        contention_half=cluster.provisioner.contention_half * factor,
    )
    return msgspec.structs.replace(
        cluster,
        domains=domains,
        provisioner=provisioner,
        scheduler=msgspec.structs.replace(
            cluster.scheduler, pods_per_second=cluster.scheduler.pods_per_second * factor
        ),
        spend_cap_per_hour=cluster.spend_cap_per_hour * factor,
        population=msgspec.structs.replace(cluster.population, pods_at_peak=pods),
    )


def _check_times(cluster: Cluster) -> None:
    """The world remembers a limited number of ticks: what is later than that would be lost."""
    tick = cluster.tick_seconds
    if 60 % tick != 0:
        raise ValueError(f"tick_seconds: expected a divisor of 60, got {tick}")
    for place, seconds, ticks in (
        ("metrics.lag_s", cluster.metrics.lag_s, LONGEST_LAG_TICKS),
        ("metrics.hpa_lag_s", cluster.metrics.hpa_lag_s, LONGEST_LAG_TICKS - 2),
        ("churn.restart_s", cluster.churn.restart_s, LONGEST_RESTART_TICKS),
    ):
        if seconds > ticks * tick:
            raise ValueError(
                f"{place}: expected at most {ticks} ticks of {tick} s, got {seconds:g}"
            )


def _check_names(cluster: Cluster) -> None:
    for label, names in (
        ("domains", cluster.domain_names),
        ("pools", cluster.pool_names),
        ("machines", tuple(machine.name for machine in cluster.machines)),
    ):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{label}: expected distinct names, found {twice[0]} twice")


def _check_references(cluster: Cluster) -> None:
    machines = {machine.name for machine in cluster.machines}
    for pool in cluster.pools:
        _expect_known(f"pools.{pool.name}.machine", pool.machine, machines)
    for domain in cluster.domains:
        for pool_name in domain.pools:
            _expect_known(f"domains.{domain.name}.pools", pool_name, set(cluster.pool_names))
    for call in cluster.calls:
        _expect_known("calls.caller", call.caller, set(cluster.domain_names))
        _expect_known("calls.callee", call.callee, set(cluster.domain_names))


def _expect_known(place: str, name: str, known: set[str]) -> None:
    if name not in known:
        raise ValueError(f"{place}: expected one of {', '.join(sorted(known))}, got {name}")


def _check_shares(cluster: Cluster) -> None:
    pods = sum(domain.pod_share for domain in cluster.domains)
    if abs(pods - 1) > 1e-6:
        raise ValueError(f"domains: expected pod_share to sum to 1, got {pods:g}")
    floors = sum(domain.floor_share for domain in cluster.domains)
    if floors > 1:
        raise ValueError(f"domains: expected floor_share to sum to at most 1, got {floors:g}")
    missing = [name for name in PRIORITIES if name not in cluster.priority_weights]
    if missing:
        raise ValueError(f"priority_weights: expected a weight for {missing[0]}")
