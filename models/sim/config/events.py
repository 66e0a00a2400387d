"""The events of a scenario file, one class per kind.

Minutes count from the accounted start. `jitter_minutes` and `factor_jitter` are the largest
deviations that a seed may draw. They make seeds differ, so that no controller can be tuned to a
certain minute.
"""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from models.cluster.description import Count, Name, Positive
from models.cluster.inventory import RequestType
from models.sim.config.timeline import Lasting, Moment, Span

SomeShare = Annotated[float, Meta(gt=0, le=1)]
AppIndex = Annotated[int, Meta(ge=0)]


class _Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A section of the file: unknown keys are errors, values never change."""


class Target(_Spec, frozen=True, kw_only=True):
    """The affected apps: a share of domains and tiers, or a list of indices."""

    domains: tuple[Name, ...] = ()
    tiers: tuple[Name, ...] = ()
    """Empty means every tier of the domains. In a tiny cluster a tier may have no app."""
    share: SomeShare = 1.0
    """Share of the matching apps of each domain; at least one app."""
    apps: tuple[AppIndex, ...] = ()

    def __post_init__(self) -> None:
        # An empty selection never means "all": a typo must not affect the whole cluster.
        if bool(self.domains) == bool(self.apps):
            raise ValueError("expected either domains or apps")
        if self.apps and (self.tiers or self.share != 1):
            raise ValueError("expected tiers and share only together with domains")


class _Event(_Spec, frozen=True, kw_only=True, tag_field="kind"):
    """The fields of every kind of event."""

    name: Name
    """Unique within the scenario. Draws depend on it, not on the index in the list, so removing
    one event leaves the others unchanged."""
    at_minute: Moment
    jitter_minutes: Span = 0.0


class _Wave(_Event, frozen=True, kw_only=True):
    """A factor that rises linearly, holds, and falls back to 1."""

    target: Target
    factor: Positive
    # Below 1, so that no seed turns a rise into a fall.
    factor_jitter: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Relative to the change: 0.15 turns a doubling into a factor of 1.85 to 2.15."""
    ramp_minutes: Span = 0.0
    hold_minutes: Span
    decay_minutes: Span = 0.0


class Traffic(_Wave, frozen=True, kw_only=True, tag="traffic"):
    """Multiplies the requests from outside the cluster."""


class Payload(_Wave, frozen=True, kw_only=True, tag="payload"):
    """Multiplies the work per request."""


class Mix(_Event, frozen=True, kw_only=True, tag="mix"):
    """Turns part of the requests of one type into another type; their number stays the same."""

    target: Target
    from_type: RequestType
    to_type: RequestType
    share: SomeShare
    """Share of the requests of `from_type` that each app declares."""
    share_jitter: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Relative: 0.15 turns a share of 0.4 into 0.34 to 0.46."""
    ramp_minutes: Span = 0.0
    hold_minutes: Span
    decay_minutes: Span = 0.0

    def __post_init__(self) -> None:
        if self.from_type == self.to_type:
            raise ValueError("expected from_type and to_type to differ")


class Regime(_Event, frozen=True, kw_only=True, tag="regime"):
    """Traffic alternates between two levels, `cycles` times."""

    target: Target
    high: Positive
    low: Positive
    factor_jitter: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Relative to the change, as for traffic."""
    high_minutes: Lasting
    low_minutes: Lasting
    ramp_minutes: Span = 0.0
    """From one level to the other."""
    cycles: Count = 1


class Deploy(_Event, frozen=True, kw_only=True, tag="deploy"):
    """Each target app starts one rolling deploy; the last event for an app wins."""

    target: Target
    over_minutes: Span = 0.0
    """The apps start at random times within this period."""


class ZoneLoss(_Event, frozen=True, kw_only=True, tag="zone-loss"):
    """All nodes of a zone are lost, and no new ones start there."""

    zone: Name
    length_minutes: Lasting


class SpotReclaim(_Event, frozen=True, kw_only=True, tag="spot-reclaim"):
    """The cloud takes back a share of the spot nodes at once."""

    share: SomeShare


class MetricsOutage(_Event, frozen=True, kw_only=True, tag="metrics-outage"):
    """One metrics pipeline fails for the target apps, in the way that it fails in real clusters.

    Neither metrics-server nor the kubelet ever answers zero. metrics-server discards a container
    whose CPU reads zero (kubernetes-sigs/metrics-server#207 and #428), so HPA has no sample and
    holds.
    """

    target: Target
    pipeline: Literal["metrics-server", "kubelet", "exporter"]
    """What fails: metrics-server, which HPA reads; the kubelet, the source of CPU and memory for
    metrics-server and Prometheus; or the app's own exporter of requests, errors and latency."""
    mode: Literal["missing", "zero", "stale"] = "missing"
    """What an exporter returns meanwhile: nothing, zeros, or the values of its last good tick."""
    length_minutes: Lasting

    def __post_init__(self) -> None:
        if self.mode != "missing" and self.pipeline != "exporter":
            raise ValueError(f"mode: expected missing, the only way that {self.pipeline} fails")


class Leak(_Event, frozen=True, kw_only=True, tag="leak"):
    """Pods of the target apps leak memory, on top of what they leak anyway, until they restart."""

    target: Target
    requests_per_hour: Positive
    """Leaked memory per pod and hour, as a share of its app's first memory request."""
    length_minutes: Lasting


class Crash(_Event, frozen=True, kw_only=True, tag="crash"):
    """Containers of the target apps crash, as those of a bad release; each death backs off."""

    target: Target
    share_per_minute: SomeShare
    """Share of an app's ready pods that crash in a minute."""
    length_minutes: Lasting
    """Until the release is rolled back."""


class Inventory(_Event, frozen=True, kw_only=True, tag="inventory"):
    """Target apps appear (they are absent before), vanish, or move to another domain."""

    target: Target
    change: Literal["appear", "vanish", "move"]
    to_domain: Name | None = None

    def __post_init__(self) -> None:
        if (self.change == "move") != (self.to_domain is not None):
            raise ValueError("expected to_domain for a move, and only for a move")


Event: TypeAlias = (
    Traffic
    | Payload
    | Mix
    | Regime
    | Deploy
    | ZoneLoss
    | SpotReclaim
    | MetricsOutage
    | Leak
    | Crash
    | Inventory
)
# The tags of `Event`, to list them in error messages. A test keeps both equal.
KINDS = (
    "traffic",
    "payload",
    "mix",
    "regime",
    "deploy",
    "zone-loss",
    "spot-reclaim",
    "metrics-outage",
    "leak",
    "crash",
    "inventory",
)


class Replay(_Spec, frozen=True, kw_only=True):
    """A recorded trace that replaces the daily profile of the target apps.

    The last replay for an app wins, so one app can override the replay of its domain.
    """

    file: str
    """CSV or CSV.gz, relative to the scenario file."""
    column: str | None = None
    """The traffic column; required if the file has several."""
    time_column: str | None = None
    """The column of timestamps or minutes; by default the first one."""
    start_minute: Annotated[int, Meta(ge=0)] | None = None
    """Minute of the trace at the accounted start. By default the trace's first minute is the first
    of the 14 days of history."""
    target: Target


def target_of(event: Event) -> Target | None:
    """The target of an event; None for events that affect nodes."""
    return None if isinstance(event, ZoneLoss | SpotReclaim) else event.target
