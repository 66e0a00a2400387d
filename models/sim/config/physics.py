"""The physics of a simulated cluster: what a real cluster does by itself.

App sizes, pod starts, node boots, metrics and faults. Only the simulator reads the physics file;
domains, pools and prices come from the same cluster description that every service reads. Every
field has its unit in its name or its docstring.
"""

from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from models.cluster.description import (
    EXAMPLE_CLUSTER,
    Call,
    Cluster,
    Count,
    Domain,
    Name,
    NotNegative,
    Positive,
    Section,
    Share,
    expect_one_of,
)
from models.inputs import yamlfile
from models.inputs.errors import InputError, input_error

EXAMPLE_PHYSICS: Final = Path(__file__).parents[1] / "physics.yaml"

Guard = Literal["none", "fail-open", "queue"]
LimitRatio = Annotated[float, Meta(ge=1, le=10)]

# These bound the rings in `state.py`, which every app of every environment has.
LONGEST_LAG_TICKS: Final = 6
LONGEST_WINDOW_TICKS: Final = 14
"""With the lag; older samples are not stored."""
LONGEST_GRACE_TICKS: Final = 6
LONGEST_RESTART_TICKS: Final = 15
LONGEST_BACK_OFF_TICKS: Final = 30
"""Longest back-off of a crash loop: the kubelet's 300 s in ticks of 10 s."""


class Limits(Section, frozen=True, kw_only=True):
    """Limits over requests; 1 means that the limit is the request."""

    cpu_ratio: LimitRatio = 1.0
    """CPU above the request comes from cores that other pods leave idle."""
    memory_ratio: LimitRatio = 1.0
    """Memory over request at which a container is killed."""


class DomainPhysics(Section, frozen=True, kw_only=True):
    """The apps of a domain and how their traffic behaves."""

    apps: Count
    pod_share: Share
    """Share of the cluster's pods at peak."""
    timeout_ms: Positive
    """When callers give up; longer than the SLO's target."""
    limits: Limits = Limits()
    retryable: bool = True
    """Whether callers retry; a payment must not be sent twice."""
    best_effort_share: Share = 0.0
    """Share of its apps without any latency target."""
    weekend_factor: Positive = 1.0
    """Weekend traffic over weekday traffic."""


class PoolPhysics(Section, frozen=True, kw_only=True):
    """How a pool starts and how far it may grow."""

    headroom: Share
    """Free allocatable CPU at the start, as a share of the pool."""
    max_nodes: Annotated[float, Meta(ge=1)]
    """Quota, as a multiple of the nodes at the daily peak."""
    pod_share: Share = 0.0
    """Share of every domain's pods that run here from the start (shared pools)."""


class CallGuard(Section, frozen=True, kw_only=True):
    """What a caller does when an inline call fails. Without an entry its request fails, too."""

    caller: Name
    callee: Name
    guard: Guard


class Scheduler(Section, frozen=True, kw_only=True):
    """Order and speed of binding pending pods."""

    order: Literal["fifo", "priority"] = "fifo"
    preemption: bool = False
    """Whether a pod that does not fit evicts pods of a lower class."""
    pods_per_second: Positive = 300.0


class Provisioner(Section, frozen=True, kw_only=True):
    """The node autoscaler and the cloud behind it."""

    # Karpenter's longest batch window.
    batch_window_s: NotNegative = 10.0
    """Time to collect unschedulable pods before nodes are requested."""
    requests_per_second: Positive
    """Accepted requests of pending pods (one per app and batch)."""
    launches_per_second: Positive
    """Nodes that the cloud starts, over all pools."""
    boot_s: Positive
    """From launch to ready when no other node boots."""
    boot_contention: NotNegative
    """Largest relative slow-down of a boot by other boots."""
    contention_half: Positive
    """Number of booting nodes at which half of that slow-down is reached."""
    # As the Cluster Autoscaler: under 50 % for ten minutes, ten deletions at once.
    scale_down_utilisation: Share = 0.5
    """A node is under-used while both its requested CPU and memory are below this share."""
    scale_down_after_s: Positive = 600.0
    """How long a node has to be under-used before it is drained."""
    scale_down_nodes_per_minute: Count = 10


