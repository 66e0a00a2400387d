"""One app of the inventory. An app can only be missing from samples if it was declared first."""

from typing import Annotated, Literal

import msgspec

from schemas.fields import Count, Event, Mode, Name, Ratio, Seconds, Share, Small, about


class RequestMix(msgspec.Struct, frozen=True, kw_only=True):
    """Declared share of each request type in an app's traffic; the shares sum to 1."""

    api: Annotated[Share, about("Share of calls by other programs.")] = 0.0
    web: Annotated[Share, about("Share of page views by people.")] = 0.0
    batch: Annotated[Share, about("Share of bulk requests.")] = 0.0
    stream: Annotated[Share, about("Share of long-lived connections.")] = 0.0
    event: Annotated[Share, about("Share of messages consumed from a queue.")] = 0.0


class AppDeclared(Event, frozen=True, kw_only=True):
    """Bounds, targets and mode of one app, as its owner declares them. The newest record wins."""

    app: Annotated[
        Name, about("Unique name of the app, for example `namespace/name` of a Deployment.")
    ]
    domain: Annotated[Name, about("Domain of the app; its budget pays for the app.")]
    ordinal: Annotated[Count, about("Position of the app in the cluster; breaks ties.")]
    tier: Annotated[Small, about("Index of the app's tier group within the domain.")] = 0
    min_replicas: Annotated[Count, about("Lowest number of replicas.")] = 1
    max_replicas: Annotated[
        Count | None,
        about("Highest number of replicas; null if none is declared: then the app is not changed."),
    ] = None
    latency_target_s: Annotated[
        Seconds | None, about("Target for the p99 latency in seconds; null means best effort.")
    ] = None
    saturation: Annotated[
        Ratio, about("CPU use over CPU request at which a load test found a pod saturated.")
    ] = 1.0
    request_mix: Annotated[
        RequestMix, about("Declared share of each request type in the app's traffic.")
    ] = RequestMix(api=1.0)
    mode: Annotated[Mode | None, about("Mode of the app, if stricter than that of its domain.")] = (
        None
    )
    pause: Annotated[
        Literal["none", "all", "scale-in", "scale-out"],
        about("Changes that must not be applied to the app."),
    ] = "none"
    removed: Annotated[bool, about("True if the app is gone; a tombstone means the same.")] = False
