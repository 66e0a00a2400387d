"""Settings of the Commander, besides those of the kit."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from services.commander.advice import MOST_SECONDS

SERVICE: Final = "commander"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One Commander per cluster."""

    cluster: str = ""
    """Path of a cluster description (YAML); the example cluster when empty."""
    await_forecasts: bool = True
    """Whether a minute waits for its forecasts; switch it off where no forecaster runs."""
    most_policy_seconds: Annotated[float, Meta(gt=0, le=5)] = MOST_SECONDS
    """Longest answer of a promoted policy, before it is taken back."""
