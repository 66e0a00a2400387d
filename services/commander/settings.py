"""Settings of the Commander, besides those of the kit."""

from typing import Final

import msgspec

SERVICE: Final = "commander"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One Commander per cluster."""

    cluster: str = ""
    """Path of a cluster description (YAML); the example cluster when empty."""
    await_forecasts: bool = True
    """Whether a minute waits for its forecasts; switch it off where no forecaster runs."""
