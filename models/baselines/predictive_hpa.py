"""Baseline: HPAs that also read a forecast, as Crane and PredictKube provide it.

Each app has the triggers on request rate and CPU, and one more on the request rate that is forecast
a few minutes ahead. HPA takes the highest, so a forecast may only add replicas. The forecaster sees
earlier days and no announcements. It forecasts domains; each app is assumed to grow like its own.
"""

from typing import Final, NamedTuple

import numpy as np

from models.baselines.hpa.behaviour import BehaviourMemory
from models.baselines.hpa.external import ExternalHpa, external_replicas
from models.baselines.triggers import TARGET_RANGES, Triggers, TriggerState, recommend
from models.cluster import rows
from models.cluster.arrays import F64
from models.cluster.inventory import Inventory
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan
from models.forecaster.port import MEDIAN, Forecast
from models.sim.world import World

_SOON: Final = 0
"""Index of the shortest horizon, five minutes: pods and most nodes are ready within it."""
_MOST_GROWTH: Final = 3.0
"""Largest factor that a forecast is believed for: while samples are lost, the present level that
it is divided by is too low."""


class Parameters(NamedTuple):
    """Targets by priority, the margin on forecasts, and stabilisation."""

    target_p0: float = 0.5
    """Target rate per pod over the rate at which pods are declared to saturate; likewise below."""
    target_p1: float = 0.6
    target_p2: float = 0.75
    target_p3: float = 0.85
    margin: float = 0.05
    """Added to the forecast, as a share of it: Crane's `marginFraction`."""
    stabilisation_s: float = 300.0
    """Window of scaling in: `stabilizationWindowSeconds`."""


RANGES: Final[dict[str, tuple[float, float]]] = {
    **TARGET_RANGES,
    "margin": (0.0, 0.3),
    "stabilisation_s": (60.0, 900.0),
}
"""Where the calibration searches."""


class PredictiveState(NamedTuple):
    """E environments, A apps."""

    hpa: BehaviourMemory
    triggers: TriggerState
    rps: F64
    """[E, A] the last request rate of each app."""


class PredictiveHpa:
    """The highest of what is needed now and what is forecast to be needed."""

    name = "predictive-hpa"
    pipeline = Pipeline.OURS

    def __init__(
        self, inventory: Inventory, pools: int, parameters: Parameters | None = None
    ) -> None:
        p = self._parameters = parameters or Parameters()
        self._domains = inventory.priority.size
        targets = (p.target_p0, p.target_p1, p.target_p2, p.target_p3)
        self._triggers = Triggers(inventory, targets)
        self._hpa = ExternalHpa(inventory, pools, p.stabilisation_s)

    def start(self, observation: Observation) -> PredictiveState:
        """Initial state."""
        return PredictiveState(
            hpa=self._hpa.start(observation),
            triggers=self._triggers.start(observation),
            rps=np.zeros(observation.missing.shape),
        )

    def step(
        self, observation: Observation, forecast: Forecast | None, state: PredictiveState
    ) -> tuple[Plan, PredictiveState]:
        """What the triggers recommend, the forecast one included, through the HPAs."""
        load, triggers = self._triggers.read(observation, state.triggers)
        active = observation.status[:, rows.ACTIVE] == 1
        rps = np.where(active, np.where(load.failed, state.rps, load.rps), 0.0)
        soon = rps * self._growth(observation, rps, forecast)
        current = observation.status[:, rows.REPLICAS]
        predicted = external_replicas(soon, load.rate_target, current)
        plan = self._hpa.step(observation, recommend(observation, load, predicted), state.hpa)
        return plan, state._replace(triggers=triggers, rps=rps)

    def _growth(self, observation: Observation, rps: F64, forecast: Forecast | None) -> F64:
        """[E, A] forecast over present rate of an app's domain; 0 without a valid forecast."""
        if forecast is None:
            return np.zeros_like(rps)
        domain = observation.status[:, rows.DOMAIN]
        pairs = zip(domain, rps, strict=True)
        now = np.array([np.bincount(of, row, self._domains) for of, row in pairs])
        ahead = forecast.domain[:, :, _SOON, MEDIAN] * (1.0 + self._parameters.margin)
        usable = (now > 0) & np.isfinite(ahead)
        growth = np.where(usable, ahead, 0.0) / np.where(usable, now, 1.0)
        valid = (observation.tick <= forecast.valid_until_tick)[:, None]
        believed = np.where(valid, np.minimum(growth, _MOST_GROWTH), 0.0)
        by_app: F64 = np.take_along_axis(believed, domain.astype(np.int64), axis=1)
        return by_app


def predictive_hpa_of(world: World, parameters: Parameters | None = None) -> PredictiveHpa:
    """A new predictive HPA per app of the world."""
    return PredictiveHpa(world.inventory, world.layout.pools, parameters)
