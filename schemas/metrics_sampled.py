"""A batch of samples of one domain: some or all of its apps, or single pods of them."""

from typing import Annotated

from schemas.fields import Count, MiB, Millicores, Name, Sample, TickEvent, about


class MetricsSampled(TickEvent, frozen=True, kw_only=True):
    """Columns of equal length, one place per app or, with `pods`, per pod.

    Null says that the metric did not arrive. Columns of the API server's answers are whole where
    they are given at all; a source that does not know them leaves them empty.
    """

    domain: Annotated[Name, about("that the apps belong to")]
    source: Annotated[str, about("which collector or agent measured")] = ""
    final: Annotated[
        bool, about("the source has nothing more for this tick: what is not here is missing")
    ] = False
    apps: Annotated[list[Name], about("per place; with `pods`, the app of the pod")]
    pods: Annotated[list[str], about("name per place; empty when a place stands for an app")] = []
    rps: Annotated[list[Sample], about("requests that arrived", "1/s")] = []
    throughput: Annotated[list[Sample], about("answers", "1/s")] = []
    errors: Annotated[list[Sample], about("of the requests that fail", "share")] = []
    latency_p50_s: Annotated[list[Sample], about("median", "s")] = []
    latency_p99_s: Annotated[list[Sample], about("99 of 100 are faster", "s")] = []
    cpu_cores: Annotated[
        list[Sample], about("used by all measured pods of the place", "cores")
    ] = []
    memory_gib: Annotated[list[Sample], about("used by all measured pods of the place", "GiB")] = []
    measured_pods: Annotated[list[Sample], about("that were measured", "pods")] = []
    io_bytes_per_s: Annotated[list[Sample], about("read and written on disks", "bytes/s")] = []
    network_bytes_per_s: Annotated[list[Sample], about("sent and received", "bytes/s")] = []
    request_mix: Annotated[
        dict[str, list[Sample]], about("of what arrived, by request type", "share")
    ] = {}
    replicas: Annotated[list[Count], about("pods wanted, as the API server answers")] = []
    cpu_request: Annotated[list[Millicores], about("per pod")] = []
    memory_request: Annotated[list[MiB], about("per pod")] = []
    ready: Annotated[list[Count], about("ready pods")] = []
    starting: Annotated[list[Count], about("pods on a node that are not ready")] = []
    pending: Annotated[list[Count], about("pods without a node")] = []
    restarts: Annotated[list[Count], about("container restarts since the app began")] = []
