"""HPA and VPA both on the CPU of the same app, which their documentation warns against.

VPA sets the request to the use plus a margin, so utilisation rises towards 1 / (1 + margin). HPA
answers utilisation above its target with more pods, each uses less, and VPA shrinks them again:
many tiny pods. Neither reads the other's decisions.
"""

from typing import Final, NamedTuple

import numpy as np

from models.baselines.hpa.simulated import Hpa, HpaState
from models.baselines.vpa import Parameters as VpaParameters
from models.baselines.vpa import Vpa, VpaState
from models.cluster.inventory import Inventory
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan, Reason
from models.forecaster.port import Forecast
from models.sim.world import World


class Parameters(NamedTuple):
    """What calibration tunes, of both."""

    target: float = 0.75
    """HPA's target, as a share of the CPU use at which the app saturates."""
    margin: float = 0.15
    """VPA's margin over the percentiles."""
    half_life_h: float = 24.0
    """Half-life of a sample in VPA's histograms, hours: it sets the pace of the conflict."""


RANGES: Final[dict[str, tuple[float, float]]] = {"target": (0.4, 0.95), "margin": (0.05, 1.0)}


class HpaVpaState(NamedTuple):
    """The state of each controller."""

    hpa: HpaState
    vpa: VpaState


class HpaVpa:
    """Replicas from HPA, CPU requests from VPA."""

    name = "hpa+vpa"
    pipeline = Pipeline.HPA

    def __init__(
        self, inventory: Inventory, pools: int, parameters: Parameters | None = None
    ) -> None:
        chosen = parameters or Parameters()
        self._hpa = Hpa(inventory, pools, inventory.tick_s, target=chosen.target)
        vertical = VpaParameters(margin=chosen.margin, half_life_h=chosen.half_life_h)
        # A controller gets one observation, so both use HPA's pipeline. It carries no memory use:
        # VPA sizes CPU only, which is where the two conflict.
        self._vpa = Vpa(inventory, pools, vertical, Pipeline.HPA)

    def start(self, observation: Observation) -> HpaVpaState:
        """Both start with the present replicas and sizes."""
        return HpaVpaState(self._hpa.start(observation), self._vpa.start(observation))

    def step(
        self,
        observation: Observation,
        forecast: Forecast | None,  # noqa: ARG002  every controller has this shape
        state: HpaVpaState,
    ) -> tuple[Plan, HpaVpaState]:
        """Two plans from one observation; the reason is HPA's where it changes replicas."""
        # Neither plan is applied before the other is made, as two independent controllers act.
        out, hpa = self._hpa.step(observation, None, state.hpa)
        up, vpa = self._vpa.step(observation, None, state.vpa)
        moved = (out.reason == int(Reason.SCALE_OUT)) | (out.reason == int(Reason.SCALE_IN))
        reason = np.where(moved, out.reason, up.reason)
        return up._replace(replicas=out.replicas, reason=reason), HpaVpaState(hpa, vpa)


def hpa_vpa_of(world: World, parameters: Parameters | None = None) -> HpaVpa:
    """A new pair per app of the world."""
    return HpaVpa(world.inventory, world.layout.pools, parameters)
