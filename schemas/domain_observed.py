"""The frame of a domain: everything observed of it in one tick."""

from typing import Annotated

import msgspec

from schemas.fields import Count, MiB, Millicores, Name, Part, Sample, TickEvent, about


class Pods(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of each app according to the API server, one entry per app."""

    replicas: Annotated[list[Count], about("Desired number of pods.")]
    cpu_request: Annotated[list[Millicores], about("CPU request per pod in millicores.")]
    memory_request: Annotated[list[MiB], about("Memory request per pod in MiB.")]
    ready: Annotated[list[Count], about("Number of ready pods.")]
    starting: Annotated[list[Count], about("Number of pods on a node that are not ready.")]
    pending: Annotated[list[Count], about("Number of pods without a node.")]
    restarts: Annotated[list[Count], about("Container restarts since the app was created.")]


class DomainObserved(TickEvent, frozen=True, kw_only=True):
    """Parallel columns with one entry per declared app of the domain, in the order of `apps`."""

    domain: Annotated[Name, about("Observed domain.")]
    part: Annotated[Part, about("Position among the parts of the event.")] = Part()
    apps: Annotated[list[Name], about("Declared apps of the domain, by `ordinal`, then name.")]
    pods: Annotated[Pods, about("Pods of each app according to the API server.")]
    measured: Annotated[
        dict[str, list[Sample]],
        about("Samples of this tick by column of MetricsSampled; null means missing."),
    ]
    features: Annotated[
        dict[str, list[float]],
        about("Controller inputs by feature name; see docs/reference/features.md for units."),
    ]
    load_pods: Annotated[
        list[float], about("Pods that the app's current traffic would fully use.", "pods")
    ]
    usual_load_pods: Annotated[
        list[float], about("Slow mean of `load_pods`; load above it is a surge.", "pods")
    ]
    missing: Annotated[list[Name], about("Apps without a valid sample in this tick.")] = []
    aggregates: Annotated[
        dict[str, float],
        about("Sums, quantiles and variances over the domain, by feature name."),
    ] = {}
    calls: Annotated[
        dict[str, float],
        about("Synchronous calls to each other domain per incoming request.", "ratio"),
    ] = {}
    latency_exposure: Annotated[
        float | None,
        about("Share of the latency target used by called domains; null if unknown."),
    ] = None
    closed_by: Annotated[
        str,
        about(
            "Why the tick closed: `complete` (every app reported), `final` (the source sends no "
            "more) or `grace` (the grace period ended)."
        ),
    ] = "complete"
