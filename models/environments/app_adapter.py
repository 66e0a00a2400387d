"""The seat of one app, horizontal and vertical at once; every other app has its HPA.

As in AWARE (Qiu et al., USENIX ATC 2023): the policy sees the app's size, use, load and how its
objective is kept, and answers with steps in its replicas and in the CPU request of its pods.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from models.baselines.hpa.simulated import HpaState, hpa_of
from models.cluster.arrays import F32, F64, I32
from models.cluster.observation import ACTIVE, CPU_REQUEST, REPLICAS, Observation, Pipeline
from models.cluster.plan import Plan, Reason
from models.environments.heuristic_adapters import limits_of
from models.environments.policy import Limits, bounded, factors, is_due
from models.features.encode import Encoder
from models.features.memory import FeatureState
from models.features.normalise import normalise
from models.features.table import APP, Feature
from models.forecaster.port import Forecast
from models.inputs.errors import InputError
from models.sim.apps import declare
from models.sim.world import World

REPLICA_STEP: Final = 0.5
"""Of the replicas that a full step adds or takes, one at least."""
CPU_STEP: Final = 1.25
"""Times or divided by which a full step makes the CPU request."""
MOST_CPU: Final = 4.0
"""Times or divided by which the CPU request may differ from that at the start."""
_MILLI_STEP: Final = 10
"""Millicores to which steps are rounded: a small wish is none, for a resize touches every pod."""
_SIZE: Final = Feature(
    "size", "ratio", "linear", 1, -1, 1, "log of the CPU request over the first, of the largest"
)


class AppAdapterState(NamedTuple):
    """E environments."""

    hpa: HpaState
    features: FeatureState
    first: F64
    """[E] millicores per pod at the start."""
    wish: I32
    """[E, 2] replicas and millicores that the app was last given; they hold until the next."""


class AppAdapter:
    """One app's place beside the HPAs of all others."""

    name = "app-policy"
    pipeline = Pipeline.OURS
    actions = 2

    def __init__(self, world: World, app: int) -> None:
        inventory = declare(world.population, world.cluster)
        if not 0 <= app < inventory.domain.size:
            raise InputError(f"app: expected from 0 to {inventory.domain.size - 1}, got {app}")
        self._app = app
        self._least, self._most = int(inventory.min_replicas[app]), int(inventory.max_replicas[app])
        self._hpa = hpa_of(world)
        # The other apps' HPAs see what they always see, through metrics-server.
        self._seen_by_hpa: Callable[[], Observation] = partial(world.observe, self._hpa.pipeline)
        self._encoder = Encoder(inventory)
        self._seen = np.zeros((0, 0), np.float32)
        self.row = np.zeros((0, APP.width), np.float32)
        """[E, APP] the app's features of the last tick, in their units."""
        self.every = max(1, 60 // inventory.tick_s)
        self.limits: Limits = limits_of((*APP.features, _SIZE))

    def start(self, observation: Observation) -> AppAdapterState:
        """Begin with what runs."""
        return AppAdapterState(
            hpa=self._hpa.start(observation),
            features=self._encoder.start(observation),
            first=observation.status[:, CPU_REQUEST, self._app].astype(np.float64),
            wish=observation.status[:, (REPLICAS, CPU_REQUEST), self._app].copy(),
        )

    def look(self, observation: Observation, state: AppAdapterState) -> tuple[F32, AppAdapterState]:
        """The app's normalised features and its size."""
        if is_due(int(observation.tick[0]), self.every):
            features, memory = self._encoder.encode(observation, state.features)
            row = normalise(features).app[:, self._app]
            self._seen = np.concatenate((row, self._size(state)), axis=1)
            rows = features.app
        else:
            rows, memory = self._encoder.encode_apps(observation, state.features)
        self.row = rows[:, self._app].copy()
        return self._seen, state._replace(features=memory)

    def act(
        self,
        observation: Observation,
        forecast: Forecast | None,  # noqa: ARG002  every seat has this shape; HPA only reacts
        state: AppAdapterState,
        action: F32 | None,
    ) -> tuple[Plan, AppAdapterState]:
        """The HPAs' plan, and the policy's for its app."""
        plan, hpa = self._hpa.step(self._seen_by_hpa(), None, state.hpa)
        app = self._app
        if action is None:
            wish = np.stack((plan.replicas[:, app], plan.cpu[:, app]), axis=1)
            return plan, state._replace(hpa=hpa, wish=wish)
        wish = state.wish
        if is_due(int(observation.tick[0]), self.every):
            # Without a sample the app keeps what it has: nothing is known that could be answered.
            seen = (observation.missing[:, app] == 0) & (observation.status[:, ACTIVE, app] == 1)
            wish = np.where(seen[:, None], self._moved(state, action), wish).astype(np.int32)
        plan.reason[:, app] = _reasons(observation.status[:, :, app], wish)
        plan.replicas[:, app], plan.cpu[:, app] = wish[:, 0], wish[:, 1]
        return plan, state._replace(hpa=hpa, wish=wish)

    def _size(self, state: AppAdapterState) -> F32:
        ratio: F64 = np.maximum(state.wish[:, 1], 1) / np.maximum(state.first, 1.0)
        size: F32 = np.clip(np.log(ratio) / np.log(MOST_CPU), -1.0, 1.0).astype(np.float32)
        return size[:, None]

    def _moved(self, state: AppAdapterState, action: F32) -> F64:
        """[E, 2] where the steps lead, within the bounds."""
        replicas, cpu = state.wish.astype(np.float64).T
        step = bounded(action[:, 0]) * np.maximum(1.0, REPLICA_STEP * replicas)
        wanted = np.clip(np.rint(replicas + step), self._least, self._most)
        growth = cpu * (factors(action[:, 1], CPU_STEP) - 1.0)
        size = cpu + np.rint(growth / _MILLI_STEP) * _MILLI_STEP
        return np.stack((wanted, np.clip(size, state.first / MOST_CPU, state.first * MOST_CPU)), 1)


def _reasons(status: I32, wish: I32) -> I32:
    more, fewer = wish[:, 0] > status[:, REPLICAS], wish[:, 0] < status[:, REPLICAS]
    resized = wish[:, 1] != status[:, CPU_REQUEST]
    reasons = (int(Reason.SCALE_OUT), int(Reason.SCALE_IN), int(Reason.RESIZE))
    held = int(Reason.HOLD_IN_TOLERANCE)
    return np.select((more, fewer, resized), reasons, held).astype(np.int32)
