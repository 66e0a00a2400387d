"""Adapter of one app, horizontal and vertical at once; all other apps run HPA.

As in AWARE (Qiu et al., USENIX ATC 2023): the policy observes the app's size, use, load and SLO
headroom, and answers with steps in its replicas and in the CPU request of its pods.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from models.baselines.hpa.simulated import HpaState, hpa_of
from models.cluster import rows
from models.cluster.arrays import F32, F64, I32
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan, Reason
from models.environments.heuristic_adapters import limits_of
from models.environments.policy import Limits, bounded, factors, is_due
from models.features.encode import Encoder
from models.features.memory import FeatureState
from models.features.normalise import normalise
from models.features.table import APP, Feature
from models.forecaster.port import Forecast, ticks_per_minute
from models.inputs.errors import InputError
from models.sim.world import World

# Steps and bounds were chosen by hand: no policy has been trained with these or others.
REPLICA_STEP: Final = 0.5
"""Share of the replicas that a full step adds or removes, at least one."""
CPU_STEP: Final = 1.25
"""Factor of a full step on the CPU request; a full step down divides by it."""
MOST_CPU: Final = 4.0
"""Largest factor between the CPU request and that at the start, either way."""
_MILLI_STEP: Final = 10
"""Millicores to which steps are rounded; tiny ones vanish, because a resize touches every pod."""
_SIZE: Final = Feature(
    "size", "ratio", "linear", 1, -1, 1, "log of the CPU request over the first, of the largest"
)


class AppAdapterState(NamedTuple):
    """E environments."""

    hpa: HpaState
    features: FeatureState
    first: F64
    """[E] millicores per pod at the start."""
    decision: I32
    """[E, 2] replicas and millicores of the last decision; they hold until the next."""


class AppAdapter:
    """A policy for one app beside the HPAs of all others."""

    name = "app-policy"
    pipeline = Pipeline.OURS
    actions = 2

    def __init__(self, world: World, app: int) -> None:
        inventory = world.inventory
        if not 0 <= app < inventory.domain.size:
            raise InputError(f"app: expected from 0 to {inventory.domain.size - 1}, got {app}")
        self._app = app
        self._least, self._most = int(inventory.min_replicas[app]), int(inventory.max_replicas[app])
        self._hpa = hpa_of(world)
        # The other apps' HPAs get their usual pipeline, metrics-server.
        self._observe_for_hpa: Callable[[], Observation] = partial(
            world.observe, self._hpa.pipeline
        )
        self._encoder = Encoder(inventory)
        self._observed = np.zeros((0, 0), np.float32)
        self.row = np.zeros((0, APP.width), np.float32)
        """[E, APP] the app's features of the last tick, in their units."""
        self.every = ticks_per_minute(inventory.tick_s)
        self.limits: Limits = limits_of((*APP.features, _SIZE))

    def start(self, observation: Observation) -> AppAdapterState:
        """Start with the present replicas and sizes."""
        return AppAdapterState(
            hpa=self._hpa.start(observation),
            features=self._encoder.start(observation),
            first=observation.status[:, rows.CPU_REQUEST, self._app].astype(np.float64),
            decision=observation.status[:, (rows.REPLICAS, rows.CPU_REQUEST), self._app].copy(),
        )

    def observe(
        self, observation: Observation, state: AppAdapterState
    ) -> tuple[F32, AppAdapterState]:
        """The app's normalised features and its size."""
        if is_due(int(observation.tick[0]), self.every):
            features, memory = self._encoder.encode(observation, state.features)
            row = normalise(features).app[:, self._app]
            self._observed = np.concatenate((row, self._size(state)), axis=1)
            table = features.app
        else:
            # Between decisions only the reward and the memory need the apps' features.
            table, memory = self._encoder.encode_apps(observation, state.features)
        self.row = table[:, self._app].copy()
        return self._observed, state._replace(features=memory)

    def act(
        self,
        observation: Observation,
        forecast: Forecast | None,  # noqa: ARG002  the interface; HPA only reacts
        state: AppAdapterState,
        action: F32 | None,
    ) -> tuple[Plan, AppAdapterState]:
        """The HPAs' plan, with the policy's numbers for its app."""
        plan, hpa = self._hpa.step(self._observe_for_hpa(), None, state.hpa)
        app = self._app
        # Until the policy takes over, the app follows its HPA, so that the first step starts there.
        if action is None:
            decision = np.stack((plan.replicas[:, app], plan.cpu[:, app]), axis=1)
            return plan, state._replace(hpa=hpa, decision=decision)
        decision = state.decision
        if is_due(int(observation.tick[0]), self.every):
            # Without a sample, hold: the policy would act on stale data.
            active = observation.status[:, rows.ACTIVE, app] == 1
            valid = active & (observation.missing[:, app] == 0)
            decision = np.where(valid[:, None], self._moved(state, action), decision).astype(
                np.int32
            )
        plan.reason[:, app] = _reasons(observation.status[:, :, app], decision)
        plan.replicas[:, app], plan.cpu[:, app] = decision[:, 0], decision[:, 1]
        return plan, state._replace(hpa=hpa, decision=decision)

    def _size(self, state: AppAdapterState) -> F32:
        ratio: F64 = np.maximum(state.decision[:, 1], 1) / np.maximum(state.first, 1.0)
        size: F32 = np.clip(np.log(ratio) / np.log(MOST_CPU), -1.0, 1.0).astype(np.float32)
        return size[:, None]

    def _moved(self, state: AppAdapterState, action: F32) -> F64:
        """[E, 2] replicas and millicores after a step, within the bounds."""
        replicas, cpu = state.decision.astype(np.float64).T
        step = bounded(action[:, 0]) * np.maximum(1.0, REPLICA_STEP * replicas)
        wanted = np.clip(np.rint(replicas + step), self._least, self._most)
        growth = cpu * (factors(action[:, 1], CPU_STEP) - 1.0)
        # Rounds the step, not the size: an action of zero keeps a size that is no multiple.
        size = cpu + np.rint(growth / _MILLI_STEP) * _MILLI_STEP
        return np.stack((wanted, np.clip(size, state.first / MOST_CPU, state.first * MOST_CPU)), 1)


def _reasons(status: I32, decision: I32) -> I32:
    current = status[:, rows.REPLICAS]
    more, fewer = decision[:, 0] > current, decision[:, 0] < current
    resized = decision[:, 1] != status[:, rows.CPU_REQUEST]
    reasons = (int(Reason.SCALE_OUT), int(Reason.SCALE_IN), int(Reason.RESIZE))
    held = int(Reason.HOLD_IN_TOLERANCE)
    return np.select((more, fewer, resized), reasons, held).astype(np.int32)
