"""A batch of samples of one domain: of some or all of its apps, or of single pods."""

from typing import Annotated, Final

from schemas.fields import Count, MiB, Millicores, Name, Sample, TickEvent, about

MEASURED: Final = (
    "rps",
    "throughput",
    "errors",
    "latency_p50_s",
    "latency_p99_s",
    "cpu_cores",
    "memory_gib",
    "measured_pods",
)
"""Columns of measurements, in the order of the rows of an observation."""
PODS: Final = (
    "replicas",
    "cpu_request",
    "memory_request",
    "ready",
    "starting",
    "pending",
    "restarts",
)
"""Columns from the API server, in the order of the rows of an observation."""


class MetricsSampled(TickEvent, frozen=True, kw_only=True):
    """Parallel columns with one entry per app or, if `pods` is given, one entry per pod.

    Null means that the metric did not arrive. A source that doesn't measure a column leaves it
    empty. The columns from the API server (`replicas` and below) have no nulls: send apps without
    them in a batch of their own.
    """

    domain: Annotated[Name, about("Domain of the sampled apps.")]
    source: Annotated[str, about("Collector or agent that took the samples.")] = ""
    final: Annotated[
        bool, about("True if the source sends no more for this tick; other apps are missing.")
    ] = False
    apps: Annotated[list[Name], about("App of each entry.")]
    pods: Annotated[list[str], about("Pod of each entry; empty if entries are whole apps.")] = []
    rps: Annotated[list[Sample], about("Requests that arrived per second.", "1/s")] = []
    throughput: Annotated[list[Sample], about("Requests answered per second.", "1/s")] = []
    errors: Annotated[list[Sample], about("Share of requests that failed, 0 to 1.", "share")] = []
    latency_p50_s: Annotated[list[Sample], about("Median latency in seconds.", "s")] = []
    latency_p99_s: Annotated[list[Sample], about("99th percentile latency in seconds.", "s")] = []
    cpu_cores: Annotated[
        list[Sample], about("CPU used by all measured pods of the entry, in cores.", "cores")
    ] = []
    memory_gib: Annotated[
        list[Sample], about("Memory used by all measured pods of the entry, in GiB.", "GiB")
    ] = []
    measured_pods: Annotated[list[Sample], about("Number of pods measured.", "pods")] = []
    io_bytes_per_s: Annotated[
        list[Sample], about("Bytes read from and written to disks per second.", "bytes/s")
    ] = []
    network_bytes_per_s: Annotated[
        list[Sample], about("Bytes sent and received per second.", "bytes/s")
    ] = []
    request_mix: Annotated[
        dict[str, list[Sample]],
        about("Share of each request type in the requests that arrived, 0 to 1.", "share"),
    ] = {}
    replicas: Annotated[list[Count], about("Desired number of pods.")] = []
    cpu_request: Annotated[list[Millicores], about("CPU request per pod in millicores.")] = []
    memory_request: Annotated[list[MiB], about("Memory request per pod in MiB.")] = []
    ready: Annotated[list[Count], about("Number of ready pods.")] = []
    starting: Annotated[list[Count], about("Number of pods on a node that are not ready.")] = []
    pending: Annotated[list[Count], about("Number of pods without a node.")] = []
    restarts: Annotated[list[Count], about("Container restarts since the app was created.")] = []
