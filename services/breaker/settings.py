"""Settings of the breaker, besides those of the kit."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from models.control.breaker.cluster import ClusterThresholds
from models.control.breaker.limits import Thresholds

SERVICE: Final = "breaker"
_DEFAULT: Final = Thresholds()
_CLUSTER: Final = ClusterThresholds()

Ticks = Annotated[int, Meta(ge=1)]
Lasting = Annotated[int, Meta(ge=2)]
"""Ticks for which a condition has to last: one bad tick never opens a breaker."""
Share = Annotated[float, Meta(gt=0, lt=1)]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When to open and how to close again; `Thresholds` and `ClusterThresholds` explain each field.

    Shares and times are those of P2; `GRADES` has the factors of the other priorities.
    """

    cluster: str = ""
    """Path of a cluster description (YAML); the example cluster when empty. It has the
    priorities, the prices and the spend cap."""
    stale_seconds: Annotated[float, Meta(gt=0)] = 60.0
    """Wall time without a frame, divided by the speed, after which it opens; not used in
    lock-step."""
    stale_ticks: Ticks = _DEFAULT.stale_ticks
    missing_share: Share = _DEFAULT.missing_share
    missing_ticks: Lasting = _DEFAULT.missing_ticks
    mismatch_share: Share = _DEFAULT.mismatch_share
    mismatch_ticks: Lasting = _DEFAULT.mismatch_ticks
    mismatch_apps: Ticks = _DEFAULT.mismatch_apps
    held_share: Share = _DEFAULT.held_share
    held_ticks: Lasting = _DEFAULT.held_ticks
    error_share: Share = _DEFAULT.error_share
    error_ticks: Lasting = _DEFAULT.error_ticks
    burn_share: Share = _DEFAULT.burn_share
    burn_ticks: Lasting = _DEFAULT.burn_ticks
    burn_short_ticks: Ticks = _DEFAULT.burn_short_ticks
    burn_long_ticks: Ticks = _DEFAULT.burn_long_ticks
    regression_share: Share = _DEFAULT.regression_share
    regression_ticks: Lasting = _DEFAULT.regression_ticks
    oscillation_share: Share = _DEFAULT.oscillation_share
    oscillation_ticks: Lasting = _DEFAULT.oscillation_ticks
    decrease_share: Share = _DEFAULT.decrease_share
    decrease_ticks: Lasting = _DEFAULT.decrease_ticks
    skill_share: Share = _DEFAULT.skill_share
    skill_ticks: Lasting = _DEFAULT.skill_ticks
    output_share: Share = _DEFAULT.output_share
    output_ticks: Lasting = _DEFAULT.output_ticks
    calm_part: Share = _DEFAULT.calm_part
    quiet_ticks: Ticks = _DEFAULT.quiet_ticks
    quiet_most_ticks: Ticks = _DEFAULT.quiet_most_ticks
    probation_ticks: Ticks = _DEFAULT.probation_ticks
    resume_ticks: Ticks = _DEFAULT.resume_ticks
    forget_ticks: Ticks = _DEFAULT.forget_ticks
    domains_share: Share = _CLUSTER.domains_share
    domains_ticks: Lasting = _CLUSTER.domains_ticks
    cost_ratio: Annotated[float, Meta(ge=1)] = _CLUSTER.cost_ratio
    cost_ticks: Lasting = _CLUSTER.cost_ticks
    silence_ticks: Ticks = _CLUSTER.silence_ticks
    budgets_ticks: Lasting = _CLUSTER.budgets_ticks
    budgets_fallback_ticks: Lasting = _CLUSTER.budgets_fallback_ticks

    def __post_init__(self) -> None:
        if self.burn_short_ticks > self.burn_long_ticks:
            raise ValueError("burn_short_ticks: expected at most burn_long_ticks")
        if self.quiet_ticks > self.quiet_most_ticks:
            raise ValueError("quiet_ticks: expected at most quiet_most_ticks")

    @property
    def thresholds(self) -> Thresholds:
        """Input of the domains' rules."""
        return Thresholds(**{name: getattr(self, name) for name in Thresholds._fields})

    @property
    def cluster_thresholds(self) -> ClusterThresholds:
        """Input of the cluster's rules."""
        return ClusterThresholds(
            **{name: getattr(self, name) for name in ClusterThresholds._fields}
        )
