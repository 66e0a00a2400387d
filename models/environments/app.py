"""AppEnv: one decision per minute, about the replicas and the size of one app."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from models.cluster.arrays import F32
from models.environments.app_adapter import AppAdapter, AppAdapterState
from models.environments.environment import Environment, Episode
from models.features.table import APP
from models.forecaster.simulated.catalogue import NONE
from models.sim.config.physics import Scheduling, SimCluster
from models.sim.config.scenario import Scenario
from models.sim.results.summary import Result
from models.sim.world import World

_HEADROOM, _ERRORS = APP.at("headroom"), APP.at("errors")
_RESOURCES = (APP.at("utilisation"), APP.at("memory_use"))


class AppEnv(Environment[AppAdapterState]):
    """One app, horizontal and vertical at once, as in AWARE; all other apps run HPA.

    Observation: the app's normalised features (load and its change, use of CPU and memory, SLO
    headroom, replicas), and its CPU request.
    Action: a step in replicas, up to half of them and one at least, and one in the CPU request, up
    to a quarter. Zeros hold.
    Reward: alpha x SP x |R| + (1 - alpha) x sum of RU over R = {CPU, memory}, the mean over the
    ticks. RU is the used share of the request, at most 1. SP is SLO preservation: the target over
    the measured p99 latency, at most 1, and 1 without a target. SP is multiplied by the share of
    requests that succeed, otherwise an app that fails fast would be perfect. As in the paper, all
    of it is measured, not taken from the world's true state.
    """

    def __init__(
        self,
        app: int = 0,
        scenarios: Sequence[Scenario | str | Path] | None = None,
        cluster: SimCluster | None = None,
        *,
        alpha: float = 0.5,
    ) -> None:
        self._app, self._alpha = app, alpha
        self._rewards: list[float] = []
        super().__init__(scenarios, cluster, NONE, Scheduling())

    def _adapter_of(self, world: World) -> AppAdapter:
        self._adapter = AppAdapter(world, self._app)
        return self._adapter

    def _begin(self, world: World) -> None:  # noqa: ARG002  the interface
        self._rewards = []

    def _after_tick(self, episode: Episode[AppAdapterState]) -> None:  # noqa: ARG002  the adapter has the row
        self._rewards.append(reward_of(self._adapter.row[0], self._alpha))

    def _reward(self, results: list[Result]) -> float:  # noqa: ARG002  from measurements
        mean = float(np.mean(self._rewards))
        self._rewards = []
        return mean


def reward_of(row: F32, alpha: float) -> float:
    """The paper's reward, from one app's features in their units."""
    late = 1.0 - float(row[_HEADROOM])
    preserved = (1.0 - float(row[_ERRORS])) / max(1.0, late)
    # Not above 1: use beyond the request would reward requests that are too small.
    used = [min(1.0, float(row[column])) for column in _RESOURCES]
    return alpha * preserved * len(used) + (1.0 - alpha) * sum(used)
