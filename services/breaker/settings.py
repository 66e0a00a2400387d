"""What the breaker can be told, beside what the kit asks for."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from models.control.breaker import Thresholds

SERVICE: Final = "breaker"
_USUAL: Final = Thresholds()

Ticks = Annotated[int, Meta(ge=1)]
Lasting = Annotated[int, Meta(ge=2)]
"""Ticks for which a condition holds: one bad tick never opens a breaker."""
Share = Annotated[float, Meta(gt=0, lt=1)]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When to open and how to return; the meanings are those of `Thresholds`."""

    stale_seconds: Annotated[float, Meta(gt=0)] = 60.0
    """Of event time without a frame, measured on the wall clock, after which it opens; not in
    lock-step."""
    stale_ticks: Ticks = _USUAL.stale_ticks
    missing_share: Share = _USUAL.missing_share
    missing_ticks: Lasting = _USUAL.missing_ticks
    mismatch_share: Share = _USUAL.mismatch_share
    mismatch_ticks: Lasting = _USUAL.mismatch_ticks
    mismatch_apps: Ticks = _USUAL.mismatch_apps
    error_share: Share = _USUAL.error_share
    error_ticks: Lasting = _USUAL.error_ticks
    burn_share: Share = _USUAL.burn_share
    burn_ticks: Lasting = _USUAL.burn_ticks
    burn_short_ticks: Ticks = _USUAL.burn_short_ticks
    burn_long_ticks: Ticks = _USUAL.burn_long_ticks
    calm_part: Share = _USUAL.calm_part
    quiet_ticks: Ticks = _USUAL.quiet_ticks
    quiet_most_ticks: Ticks = _USUAL.quiet_most_ticks
    probation_ticks: Ticks = _USUAL.probation_ticks
    forget_ticks: Ticks = _USUAL.forget_ticks

    def __post_init__(self) -> None:
        if self.burn_short_ticks > self.burn_long_ticks:
            raise ValueError("burn_short_ticks: expected at most burn_long_ticks")
        if self.quiet_ticks > self.quiet_most_ticks:
            raise ValueError("quiet_ticks: expected at most quiet_most_ticks")

    @property
    def thresholds(self) -> Thresholds:
        """As the rules take them."""
        return Thresholds(**{name: getattr(self, name) for name in Thresholds._fields})
