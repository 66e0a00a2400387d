"""A plan that changes nothing: where controllers begin that change only some of it."""

import numpy as np

from models.cluster.observation import CPU_REQUEST, MEMORY_REQUEST, REPLICAS, Observation
from models.cluster.plan import Plan, Reason


def hold(observation: Observation, pools: int, reason: Reason = Reason.HOLD_IN_TOLERANCE) -> Plan:
    """Fresh arrays with what the API server knows, no node wanted, and one reason for all."""
    status = observation.status
    environments, apps = observation.missing.shape
    return Plan(
        replicas=status[:, REPLICAS].copy(),
        cpu=status[:, CPU_REQUEST].copy(),
        memory=status[:, MEMORY_REQUEST].copy(),
        reason=np.full((environments, apps), int(reason), np.int32),
        nodes=np.zeros((environments, pools, 4), np.int32),
        coordinated=np.zeros((environments, pools), np.int8),
        keep=np.zeros((environments, pools), np.int32),
    )
