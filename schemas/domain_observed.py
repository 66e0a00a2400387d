"""The frame of a domain: all that is seen of it in one tick."""

from typing import Annotated

import msgspec

from schemas.fields import Count, MiB, Millicores, Name, Part, Sample, TickEvent, about


class Pods(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server answers, a place per app."""

    replicas: Annotated[list[Count], about("pods wanted")]
    cpu_request: Annotated[list[Millicores], about("per pod")]
    memory_request: Annotated[list[MiB], about("per pod")]
    ready: Annotated[list[Count], about("ready pods")]
    starting: Annotated[list[Count], about("pods on a node that are not ready")]
    pending: Annotated[list[Count], about("pods without a node")]
    restarts: Annotated[list[Count], about("container restarts since the app began")]


class DomainObserved(TickEvent, frozen=True, kw_only=True):
    """Columns have a place per declared app of the domain, in the order of `apps`."""

    domain: Annotated[Name, about("that is seen")]
    part: Part = Part()
    apps: Annotated[list[Name], about("declared apps of the domain, by `ordinal`, then name")]
    pods: Pods
    measured: Annotated[
        dict[str, list[Sample]],
        about("samples of this tick as they came, by the names of MetricsSampled; null: missing"),
    ]
    features: Annotated[
        dict[str, list[float]],
        about("what a controller sees, by feature; names and units: docs/reference/features.md"),
    ]
    load: Annotated[list[float], about("pods of the app that its traffic would fill", "pods")]
    usual: Annotated[list[float], about("slow mean of `load`; what is above it is a surge", "pods")]
    missing: Annotated[list[Name], about("apps without a valid sample in this tick")] = []
    aggregates: Annotated[
        dict[str, float],
        about("of the domain, by feature: sums, quantiles, variances, in flight by age"),
    ] = {}
    calls: Annotated[
        dict[str, float], about("inline calls to other domains per request", "ratio")
    ] = {}
    latency_exposure: Annotated[
        float | None,
        about("part of the latency target that inline callees use; null where they are not seen"),
    ] = None
    closed_by: Annotated[
        str, about("complete: every app reported. final: the source said so. grace: time was up")
    ] = "complete"
