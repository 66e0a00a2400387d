"""Settings of the Soldier, besides those of the kit."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from services.soldier.advice import MOST_SECONDS

SERVICE: Final = "soldier"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Soldiers of all domains that Kafka assigns to a process."""

    cluster: str = ""
    """Path of a cluster description (YAML); the example cluster when empty."""
    vertical: bool = True
    """Whether plans resize pods. On Kubernetes switch it off unless the actuator has `sizes`: it
    would hold every resize."""
    most_policy_seconds: Annotated[float, Meta(gt=0, le=5)] = MOST_SECONDS
    """Longest answer of a promoted policy for one domain, before it is taken back."""
