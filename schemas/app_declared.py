"""An app of the inventory: without it, "missing" has no meaning."""

from typing import Annotated, Literal

import msgspec

from schemas.fields import Count, Event, Mode, Name, Ratio, Seconds, Share, Small, about


class RequestMix(msgspec.Struct, frozen=True, kw_only=True):
    """Declared shares of the request types in an app's traffic; they sum to 1."""

    api: Annotated[Share, about("calls by programs")] = 0.0
    web: Annotated[Share, about("pages for people")] = 0.0
    batch: Annotated[Share, about("bulk work")] = 0.0
    stream: Annotated[Share, about("long-lived connections")] = 0.0
    event: Annotated[Share, about("messages of a queue")] = 0.0


class AppDeclared(Event, frozen=True, kw_only=True):
    """Bounds, targets and mode as the owner of the app declared them. The newest counts."""

    app: Annotated[Name, about("namespace and name of a Deployment, or any unique name")]
    domain: Annotated[Name, about("that the app belongs to, and whose budget it is paid from")]
    ordinal: Annotated[Count, about("order within the cluster: ties are settled by it")]
    tier: Annotated[Small, about("tier group within the domain")] = 0
    min_replicas: Annotated[Count, about("never fewer")] = 1
    max_replicas: Annotated[Count, about("never more")] = 1
    latency_target_s: Annotated[Seconds | None, about("p99 to keep; null for best effort")] = None
    saturation: Annotated[
        Ratio, about("CPU use over request at which a load test found a pod full")
    ] = 1.0
    request_mix: RequestMix = RequestMix(api=1.0)
    mode: Annotated[Mode | None, about("null: the mode of its domain")] = None
    pause: Annotated[
        Literal["none", "all", "scale-in", "scale-out"], about("what is not to be done to it")
    ] = "none"
    removed: Annotated[bool, about("the app is gone; a tombstone says the same")] = False
