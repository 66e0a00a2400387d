"""Settings of the actuator, besides those of the kit."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from schemas.fields import Mode

SERVICE: Final = "actuator"
STALE_TICKS: Final = 6
"""A minute of event time."""


@dataclass(frozen=True)
class Modes:
    """Configured modes. Orders win over them; an app's own declaration can only be stricter."""

    cluster: Mode = "auto"
    domains: Mapping[str, Mode] = field(default_factory=dict)
    canary_share: float = 0.05
    """Share of the apps that canary mode may change, chosen by name."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where to write, and what may be changed."""

    cluster: str = ""
    """Path of a cluster description (YAML); the example cluster when empty."""
    target_kind: Literal["simulated", "kubernetes"] = "simulated"
    """What is written to: a simulated cluster, or a Kubernetes cluster through its API server."""
    target: str = "http://127.0.0.1:8700"
    """URL of the simulated cluster."""
    kubeconfig: str = ""
    """Path of a kubeconfig; empty: the pod's ServiceAccount. Kubernetes only."""
    calls_per_second: Annotated[float, Meta(gt=0)] = 50.0
    """Requests to the API server per second, with bursts of one second's worth. Kubernetes only."""
    concurrency: Annotated[int, Meta(ge=1)] = 4
    """Workloads that are written at the same time: more of them wait in the API server. Kubernetes
    only."""
    sizes: str = ""
    """ConfigMap (namespace/name) with the sizes of resized pods, as infra/k8s/vertical has it;
    empty: pods are not resized. Kubernetes only."""
    # A forgotten variable must not switch writing on.
    mode: Mode = "preview"
    """Mode of the whole cluster: off, preview, canary or auto."""
    preview_domains: str = ""
    """Domains in preview mode, separated by commas: planned, but not changed."""
    canary_share: Annotated[float, Meta(gt=0, le=1)] = 0.05
    """Share of the apps that canary mode changes."""
    timeout_seconds: Annotated[float, Meta(gt=0)] = 5.0
    """Timeout of one HTTP request to the target. The API server gives up on a write after the same
    time."""
    give_up_seconds: Annotated[float, Meta(gt=0)] = 5.0
    """Time for reading and writing a tick, with all retries. Reading gets at most half of it; then
    the changes are held. A write that was not answered by then is requested again, unless something
    objects to it. Keep it below the kit's session timeout, so that a slow target is not mistaken
    for a dead process."""
    breaker_stale_ticks: Annotated[int, Meta(ge=1)] = STALE_TICKS
    """Event time without a heartbeat of the breaker after which no plan is applied."""
    breaker_stale_seconds: Annotated[float, Meta(gt=0)] = 60.0
    """The same in wall time, divided by the speed; not used in lock-step."""

    def __post_init__(self) -> None:
        if not self.target.startswith(("http://", "https://")):
            raise ValueError(f"target: expected http:// or https://, got {self.target}")
        if self.sizes and self.sizes.count("/") != 1:
            raise ValueError(f"sizes: expected NAMESPACE/NAME, got {self.sizes}")

    @property
    def modes(self) -> Modes:
        """Modes by domain and for the cluster."""
        names = (name.strip() for name in self.preview_domains.split(","))
        domains: dict[str, Mode] = {name: "preview" for name in names if name}
        return Modes(self.mode, domains, self.canary_share)
