"""What a controller decides for a tick, as arrays with a leading environment axis."""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from models.cluster import rows
from models.cluster.arrays import I8, I32
from models.cluster.observation import Observation


class Reason(IntEnum):
    """Why an app gets these numbers; a hold is a decision with a reason, too."""

    # Kernels write the numbers; the wire carries the names, so renaming one changes a contract.
    HOLD_IN_TOLERANCE = 0
    SCALE_OUT = 1
    SCALE_IN = 2
    HOLD_STABILISING = 3
    HOLD_NO_METRICS = 4
    HOLD_NOT_DUE = 5
    HOLD_COOL_DOWN = 6
    HOLD_BLAST_RADIUS = 7
    HOLD_BUDGET = 8
    YIELD = 9
    RESIZE = 10
    HOLD_SIZE = 11


class Plan(NamedTuple):
    """E environments, A apps, P pools."""

    replicas: I32
    """[E, A]."""
    cpu: I32
    """[E, A] CPU request per pod, millicores."""
    memory: I32
    """[E, A] memory request per pod, MiB."""
    reason: I32
    """[E, A] a Reason."""
    nodes: I32
    """[E, P, 4] nodes wanted beyond those ready, booting and queued, by priority of the need."""
    coordinated: I8
    """[E, P] 1 where a pool gets nodes from this plan's request only; 0 where pending pods request
    nodes as well, for what is not coming already. Valid for one tick: when a coordinating
    controller stops, the pods request nodes again."""
    keep: I32
    """[E, P] the pool is not scaled down below this many nodes: idle ones wait for coming load."""


def empty_plan(environments: int, apps: int, pools: int) -> Plan:
    """A plan of the right shapes for a controller to fill."""
    shape = (environments, apps)
    return Plan(
        replicas=np.zeros(shape, np.int32),
        cpu=np.zeros(shape, np.int32),
        memory=np.zeros(shape, np.int32),
        reason=np.zeros(shape, np.int32),
        nodes=np.zeros((environments, pools, 4), np.int32),
        coordinated=np.zeros((environments, pools), np.int8),
        keep=np.zeros((environments, pools), np.int32),
    )


def hold_plan(
    observation: Observation, pools: int, reason: Reason = Reason.HOLD_IN_TOLERANCE
) -> Plan:
    """A plan that changes nothing and requests no node, in new arrays, with one reason for all."""
    status = observation.status
    environments, apps = observation.missing.shape
    return Plan(
        replicas=status[:, rows.REPLICAS].copy(),
        cpu=status[:, rows.CPU_REQUEST].copy(),
        memory=status[:, rows.MEMORY_REQUEST].copy(),
        reason=np.full((environments, apps), int(reason), np.int32),
        nodes=np.zeros((environments, pools, 4), np.int32),
        coordinated=np.zeros((environments, pools), np.int8),
        keep=np.zeros((environments, pools), np.int32),
    )
