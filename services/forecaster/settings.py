"""What the forecaster can be told, beside what the kit asks for."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from services.forecaster.model import MODELS

SERVICE: Final = "forecaster"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One forecaster per cluster."""

    cluster: str = ""
    """Path of a cluster description (YAML); the example cluster when empty."""
    model: str = "calendar"
    """calendar, seasonal or persistence."""
    rule_minutes: Annotated[int, Meta(ge=30, le=1440)] = 120
    """For which a rule is made from the record, around this time of the days before; then anew."""

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise ValueError(f"model: expected one of {', '.join(MODELS)}, got {self.model}")