class PodStart(Section, frozen=True, kw_only=True):
    """From bound to ready; each part is log-normal around its median."""

    image_pull_s: NotNegative
    image_cached_share: Share
    """Share of the starts whose image is on the node already."""
    boot_s: NotNegative
    warm_up_s: NotNegative
    sigma: NotNegative
    """Log standard deviation of each part."""
    readiness_period_s: NotNegative
    """Time between readiness probes; a started pod is ready at the next one."""
    # Assumed. A Spring Boot service takes tens of seconds on one core; Go or Node.js a few.
    slow_runtime_share: Share = 0.4
    """Share of the apps on a runtime that boots slowly, such as a JVM."""
    slow_runtime_factor: Annotated[float, Meta(ge=1)] = 3.0
    """Their boot and warm-up time over that of others."""
    # Lion et al., "Don't Get Caught in the Cold, Warm-up Your JVM" (OSDI 2016): class loading and
    # interpretation take a third of the time of short JVM jobs.
    cold_speed: Annotated[float, Meta(gt=0, le=1)] = 0.5
    """Work per CPU second of a pod that has just become ready, over that of a warm one. Balancers
    with slow start (Envoy, NGINX, ALB) send it as much less."""
    cold_s: NotNegative = 30.0
    """Time constant with which a cold pod gets warm."""


class PodStop(Section, frozen=True, kw_only=True):
    """What happens between the order to stop a pod and its end."""

    # Pods get SIGTERM and up to terminationGracePeriodSeconds, 30 s by default, to end; most have a
    # preStop hook of several seconds, so that balancers stop sending first.
    grace_s: NotNegative = 15.0
    """Time for which a pod that serves no more keeps its room on the node."""


class Serving(Section, frozen=True, kw_only=True):
    """How the pods of an app share requests and CPU time."""

    # kube-proxy picks a pod at random per connection: with n connections per pod the load of pods
    # spreads by 1 / sqrt(n), a tenth at 100. Balancing by request is better, long-lived
    # connections are worse.
    imbalance: NotNegative = 0.1
    """Standard deviation of the load between pods of an app, over its mean. Latency is that of
    pods one deviation above the mean."""
    # The default of cpu.cfs_period_us (kernel documentation, sched-bwc).
    quota_period_s: NotNegative = 0.1
    """Period of the CPU limit. Bursts within a period are throttled until the next one, also at a
    use far below the limit. 0 turns it off."""


class Retries(Section, frozen=True, kw_only=True):
    """How clients repeat failed requests, and when they stop calling."""

    # "Timeouts, retries and backoff with jitter" (Amazon Builders' Library).
    back_off_s: NotNegative = 5.0
    """Mean wait before a retry."""
    # Envoy's retry_budget: 20 % of the active requests; Finagle's RetryBudget: 20 %.
    budget: NotNegative = 0.2
    """Most retries, as a share of first attempts, where clients have a retry budget."""
    budget_share: Share = 0.5
    """Share of the apps whose clients have one. Envoy and most libraries have none unless told."""
    # Hystrix and Resilience4j: 50 % failures open a breaker.
    breaker_threshold: Annotated[float, Meta(gt=0, le=1)] = 0.5
    """Failing share of an app at which its callers' circuit breakers open."""
    breaker_share: Share = 0.5
    """Share of the calls between apps that have a breaker; an open one fails them unsent."""


class Churn(Section, frozen=True, kw_only=True):
    """What replaces pods without any autoscaler."""

    deploys_per_app_per_day: NotNegative
    # Kubernetes' defaults for a Deployment.
    max_surge: Share = 0.25
    """Extra pods of a rolling deploy, as a share of the replicas."""
    max_unavailable: Share = 0.25
    """Pods that a rolling deploy may take down at once, as a share of the replicas."""
    crashes_per_pod_per_day: NotNegative
    restart_s: Positive = 20.0
    node_evictions_per_day: NotNegative
    """Drains per node, for maintenance."""
    spot_reclaims_per_day: NotNegative
    """Reclaims per spot node."""


class Metrics(Section, frozen=True, kw_only=True):
    """Lag, noise and loss between the true measurements and a controller."""

    lag_s: NotNegative = 10.0
    """Age of the end of the window of the samples that our controllers get."""
    # As in services/collector/queries.yaml: four scrapes of 15 s, the usual range for rate().
    window_s: NotNegative = 60.0
    """Window over which Prometheus averages requests, errors, CPU and pods."""
    # Mean age at a scrape interval of 30 s (kubernetes/kubernetes#110317).
    hpa_lag_s: NotNegative = 27.5
    """Mean age of the samples that HPA gets from metrics-server."""
    noise: NotNegative = 0.03
    """Relative standard deviation of a sample."""
    missing_share: Share = 0.004
    """Share of the samples that do not arrive."""


class Declarations(Section, frozen=True, kw_only=True):
    """What owners declare about their apps, and how wrong it is."""

    saturation: Literal["load-test", "none"] = "load-test"
    """Where the declared saturation comes from; `none`: nobody declares one."""
    # Assumed. Load tests miss capacity by tens of percent: other request mixes, data and machines.
    saturation_sigma: NotNegative = 0.2
    """Log standard deviation of the declared saturation around the true one, by app and seed."""


