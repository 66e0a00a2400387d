"""What a policy may change of the heuristic: factors on what it works out, 1 where it is right.

A policy that says nothing leaves every decision as it is, bit for bit, so learning starts at the
heuristic. What protects the cluster (budgets, blast radius, missing data) is not for a policy.
"""

from typing import NamedTuple

import numpy as np

from models.cluster.arrays import F32, F64
from models.control.budget import Budget
from models.control.report import Report
from models.jit import kernel


class Residual(NamedTuple):
    """E environments, D domains, A apps. A field without columns changes nothing."""

    headroom: F64
    """[E, D] on 1 + headroom: pods and nodes per unit of work."""
    urgency: F64
    """[E, D] on the urgency, and on the distress for which others give way."""
    need: F32
    """[E, A] on the pods that an app needs."""


def neutral(environments: int) -> Residual:
    """Change nothing, at no cost."""
    nothing = np.ones((environments, 0))
    return Residual(nothing, nothing, nothing.astype(np.float32))


def scale_headroom(headroom: F64, factor: F64) -> F64:
    """(1 + headroom) x factor - 1, put so that a factor of 1 adds exactly nothing."""
    if factor.shape[1] == 0:
        return headroom
    scaled: F64 = headroom + (factor - 1.0) * (1.0 + headroom)
    return scaled


def with_distress(report: Report, factor: F64) -> Report:
    """The distress as the policy sees it."""
    return report if factor.shape[1] == 0 else report._replace(distress=report.distress * factor)


def with_urgency(budget: Budget, factor: F64) -> Budget:
    """The urgency as the policy sees it, within its range."""
    if factor.shape[1] == 0:
        return budget
    return budget._replace(urgency=np.minimum(budget.urgency * factor, 1.0))


@kernel
def scale_need(need: F32, factor: F32) -> None:
    """Apply the factors of one environment's apps, if there are any."""
    for app in range(factor.size):
        need[app] *= factor[app]
