"""The constant properties of a cluster's apps and of the calls between them.

One array per property, one element per app, in named tuples because numba kernels take those as
they are. `population.generate` draws the values once per cluster, so all environments share them.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F32, I8, I16, I32, Records, records

# What limits a pod.
CPU_BOUND: Final = 0
MEMORY_BOUND: Final = 1
IO_BOUND: Final = 2

# What a caller does when a call fails, see `config.physics.CallGuard`.
GUARD_NONE: Final = 0
GUARD_FAIL_OPEN: Final = 1
GUARD_QUEUE: Final = 2


class Apps(NamedTuple):
    """Each array is [apps] unless stated otherwise."""

    domain: I16
    """Index into the cluster's domains; accounting uses its priority."""
    tier: I16
    """Index into the domain's tiers."""
    pod_class: I8
    """Priority class that the scheduler uses, 0..3; for some apps not that of the domain."""
    bound: I8
    """CPU_BOUND, MEMORY_BOUND or IO_BOUND."""
    best_effort: I8
    """1 when the app has no latency target."""
    cpu_request: F32
    """Cores per pod at the start."""
    cpu_limit_ratio: F32
    """CPU limit over request, at least 1."""
    memory_request: F32
    """GiB per pod at the start."""
    memory_limit_ratio: F32
    """Memory limit over request, at least 1."""
    min_replicas: I32
    max_replicas: I32
    start_replicas: I32
    """Replicas for the mean weekday traffic at the target utilisation."""
    cpu_seconds: F32
    """CPU time of one request."""
    io_seconds: F32
    """Time that a request waits for disks and networks while it occupies a worker."""
    workers_per_core: F32
    """Requests that a pod works on at once, per core."""
    memory_base: F32
    """GiB that a fresh idle pod uses."""
    memory_per_request: F32
    """GiB per request in progress."""
    memory_leak: F32
    """GiB that a pod leaks per hour."""
    latency_target: F32
    """Seconds; infinite for best-effort apps."""
    timeout: F32
    """Seconds until the caller gives up."""
    retry_share: F32
    """Share of failed requests that callers retry; 0 where they must not."""
    retry_budget: F32
    """Most retries over first attempts; infinite where clients have no such budget."""
    mean_rps: F32
    """Requests per second over a mean weekday, calls from other apps included."""
    own_rps: F32
    """The part of it that comes from outside the cluster."""
    day_profile: I16
    """Row of `day_profiles`."""
    day_shift: I16
    """Minutes the app is ahead of its profile: it reads the profile at minute + shift."""
    noise: F32
    """Log standard deviation of the slow noise on the traffic."""
    bursts_per_day: F32
    burst_size: F32
    """Mean of (peak of a burst / normal) - 1."""
    image_pull: F32
    """Relative image size: 1 is the cluster's median."""
    boot: F32
    """Relative boot and warm-up time: 1 is the cluster's median."""
    request_mix: F32
    """[apps, request types] as declared, rows sum to 1; `cpu_seconds` is the mean over it."""
    day_profiles: F32
    """[profiles, 1440]: traffic of a minute of the day over the day's mean."""


class Calls(NamedTuple):
    """Edges of the call graph, sorted so that edges into an app precede the edges out of it.

    So one pass forward carries demand to the callees, and one pass backward carries their latency
    and failures to the callers.
    """

    caller: I32
    callee: I32
    per_request: F32
    guard: I8
    cross_domain: I8
    """1 when the edge leaves the caller's domain."""


class Population(NamedTuple):
    """The apps of a cluster and their calls."""

    apps: Apps
    calls: Calls


def app_records(apps: Apps) -> Records:
    """[A] one record per app with all its scalar properties, as kernels take them."""
    # For kernels that visit single apps. Loops over all apps read the rows of `Traits`.
    columns = {name: column for name, column in apps._asdict().items() if column.ndim == 1}
    return records(columns, apps.domain.shape)


class Traits(NamedTuple):
    """The properties that the service formulas read, as plain rows so that loops vectorise."""

    limit_ratio: F32
    start_limit: F32
    """CPU limit at the start, at most one core: a pod with a lower limit is slower per request."""
    workers: F32
    """Per core."""
    cpu_seconds: F32
    io_seconds: F32
    memory_base: F32
    memory_per_request: F32
    target: F32
    timeout: F32
    retry_share: F32
    retry_budget: F32


def service_traits(apps: Apps) -> Traits:
    """The service formulas' view of the apps."""
    return Traits(
        limit_ratio=apps.cpu_limit_ratio,
        start_limit=np.minimum(np.float32(1.0), apps.cpu_request * apps.cpu_limit_ratio),
        workers=apps.workers_per_core,
        cpu_seconds=apps.cpu_seconds,
        io_seconds=apps.io_seconds,
        memory_base=apps.memory_base,
        memory_per_request=apps.memory_per_request,
        target=apps.latency_target,
        timeout=apps.timeout,
        retry_share=apps.retry_share,
        # Finite, because infinity times no requests is no number.
        retry_budget=np.minimum(apps.retry_budget, np.float32(1e9)),
    )
