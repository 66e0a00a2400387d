"""Why a budget is what it is, in plain words."""

from typing import Final

from models.control.budget import CommanderDecision
from models.control.fallback import Level
from models.control.report import Report

_NOTABLE: Final = 0.005
"""Shares below this are not worth a reason. Only for people: nothing is decided by it."""


def reasons_of(index: int, decision: CommanderDecision, report: Report, level: Level) -> list[str]:
    """Why a domain's budget is what it is, most important first."""
    directive, budget = decision.directive, decision.directive.budget
    cores, held = float(budget.cores[0, index]), float(report.held[0, index])
    wanted, distress = float(report.wanted[0, index]), float(report.distress[0, index])
    growth, release = float(directive.growth[0, index]), float(directive.release[0, index])
    insured = float(budget.insured[0, index])
    headroom = float(budget.headroom[0, index]) - insured
    reasons = []
    if release > 0:
        reasons.append(f"releasing {release:.0f} cores to higher-need domains")
    if distress > _NOTABLE * max(cores, 1.0):
        reasons.append(f"some apps lack {distress:.0f} cores for their present load")
    if growth > 1.0 + _NOTABLE:
        reasons.append(f"traffic is forecast to grow to {growth:.2f} times the present")
    if wanted > cores:
        reasons.append(f"wants {wanted:.0f} cores, budget is {cores:.0f}")
    if headroom > _NOTABLE:
        reasons.append(f"{headroom:.0%} headroom for surges")
    if insured > _NOTABLE:
        reasons.append(f"{insured:.0%} more to carry the loss of a zone")
    if not reasons:
        reasons.append(f"holds {held:.0f} of {cores:.0f} cores, needs no more")
    return [*_fallback(level), *reasons]


def insurance_reasons(nodes: int, per_hour: float) -> list[str]:
    """Why a pool keeps nodes that nothing else needs."""
    if nodes == 0:
        return []
    return [f"{nodes} nodes are kept to carry the loss of a zone, for {per_hour:.2f} per hour"]


def _fallback(level: Level) -> list[str]:
    if level == Level.POLICY:
        return []
    without = ", forecasts are not used" if level >= Level.REACTIVE else ""
    return [f"the breaker fell back to {level.label}{without}"]
