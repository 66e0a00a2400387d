"""What the collector can be told, beside what the kit asks for."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

SERVICE: Final = "collector"

Seconds = Annotated[float, Meta(gt=0)]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One source."""

    source: Literal["simulated", "prometheus"] = "simulated"
    """What is measured: a simulated cluster, or a real one by its Prometheus."""
    url: str = "http://127.0.0.1:8700"
    """Of the simulated cluster, or of Prometheus."""
    queries: str = ""
    """Path of a queries file (YAML); queries for common names when empty. Prometheus only."""
    inventory: str = ""
    """Path of an inventory file (YAML); when empty, apps are found by their labels, and nothing
    is changed about them. Prometheus only."""
    timeout_seconds: Seconds = 5.0
    """For Prometheus to answer a query."""
    settle_seconds: Annotated[float, Meta(ge=0)] = 2.0
    """After the end of a tick, for its scrapes to come in."""
    catch_up_ticks: Annotated[int, Meta(ge=0)] = 6
    """That are still asked for after a pause."""

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"url: expected http:// or https://, got {self.url}")
