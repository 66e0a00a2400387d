"""The options of a system to run, checked before anything starts."""

from pathlib import Path
from typing import Final, Literal

import msgspec

from models.inputs.errors import InputError
from models.sim.config.physics import SimCluster, load_scaled
from models.sim.config.scenario import Scenario, load_scenario
from models.sim.config.timeline import Timeline
from services.devcluster.record import Simulation
from services.forecaster.model import MODELS

Mode = Literal["auto", "preview", "canary"]

RULE_MINUTES: Final = (30, 1440)
"""Shortest and longest span for which the forecaster can build a rule."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One system and its simulated cluster."""

    scenario: str = "flash-sale-20-min-early"
    seed: int = 0
    apps: int | None = None
    """None: as in the cluster file."""
    cluster: Path | None = None
    """None: the example cluster."""
    physics: Path | None = None
    """None: those of the example cluster."""
    speed: float = 1.0
    """Times real time, for a free-running cluster."""
    lock_step: bool = False
    brokers: int = 1
    secure: bool = False
    mode: Mode = "auto"
    forecast: str = "calendar"

    def check(self) -> None:
        """Raise InputError for options that can't work."""
        # Two are no safer than one: without a majority of voters the cluster stops.
        if self.brokers not in {1, 3}:
            raise InputError(f"--brokers: expected 1 or 3, got {self.brokers}")
        if self.forecast not in MODELS:
            raise InputError(
                f"--forecast: expected one of {', '.join(MODELS)}, got {self.forecast}"
            )
        # Not `<= 0`, which a NaN would pass.
        if not self.speed > 0:
            raise InputError("--speed: expected more than 0; for full speed use --lock-step")
        # A wrong name is an error at once, not after minutes of compiling.
        self.load()

    def load(self) -> tuple[SimCluster, Scenario]:
        """Read and validate the cluster and scenario files."""
        cluster = load_scaled(self.cluster, self.apps, self.physics)
        return cluster, load_scenario(self.scenario, cluster)

    @property
    def pace(self) -> str:
        """How fast the simulated cluster runs, for people."""
        if self.lock_step:
            return "lock-step"
        return "real time" if self.speed == 1 else f"{self.speed:g} times real time"

    def wall_seconds(self, tick_seconds: int) -> float:
        """Real time that a tick should take; 0 in lock-step, where only services are waited for."""
        return 0.0 if self.lock_step else tick_seconds / self.speed

    @property
    def grace_s(self) -> float:
        """How long to wait for missing data: a fifth of a tick, but no less than Kafka needs."""
        return min(2.0, max(0.5, 2.0 / self.speed))


def simulation_of(request: Request, cluster: SimCluster, scenario: Scenario) -> Simulation:
    """What the request will simulate."""
    timeline = scenario.timeline(cluster.tick_seconds)
    return Simulation(
        scenario=scenario.name,
        seed=request.seed,
        apps=cluster.apps,
        domains=cluster.domain_names,
        tick_seconds=cluster.tick_seconds,
        total_ticks=timeline.total_ticks,
        pace=request.pace,
    )


def rule_minutes(timeline: Timeline) -> int:
    """The scenario's length, so that the forecaster on the bus decides as the one in process."""
    least, most = RULE_MINUTES
    return min(most, max(least, timeline.total_minutes))
