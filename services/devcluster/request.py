"""What somebody wants to run, checked before anything is started."""

from pathlib import Path
from typing import Final, Literal

import msgspec

from models.inputs.errors import InputError
from models.sim.config.physics import SimCluster, load_scaled
from models.sim.config.scenario import Scenario, load_scenario
from models.sim.config.timeline import Timeline
from services.devcluster.record import Scene
from services.forecaster.model import MODELS

Bus = Literal["kafka", "memory"]
Mode = Literal["auto", "preview", "canary"]

RULE_MINUTES: Final = (30, 1440)
"""For which the forecaster can make a rule, at least and at most."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One system and the cluster that is simulated for it."""

    scenario: str = "flash-sale-20-min-early"
    seed: int = 0
    apps: int | None = None
    """None: as the cluster file says."""
    cluster: Path | None = None
    """None: the example cluster."""
    physics: Path | None = None
    """None: those of the example cluster."""
    speed: float = 1.0
    """Times real time, where the cluster runs freely."""
    lock_step: bool = False
    brokers: int = 1
    secure: bool = False
    mode: Mode = "auto"
    forecast: str = "calendar"

    def check(self) -> None:
        """Raise InputError for what cannot be run."""
        if self.brokers not in {1, 3}:
            raise InputError(f"--brokers: expected 1 or 3, got {self.brokers}")
        if self.forecast not in MODELS:
            raise InputError(
                f"--forecast: expected one of {', '.join(MODELS)}, got {self.forecast}"
            )
        if not self.speed > 0:
            raise InputError("--speed: expected more than 0; as fast as it goes is --lock-step")

    def described(self) -> tuple[SimCluster, Scenario]:
        """The files that people wrote, read and checked."""
        cluster = load_scaled(self.cluster, self.apps, self.physics)
        return cluster, load_scenario(self.scenario, cluster)

    @property
    def pace(self) -> str:
        """In words."""
        if self.lock_step:
            return "lock-step"
        return "real time" if self.speed == 1 else f"{self.speed:g} times real time"

    def wall_seconds(self, tick_seconds: int) -> float:
        """That a tick is to take; none where nobody is waited for but the services."""
        return 0.0 if self.lock_step else tick_seconds / self.speed

    @property
    def tick_patience_s(self) -> float:
        """To wait for what is missing of a tick: a fifth of it, but as long as Kafka may take."""
        return min(2.0, max(0.5, 2.0 / self.speed))


def scene_of(request: Request, cluster: SimCluster, scenario: Scenario) -> Scene:
    """What will be simulated."""
    timeline = scenario.timeline(cluster.tick_seconds)
    return Scene(
        scenario=scenario.name,
        seed=request.seed,
        apps=cluster.apps,
        domains=cluster.domain_names,
        tick_seconds=cluster.tick_seconds,
        total_ticks=timeline.total_ticks,
        pace=request.pace,
    )


def rule_minutes(timeline: Timeline) -> int:
    """As long as the scenario: so a forecaster on the bus decides as one in the process does."""
    least, most = RULE_MINUTES
    return min(most, max(least, timeline.total_minutes))
