"""Settings of the breaker, besides those of the kit."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from models.control.breaker import Thresholds

SERVICE: Final = "breaker"
_DEFAULT: Final = Thresholds()

Ticks = Annotated[int, Meta(ge=1)]
Lasting = Annotated[int, Meta(ge=2)]
"""Ticks for which a condition has to last: one bad tick never opens a breaker."""
Share = Annotated[float, Meta(gt=0, lt=1)]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When to open and how to close again; `Thresholds` explains each field."""

    stale_seconds: Annotated[float, Meta(gt=0)] = 60.0
    """Wall time without a frame, divided by the speed, after which it opens; not used in
    lock-step."""
    stale_ticks: Ticks = _DEFAULT.stale_ticks
    missing_share: Share = _DEFAULT.missing_share
    missing_ticks: Lasting = _DEFAULT.missing_ticks
    mismatch_share: Share = _DEFAULT.mismatch_share
    mismatch_ticks: Lasting = _DEFAULT.mismatch_ticks
    mismatch_apps: Ticks = _DEFAULT.mismatch_apps
    error_share: Share = _DEFAULT.error_share
    error_ticks: Lasting = _DEFAULT.error_ticks
    burn_share: Share = _DEFAULT.burn_share
    burn_ticks: Lasting = _DEFAULT.burn_ticks
    burn_short_ticks: Ticks = _DEFAULT.burn_short_ticks
    burn_long_ticks: Ticks = _DEFAULT.burn_long_ticks
    calm_part: Share = _DEFAULT.calm_part
    quiet_ticks: Ticks = _DEFAULT.quiet_ticks
    quiet_most_ticks: Ticks = _DEFAULT.quiet_most_ticks
    probation_ticks: Ticks = _DEFAULT.probation_ticks
    forget_ticks: Ticks = _DEFAULT.forget_ticks

    def __post_init__(self) -> None:
        if self.burn_short_ticks > self.burn_long_ticks:
            raise ValueError("burn_short_ticks: expected at most burn_long_ticks")
        if self.quiet_ticks > self.quiet_most_ticks:
            raise ValueError("quiet_ticks: expected at most quiet_most_ticks")

    @property
    def thresholds(self) -> Thresholds:
        """Input of the rules."""
        return Thresholds(**{name: getattr(self, name) for name in Thresholds._fields})