class RequestWork(Section, frozen=True, kw_only=True):
    """CPU time of a request of each type, relative to the others.

    Apps are calibrated by their mean request, so this matters only when a mix shifts.
    """

    api: Positive = 1.0
    web: Positive = 1.5
    batch: Positive = 6.0
    stream: Positive = 0.5
    event: Positive = 0.7


class Population(Section, frozen=True, kw_only=True):
    """How the apps are generated from the fitted tables."""

    seed: Annotated[int, Meta(ge=0)] = 78
    pods_at_peak: Count
    cpu_use: Annotated[float, Meta(gt=0, lt=1)] = 0.675
    """Mean used over allocatable CPU that apps are sized for."""
    wrong_class_share: Share = 0.07
    """Share of the apps whose pods declare another priority class than their domain's."""
    request_work: RequestWork = RequestWork()


class Physics(Section, frozen=True, kw_only=True):
    """The whole file."""

    zones: Annotated[tuple[Name, ...], Meta(min_length=1)]
    domains: dict[Name, DomainPhysics]
    """One entry for each domain of the cluster."""
    pools: dict[Name, PoolPhysics]
    """One entry for each pool of the cluster."""
    guards: tuple[CallGuard, ...] = ()
    scheduler: Scheduler
    provisioner: Provisioner
    pod_start: PodStart
    pod_stop: PodStop = PodStop()
    serving: Serving = Serving()
    retries: Retries = Retries()
    churn: Churn
    metrics: Metrics
    declarations: Declarations = Declarations()
    population: Population


class SimCluster(Cluster, frozen=True, kw_only=True):
    """A cluster with the physics to simulate it."""

    physics: Physics

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_physics(self)

    @property
    def apps(self) -> int:
        """Apps of all domains."""
        return sum(domain.apps for domain in self.domain_physics)

    @property
    def domain_physics(self) -> tuple[DomainPhysics, ...]:
        """Entries in the order of the domain axis."""
        return tuple(self.physics.domains[name] for name in self.domain_names)

    @property
    def pool_physics(self) -> tuple[PoolPhysics, ...]:
        """Entries in the order of the pool axis."""
        return tuple(self.physics.pools[name] for name in self.pool_names)

    def physics_of(self, domain: Domain) -> DomainPhysics:
        """The entry of a domain."""
        return self.physics.domains[domain.name]

    def guard_of(self, call: Call) -> Guard:
        """What the caller does when the call fails."""
        pair = (call.caller, call.callee)
        found = (entry.guard for entry in self.physics.guards if _pair(entry) == pair)
        return next(found, "none")


def load_sim_cluster(
    cluster_file: Path | None = None, physics_file: Path | None = None
) -> SimCluster:
    """Read and validate both files; without a name, the file of the example cluster."""
    cluster = yamlfile.load(cluster_file or EXAMPLE_CLUSTER, Cluster)
    file = physics_file or EXAMPLE_PHYSICS
    physics = yamlfile.load(file, Physics)
    try:
        return SimCluster(physics=physics, **msgspec.structs.asdict(cluster))
    except ValueError as error:
        # The cluster file was valid by itself, so the physics file is what doesn't fit.
        hint = "" if physics_file else "; pass --physics FILE for a cluster of your own"
        raise input_error(file, "", f"{error}{hint}") from None


def load_scaled(
    cluster_file: Path | None, apps: int | None, physics_file: Path | None = None
) -> SimCluster:
    """The cluster of both files, or the example, scaled to `apps` apps where a number is given."""
    cluster = load_sim_cluster(cluster_file, physics_file)
    if apps is None:
        return cluster
    domains = len(cluster.domains)
    if apps < domains:
        raise InputError(f"apps: expected at least {domains}, one per domain, got {apps}")
    return with_apps(cluster, apps)


def with_physics(cluster: SimCluster, **changes: Any) -> SimCluster:
    """The same cluster with some sections of its physics replaced."""
    return replace(cluster, physics=replace(cluster.physics, **changes))


class Scheduling(NamedTuple):
    """How pods are scheduled under a controller; comparisons may vary it."""

    order: Literal["fifo", "priority"] = "fifo"
    preemption: bool = False
    """Whether a pod that does not fit evicts pods of a lower class."""


SCHEDULINGS: Final = {
    "fifo": Scheduling("fifo"),
    "priority": Scheduling("priority"),
    "priority+preemption": Scheduling("priority", preemption=True),
}


