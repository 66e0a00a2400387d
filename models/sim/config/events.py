"""What happens in a scenario, as its file states it: one class per kind of event.

Minutes are counted from the accounted start. `jitter_minutes` and `factor_jitter` are the
largest deviations a seed may draw, so that seeds differ and no controller learns a minute
by heart.
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
    """Which apps are meant: a share of domains and tiers, or a list of indices."""

    domains: tuple[Name, ...] = ()
    tiers: tuple[Name, ...] = ()
    """Empty: every tier of the domains. In a tiny cluster a tier may have no app."""
    share: SomeShare = 1.0
    """Of the apps of each domain that match; at least one of them."""
    apps: tuple[AppIndex, ...] = ()

    def __post_init__(self) -> None:
        # An empty selection never means "all": a typing slip must not hit the whole cluster.
        if bool(self.domains) == bool(self.apps):
            raise ValueError("expected either domains or apps")
        if self.apps and (self.tiers or self.share != 1):
            raise ValueError("expected tiers and share only beside domains")


class _Event(_Spec, frozen=True, kw_only=True, tag_field="kind"):
    """Something that happens at a time."""

    name: Name
    """Distinct within the scenario. Draws hang on it, not on the place in the list, so that
    removing one event leaves the others as they were."""
    at_minute: Moment
    jitter_minutes: Span = 0.0


class _Wave(_Event, frozen=True, kw_only=True):
    """A factor that rises linearly, holds and falls back."""

    target: Target
    factor: Positive
    factor_jitter: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Relative to the change: 0.15 makes a doubling a factor of 1.85 to 2.15."""
    ramp_minutes: Span = 0.0
    hold_minutes: Span
    decay_minutes: Span = 0.0


class Traffic(_Wave, frozen=True, kw_only=True, tag="traffic"):
    """What arrives from outside is multiplied."""


class Payload(_Wave, frozen=True, kw_only=True, tag="payload"):
    """The work per request is multiplied."""


class Mix(_Event, frozen=True, kw_only=True, tag="mix"):
    """Part of the requests of one type becomes requests of another; the number stays the same."""

    target: Target
    from_type: RequestType
    to_type: RequestType
    share: SomeShare
    """Of the requests of `from_type` as each app declares them."""
    share_jitter: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    """Relative: 0.15 makes 0.4 a share of 0.34 to 0.46."""
    ramp_minutes: Span = 0.0
    hold_minutes: Span
    decay_minutes: Span = 0.0

    def __post_init__(self) -> None:
        if self.from_type == self.to_type:
            raise ValueError("expected from_type and to_type to differ")


class Regime(_Event, frozen=True, kw_only=True, tag="regime"):
    """Traffic goes from high to low and back, `cycles` times."""

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
    """Each target app starts one rolling deploy; of several deploys of an app the last counts."""

    target: Target
    over_minutes: Span = 0.0
    """The apps' beginnings are spread evenly over this time."""


class ZoneLoss(_Event, frozen=True, kw_only=True, tag="zone-loss"):
    """All nodes of a zone are gone and no new ones start there."""

    zone: Name
    length_minutes: Lasting


class SpotReclaim(_Event, frozen=True, kw_only=True, tag="spot-reclaim"):
    """The cloud takes back a share of the spot nodes at once."""

    share: SomeShare


class MetricsOutage(_Event, frozen=True, kw_only=True, tag="metrics-outage"):
    """Samples of the target apps read zero, or do not arrive."""

    target: Target
    mode: Literal["zero", "missing"]
    length_minutes: Lasting


class Inventory(_Event, frozen=True, kw_only=True, tag="inventory"):
    """Target apps appear (absent until then), vanish, or move to another domain."""

    target: Target
    change: Literal["appear", "vanish", "move"]
    to_domain: Name | None = None

    def __post_init__(self) -> None:
        if (self.change == "move") != (self.to_domain is not None):
            raise ValueError("expected to_domain for a move and only there")


Event: TypeAlias = (
    Traffic | Payload | Mix | Regime | Deploy | ZoneLoss | SpotReclaim | MetricsOutage | Inventory
)
KINDS = (
    "traffic",
    "payload",
    "mix",
    "regime",
    "deploy",
    "zone-loss",
    "spot-reclaim",
    "metrics-outage",
    "inventory",
)


class Replay(_Spec, frozen=True, kw_only=True):
    """A recorded trace in place of the daily profile of the target apps.

    Of several replays of an app the last counts, so a domain's can be refined for one app.
    """

    file: str
    """CSV or CSV.gz, relative to the scenario file."""
    column: str | None = None
    """Holds the traffic; needed only where the file leaves a choice."""
    time_column: str | None = None
    """Holds timestamps or minutes; the first column when not given."""
    start_minute: Annotated[int, Meta(ge=0)] | None = None
    """Minute of the trace that plays at the accounted start. Without it the trace's first
    minute is the first of the 14 days of history."""
    target: Target


def target_of(event: Event) -> Target | None:
    """The apps an event names; zones and spot nodes are no apps."""
    return None if isinstance(event, ZoneLoss | SpotReclaim) else event.target
