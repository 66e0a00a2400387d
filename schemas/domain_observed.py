"""The frame of a domain: all that is seen of it in one tick."""

from typing import Annotated

import msgspec

from schemas.fields import Count, Name, Part, Sample, TickEvent, about


class Pods(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server answers, a place per app."""

    replicas: list[Count]
    cpu_request: Annotated[list[Count], about("millicores per pod")]
    memory_request: Annotated[list[Count], about("MiB per pod")]
    ready: list[Count]
    starting: list[Count]
    pending: list[Count]
    restarts: list[Count]


class DomainObserved(TickEvent, frozen=True, kw_only=True):
    """Columns have a place per declared app of the domain, in the order of `apps`."""

    domain: Name
    part: Part = Part()
    apps: list[Name]
    pods: Pods
    measured: Annotated[
        dict[str, list[Sample]],
        about("samples of this tick as they came, by the names of MetricsSampled; null: missing"),
    ]
    features: Annotated[
        dict[str, list[float]],
        about("what a controller sees, by feature; names, units and ranges in docs/features.md"),
    ]
    load: Annotated[
        list[float], about("what the traffic asks for, in pods of the app that it would fill")
    ]
    usual: Annotated[list[float], about("slow mean of `load`; what is above it is a surge")]
    missing: Annotated[list[Name], about("apps without a valid sample in this tick")] = []
    aggregates: Annotated[
        dict[str, float],
        about("of the domain, by feature: sums, quantiles, variances, in flight by age"),
    ] = {}
    calls: Annotated[dict[str, float], about("inline calls to other domains per request")] = {}
    latency_exposure: Annotated[
        float | None,
        about("part of the latency target that inline callees use; null where they are not seen"),
    ] = None
    closed_by: Annotated[
        str, about("complete: every app reported. final: the source said so. grace: time was up")
    ] = "complete"
