"""What a policy may change about the heuristic: factors on its intermediate results.

Factors of 1 leave every decision as it is, bit for bit, so training starts at the heuristic. What
protects the cluster (budgets, blast radius, missing data) is out of a policy's reach.
"""

from typing import NamedTuple

import numpy as np

from models.cluster.arrays import F32, F64
from models.control.budget import Budget
from models.control.report import Report


class Residual(NamedTuple):
    """E environments, D domains, A apps. A field without columns changes nothing."""

    headroom: F64
    """[E, D] on 1 + headroom: pods and nodes per unit of work."""
    urgency: F64
    """[E, D] on the urgency, and on the distress that makes others give way."""
    need: F32
    """[E, A] on the pods that an app needs."""


def neutral(environments: int) -> Residual:
    """Change nothing, at no cost: fields without columns."""
    nothing = np.ones((environments, 0))
    return Residual(nothing, nothing, nothing.astype(np.float32))


def scale_headroom(headroom: F64, factor: F64) -> F64:
    """(1 + headroom) x factor - 1, written so that a factor of 1 adds exactly nothing."""
    if factor.shape[1] == 0:
        return headroom
    scaled: F64 = headroom + (factor - 1.0) * (1.0 + headroom)
    return scaled


def with_distress(report: Report, factor: F64) -> Report:
    """Scale the distress that makes others give way."""
    return report if factor.shape[1] == 0 else report._replace(distress=report.distress * factor)


def with_urgency(budget: Budget, factor: F64) -> Budget:
    """Scale the urgency, at most to 1."""
    if factor.shape[1] == 0:
        return budget
    return budget._replace(urgency=np.minimum(budget.urgency * factor, 1.0))
