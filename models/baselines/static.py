"""Baseline without autoscaling: replicas fixed at yesterday's peak times a factor.

The gain over it is the value of autoscaling. Its inputs are available to any team: the requests
of the day before and, from load tests, the replicas per request rate.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.cluster import rows
from models.cluster.arrays import F32, I32
from models.cluster.calendar import DAY_MINUTES
from models.cluster.inventory import Inventory
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan, Reason, hold_plan
from models.forecaster.port import Forecast
from models.sim.world import World, app_history

_MEAN_MINUTES: Final = 5
"""Dashboards show peaks of five-minute means; shorter ones are noise."""


class Parameters(NamedTuple):
    """What calibration tunes."""

    peak_factor: float = 1.2
    """Replicas over what yesterday's peak needed."""


RANGES: Final[dict[str, tuple[float, float]]] = {"peak_factor": (0.6, 3.0)}


class StaticState(NamedTuple):
    """The one decision, made at the start."""

    replicas: I32
    """[E, A]."""


class Static:
    """The same replicas from the first tick to the last."""

    name = "static"
    pipeline = Pipeline.OURS

    def __init__(
        self, inventory: Inventory, pools: int, peak: F32, parameters: Parameters | None = None
    ) -> None:
        """`peak` is [E, A], the replicas that yesterday's peak needed."""
        chosen = parameters or Parameters()
        wanted = np.ceil(peak * chosen.peak_factor)
        self._wanted: NDArray[np.int32] = np.clip(
            wanted, inventory.min_replicas, inventory.max_replicas
        ).astype(np.int32)
        self._pools = pools

    def start(self, observation: Observation) -> StaticState:  # noqa: ARG002  needs no observation
        """The replicas of every plan."""
        return StaticState(self._wanted)

    def step(
        self,
        observation: Observation,
        forecast: Forecast | None,  # noqa: ARG002  every controller has this shape
        state: StaticState,
    ) -> tuple[Plan, StaticState]:
        """The same replicas again; only the first plan changes anything."""
        plan = hold_plan(observation, self._pools, Reason.HOLD_NOT_DUE)
        current = observation.status[:, rows.REPLICAS]
        moved = np.where(state.replicas > current, int(Reason.SCALE_OUT), int(Reason.SCALE_IN))
        reason = np.where(state.replicas == current, plan.reason, moved).astype(np.int32)
        return plan._replace(replicas=state.replicas, reason=reason), state


def daily_peak_replicas(world: World) -> F32:
    """[E, A] replicas that the highest five minutes of the day before needed."""
    apps = world.population.apps
    # The ratio at the start stands for a load test. Idle apps would divide by zero.
    per_rps = apps.start_replicas / np.maximum(apps.mean_rps, 1e-9)
    peaks = [_daily_peak(world, e) for e in range(world.environments)]
    return (np.array(peaks) * per_rps).astype(np.float32)


def _daily_peak(world: World, environment: int) -> NDArray[np.float64]:
    by_minute = app_history(world, environment, DAY_MINUTES)
    means = by_minute.reshape(DAY_MINUTES // _MEAN_MINUTES, _MEAN_MINUTES, -1).mean(axis=1)
    highest: NDArray[np.float64] = means.max(axis=0).astype(np.float64)
    return highest


def static_of(world: World, parameters: Parameters | None = None) -> Static:
    """A new controller for the world."""
    inventory = world.inventory
    return Static(inventory, world.layout.pools, daily_peak_replicas(world), parameters)
