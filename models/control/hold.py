"""A plan that changes nothing: where controllers begin that change only some of it."""

import numpy as np

from models.sim.observe import Observation
from models.sim.plan import Plan, Reason
from models.sim.state import CPU_REQUEST, MEMORY_REQUEST, REPLICAS


def hold(observation: Observation, pools: int, reason: Reason = Reason.HOLD_IN_TOLERANCE) -> Plan:
    """Fresh arrays with what the API server knows, no node wanted, and one reason for all."""
    known = observation.known
    environments, apps = observation.missing.shape
    return Plan(
        replicas=known[:, REPLICAS].copy(),
        cpu=known[:, CPU_REQUEST].copy(),
        memory=known[:, MEMORY_REQUEST].copy(),
        reason=np.full((environments, apps), int(reason), np.int32),
        nodes=np.zeros((environments, pools, 4), np.int32),
        coordinated=np.zeros((environments, pools), np.int8),
        keep=np.zeros((environments, pools), np.int32),
    )
