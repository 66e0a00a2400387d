"""What the actuator can be told, beside what the kit asks for."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from schemas.fields import Mode
from services.actuator.permission import STALE_TICKS, Modes

SERVICE: Final = "actuator"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where to write, and who may be changed."""

    cluster: str = ""
    """Path of a cluster description (YAML); the example cluster when empty."""
    target: str = "http://127.0.0.1:8700"
    """URL of the simulated cluster."""
    mode: Mode = "auto"
    """Of the whole cluster: off, preview, canary or auto."""
    preview_domains: str = ""
    """Names, separated by commas, of domains that are planned for and not changed."""
    canary_share: Annotated[float, Meta(gt=0, le=1)] = 0.05
    """Of the apps that a canary changes."""
    timeout_seconds: Annotated[float, Meta(gt=0)] = 5.0
    """For the target to answer one write."""
    give_up_seconds: Annotated[float, Meta(gt=0)] = 5.0
    """For a target that does not answer, after which the changes of a tick are held. Below the
    session timeout of the kit, so that a slow target is not taken for a dead process."""
    breaker_stale_ticks: Annotated[int, Meta(ge=1)] = STALE_TICKS
    """Of event time without a heartbeat of the breaker, after which nothing is changed."""
    breaker_stale_seconds: Annotated[float, Meta(gt=0)] = 60.0
    """The same on the wall clock, divided by the speed; not in lock-step."""

    def __post_init__(self) -> None:
        if not self.target.startswith(("http://", "https://")):
            raise ValueError(f"target: expected http:// or https://, got {self.target}")

    @property
    def modes(self) -> Modes:
        """As the handler takes them."""
        named = (name.strip() for name in self.preview_domains.split(","))
        domains: dict[str, Mode] = {name: "preview" for name in named if name}
        return Modes(self.mode, domains, self.canary_share)