def with_scheduling(cluster: SimCluster, scheduling: Scheduling) -> SimCluster:
    """The same cluster with another scheduler."""
    order, preemption = scheduling
    scheduler = replace(cluster.physics.scheduler, order=order, preemption=preemption)
    return with_physics(cluster, scheduler=scheduler)


def with_apps(cluster: SimCluster, apps: int) -> SimCluster:
    """The same cluster with `apps` apps in total; domains and pods are scaled alike."""
    physics, factor = cluster.physics, apps / cluster.apps
    counts = [max(1, round(domain.apps * factor)) for domain in cluster.domain_physics]
    # Rounding differences go to the first domain, which keeps at least one app.
    counts[0] += max(1 - counts[0], apps - sum(counts))
    scaled = {
        name: replace(physics.domains[name], apps=count)
        for name, count in zip(cluster.domain_names, counts, strict=True)
    }
    # Rates grow with the size, so that need-to-ready times are the same in a cluster of any size.
    provisioner = replace(
        physics.provisioner,
        requests_per_second=physics.provisioner.requests_per_second * factor,
        launches_per_second=physics.provisioner.launches_per_second * factor,
        contention_half=physics.provisioner.contention_half * factor,
    )
    scheduler = replace(
        physics.scheduler, pods_per_second=physics.scheduler.pods_per_second * factor
    )
    pods = max(1, round(physics.population.pods_at_peak * factor))
    resized = with_physics(
        cluster,
        domains=scaled,
        provisioner=provisioner,
        scheduler=scheduler,
        population=replace(physics.population, pods_at_peak=pods),
    )
    return replace(resized, spend_cap_per_hour=cluster.spend_cap_per_hour * factor)


def _pair(entry: CallGuard | Call) -> tuple[str, str]:
    return entry.caller, entry.callee


def _check_physics(cluster: SimCluster) -> None:
    physics = cluster.physics
    _check_zones(cluster)
    _check_entries("domains", cluster.domain_names, physics.domains)
    _check_entries("pools", cluster.pool_names, physics.pools)
    for domain in cluster.domains:
        # Otherwise every slow request fails first, and the target has no meaning.
        if cluster.physics_of(domain).timeout_ms <= domain.slo.latency_target_ms:
            raise ValueError(
                f"domains.{domain.name}.timeout_ms: expected more than the latency target of "
                f"{domain.slo.latency_target_ms:g}"
            )
    calls = {" -> ".join(_pair(call)) for call in cluster.calls}
    # A misspelt guard would silently be "none".
    for entry in physics.guards:
        expect_one_of("guards", " -> ".join(_pair(entry)), calls)
    pods = sum(domain.pod_share for domain in cluster.domain_physics)
    if abs(pods - 1) > 1e-6:
        raise ValueError(f"domains: expected pod_share to sum to 1, got {pods:g}")
    _check_times(cluster)


def _check_zones(cluster: SimCluster) -> None:
    """Domains insure against the loss of a zone as large as the one that is lost, or larger."""
    insured = {
        name for domain in cluster.domains if domain.survive == "zone" for name in domain.pools
    }
    zones = len(cluster.physics.zones)
    for pool in cluster.pools:
        if pool.name in insured and pool.zones > zones:
            raise ValueError(
                f"zones: expected at least {pool.zones}, as in pools.{pool.name} of the cluster "
                f"file, got {zones}"
            )


def _check_entries(section: str, expected: tuple[str, ...], found: dict[str, Any]) -> None:
    missing = [name for name in expected if name not in found]
    if missing:
        raise ValueError(f"{section}: expected an entry for {missing[0]}, which is missing")
    for name in found:
        expect_one_of(section, name, set(expected))


def _check_times(cluster: SimCluster) -> None:
    """The simulator stores a limited number of ticks; anything later would be lost."""
    tick, physics = cluster.tick_seconds, cluster.physics
    oldest_s = physics.metrics.lag_s + physics.metrics.window_s
    for path, seconds, ticks in (
        ("metrics.lag_s", physics.metrics.lag_s, LONGEST_LAG_TICKS),
        ("metrics.window_s with lag_s", oldest_s, LONGEST_WINDOW_TICKS),
        # HPA's samples get up to two ticks older before the next scrape.
        ("metrics.hpa_lag_s", physics.metrics.hpa_lag_s, LONGEST_LAG_TICKS - 2),
        ("pod_stop.grace_s", physics.pod_stop.grace_s, LONGEST_GRACE_TICKS),
        ("churn.restart_s", physics.churn.restart_s, LONGEST_RESTART_TICKS),
    ):
        if seconds > ticks * tick:
            raise ValueError(f"{path}: expected at most {ticks} ticks of {tick} s, got {seconds:g}")
