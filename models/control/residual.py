"""What a policy may change about the heuristic: factors and weights on its intermediate results.

Factors of 1 and weights of 0 leave every decision as it is, bit for bit, so training starts at the
heuristic. What protects the cluster (budgets, blast radius, missing data) is out of a policy's
reach.
"""

from typing import NamedTuple, Protocol

import numpy as np

from models.cluster.arrays import F32, F64, I32
from models.control.budget import Budget, Directive
from models.control.demand import AppSignals
from models.control.report import Report
from models.features.pools import PoolReadings
from models.forecaster.port import Forecast


class Residual(NamedTuple):
    """E environments, D domains, A apps, H horizons. A field without columns changes nothing."""

    headroom: F64
    """[E, D] on 1 + headroom: pods and nodes per unit of work."""
    urgency: F64
    """[E, D] on the urgency, and on the distress that makes others give way."""
    need: F32
    """[E, A] on the pods that an app needs."""
    cpu: F32
    """[E, A] on the first CPU request of an app; 1 or more, as no pod becomes smaller than that."""
    comfort: F64
    """[E, D] on what a domain's Soldier wants beyond its essential work, as a claim on capacity."""
    spare: F64
    """[E, 1] on the nodes kept free above those that pods fill."""
    pods: F64
    """[E, D, H] weights of the forecast growth at each horizon, added to what pods prepare for."""
    nodes: F64
    """[E, D, H] the same for what nodes are requested for."""


class AppFactors(NamedTuple):
    """The Soldiers' part of a residual. Fields without columns change nothing."""

    need: F32
    cpu: F32


def no_factors(environments: int) -> AppFactors:
    """Change nothing, at no cost."""
    nothing = np.ones((environments, 0), np.float32)
    return AppFactors(nothing, nothing)


class CommanderAdviser(Protocol):
    """A Commander's policy: from what the Commander decides on to what it changes about it."""

    def __call__(
        self, tick: I32, pools: PoolReadings, report: Report, forecast: Forecast | None, /
    ) -> Residual:
        """The residual of the minute that begins."""
        ...


class SoldierAdviser(Protocol):
    """A Soldier's policy: from what a Soldier knows of its apps to factors on each."""

    def __call__(self, status: I32, signals: AppSignals, directive: Directive, /) -> "AppFactors":
        """For this tick."""
        ...


class Advisers(NamedTuple):
    """The policies beside the heuristic; None where it decides alone."""

    commander: CommanderAdviser | None = None
    soldier: SoldierAdviser | None = None


def neutral(environments: int) -> Residual:
    """Change nothing, at no cost: fields without columns."""
    nothing = np.ones((environments, 0))
    return Residual(
        headroom=nothing,
        urgency=nothing,
        need=nothing.astype(np.float32),
        cpu=nothing.astype(np.float32),
        comfort=nothing,
        spare=nothing,
        pods=nothing[..., None],
        nodes=nothing[..., None],
    )


def factors_of(residual: Residual) -> AppFactors:
    """The Soldiers' part."""
    return AppFactors(residual.need, residual.cpu)


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


def scale(value: F64, factor: F64) -> F64:
    """A value under a policy's factor."""
    return value if factor.shape[1] == 0 else value * factor


def believe(growth: F64, ahead: F64, weight: F64, most: float) -> F64:
    """Growth [E, D] with a policy's weights on the growth at each horizon, `ahead` [E, D, H].

    From 1 to `most`: a forecast never lowers below what is needed now.
    """
    if weight.shape[1] == 0:
        return growth
    believed: F64 = np.clip(growth + ((ahead - 1.0) * weight).sum(axis=2), 1.0, most)
    return believed
