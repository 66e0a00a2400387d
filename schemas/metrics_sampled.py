"""A batch of samples of one domain: some or all of its apps, or single pods of them."""

from typing import Annotated

from schemas.fields import Count, MiB, Millicores, Name, Sample, TickEvent, about


class MetricsSampled(TickEvent, frozen=True, kw_only=True):
    """Columns of equal length, one place per app or, with `pods`, per pod.

    Null says that the metric did not arrive. Columns of the API server's answers are whole where
    they are given at all; a source that does not know them leaves them empty.
    """

    domain: Name
    source: Annotated[str, about("which collector or agent measured")] = ""
    final: Annotated[
        bool, about("the source has nothing more for this tick: what is not here is missing")
    ] = False
    apps: list[Name]
    pods: Annotated[list[str], about("name per place; empty when a place stands for an app")] = []
    rps: Annotated[list[Sample], about("requests per second")] = []
    throughput: Annotated[list[Sample], about("answers per second")] = []
    errors: Annotated[list[Sample], about("failing share of the requests, 0 to 1")] = []
    latency_p50_s: Annotated[list[Sample], about("seconds")] = []
    latency_p99_s: Annotated[list[Sample], about("seconds")] = []
    cpu_cores: Annotated[list[Sample], about("cores used by all measured pods of the place")] = []
    memory_gib: Annotated[list[Sample], about("GiB used by all measured pods of the place")] = []
    measured_pods: Annotated[list[Sample], about("pods that were measured")] = []
    io_bytes_per_s: Annotated[list[Sample], about("read and written on disks")] = []
    network_bytes_per_s: Annotated[list[Sample], about("sent and received")] = []
    request_mix: Annotated[
        dict[str, list[Sample]], about("share of each request type in what arrived, by type")
    ] = {}
    replicas: Annotated[list[Count], about("pods wanted, as the API server answers")] = []
    cpu_request: Annotated[list[Millicores], about("millicores per pod")] = []
    memory_request: Annotated[list[MiB], about("MiB per pod")] = []
    ready: Annotated[list[Count], about("ready pods")] = []
    starting: Annotated[list[Count], about("pods on a node that are not ready")] = []
    pending: Annotated[list[Count], about("pods without a node")] = []
    restarts: Annotated[list[Count], about("container restarts since the app began")] = []
