"""A carefully tuned PID loop per app on its utilisation: the reference for oscillation.

The loop works on logarithms. Utilisation is demand over replicas, so on a logarithmic scale the
plant is a difference with a delay, and one set of gains fits two pods and a thousand.

output = integral + Kp e + Kd d(log utilisation)/dt,  e = log(utilisation / setpoint)

Against windup the integral stops while pods of the last increase are not ready, because their
effect is not visible yet, and is pulled back to what the bounds allow. The derivative is that of
the filtered measurement. A measured zero counts, as in any such loop; a missing sample holds.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import F64, I32, Mask
from models.cluster.inventory import Inventory
from models.cluster.observation import Observation, Pipeline
from models.cluster.plan import Plan, Reason, hold_plan
from models.forecaster.port import Forecast
from models.sim.world import World

_LEAST_UTILISATION: Final = 0.01
"""Keeps the logarithm finite; an idle app reads as one hundredth busy."""
_MILLI: Final = 0.001


class Parameters(NamedTuple):
    """Gains, filter and dead bands."""

    setpoint: float = 0.63
    """Wanted CPU use over the CPU use at which the app saturates."""
    proportional: float = 0.2
    """Kp, log replicas per log utilisation. The plant has gain one, so 1 is the edge."""
    integral_per_s: float = 0.003
    """Ki, per second; times the minute until a pod is ready it has to stay well below 1."""
    derivative_s: float = 4.0
    """Kd, seconds."""
    filter_s: float = 40.0
    """Time constant of the derivative's low-pass filter, seconds."""
    deadband: float = 0.12
    """Relative deviation of utilisation that counts as no error, and change of replicas that is not
    made. Without the first the integral hunts for a utilisation that no whole number of pods has;
    without the second noise moves large apps."""
    deadband_pods: float = 0.8
    """The same in pods, for small apps: beyond half a pod, so that rounding does not flip."""


RANGES: Final[dict[str, tuple[float, float]]] = {
    "setpoint": (0.4, 0.85),
    "proportional": (0.02, 0.9),
    "integral_per_s": (0.0005, 0.02),
    "derivative_s": (0.0, 30.0),
    "filter_s": (10.0, 120.0),
    "deadband": (0.0, 0.3),
    "deadband_pods": (0.5, 1.5),
}


class PidState(NamedTuple):
    """[E, A] each."""

    integral: F64
    """Log of replicas."""
    level: F64
    """Log utilisation of the last sample, filtered; NaN before the first."""


class Pid:
    """One loop per app."""

    name = "pid"
    pipeline = Pipeline.OURS

    def __init__(
        self, inventory: Inventory, pools: int, parameters: Parameters | None = None
    ) -> None:
        self._parameters = parameters or Parameters()
        self._pools = pools
        self._tick_s = inventory.tick_s
        self._saturation = inventory.saturation.astype(np.float64)
        self._least, self._most = inventory.min_replicas, inventory.max_replicas

    def start(self, observation: Observation) -> PidState:
        """Bumpless: the integral starts at the present replicas."""
        replicas = np.maximum(1, observation.status[:, rows.REPLICAS])
        return PidState(np.log(replicas), np.full(replicas.shape, np.nan))

    def step(
        self,
        observation: Observation,
        forecast: Forecast | None,  # noqa: ARG002  every controller has this shape; PID only reacts
        state: PidState,
    ) -> tuple[Plan, PidState]:
        """One step of every loop that has a sample."""
        level = self._level(observation)
        valid = ~np.isnan(level)
        output, state = self._control(observation, np.where(valid, level, 0.0), valid, state)
        plan = hold_plan(observation, self._pools, Reason.HOLD_IN_TOLERANCE)
        return self._round(observation, plan, output, valid), state

    def _level(self, observation: Observation) -> F64:
        """[E, A] log of CPU use over saturation, NaN without a sample."""
        pods = observation.measured[:, rows.PODS].astype(np.float64)
        cores = pods * observation.status[:, rows.CPU_REQUEST] * _MILLI * self._saturation
        valid = (observation.missing == 0) & (cores > 0)
        used = observation.measured[:, rows.CPU] / np.where(valid, cores, 1.0)
        level: F64 = np.log(np.maximum(used, _LEAST_UTILISATION))
        return np.where(valid, level, np.nan)

    def _control(
        self, observation: Observation, level: F64, valid: Mask, state: PidState
    ) -> tuple[F64, PidState]:
        p, status = self._parameters, observation.status
        # No kick at the start: the first sample has a slope of zero.
        before = np.where(np.isnan(state.level), level, state.level)
        weight = self._tick_s / (p.filter_s + self._tick_s)
        filtered = before + weight * (level - before)
        slope = (filtered - before) / self._tick_s
        error = self._error(level, status[:, rows.REPLICAS])
        # Replicas that are not ready yet have no effect: integrating meanwhile would wind up.
        waiting = (status[:, rows.STARTING] + status[:, rows.PENDING] > 0) & (error > 0)
        gain = np.where(waiting, 0.0, p.integral_per_s * self._tick_s)
        integral = state.integral + gain * error
        output = integral + p.proportional * error + p.derivative_s * slope
        # In logarithms: at least one replica, because zero has none.
        bounded = np.clip(output, np.log(np.maximum(1, self._least)), np.log(self._most))
        # Pull the integral back to what the bounds allow: it would have to unwind before a loop
        # could leave its bound.
        integral = integral + (bounded - output)
        kept = PidState(
            np.where(valid, integral, state.integral), np.where(valid, filtered, state.level)
        )
        return bounded, kept

    def _error(self, level: F64, replicas: I32) -> F64:
        """[E, A] deviation from the setpoint, 0 inside the deadband."""
        p = self._parameters
        deviation = level - np.log(p.setpoint)
        # The band in pods is relative to the replicas here, because the deviation is a ratio.
        band = np.maximum(p.deadband, p.deadband_pods / np.maximum(1, replicas))
        return np.where(np.abs(deviation) > band, deviation, 0.0)

    def _round(self, observation: Observation, plan: Plan, output: F64, valid: Mask) -> Plan:
        """The nearest whole replicas, where the change is worth making."""
        current = observation.status[:, rows.REPLICAS]
        wanted = np.clip(np.ceil(np.exp(output) - 0.5), self._least, self._most).astype(np.int32)
        p, change = self._parameters, np.abs(np.exp(output) - current)
        # Compared before rounding: whole replicas would flip when the output hovers around a half.
        moves = change > np.maximum(p.deadband * current, p.deadband_pods)
        replicas = np.where(valid & moves & (current > 0), wanted, current).astype(np.int32)
        moved = np.where(replicas > current, int(Reason.SCALE_OUT), int(Reason.SCALE_IN))
        held = np.where(valid, plan.reason, int(Reason.HOLD_NO_METRICS))
        reason = np.where(replicas == current, held, moved).astype(np.int32)
        return plan._replace(replicas=replicas, reason=reason)


def pid_of(world: World, parameters: Parameters | None = None) -> Pid:
    """A new loop per app of the world."""
    return Pid(world.inventory, world.layout.pools, parameters)
