"""Why a budget is what it is, in words."""

from models.control.budget import CommanderDecision
from models.control.report import Report

_NOTABLE = 0.005
"""Shares below this are not worth a word."""


def reasons_of(place: int, orders: CommanderDecision, report: Report) -> list[str]:
    """The weightiest first."""
    briefing, budget = orders.directive, orders.directive.budget
    cores, held = float(budget.cores[0, place]), float(report.held[0, place])
    wanted, distress = float(report.wanted[0, place]), float(report.distress[0, place])
    growth, release = float(briefing.growth[0, place]), float(briefing.release[0, place])
    headroom = float(budget.headroom[0, place])
    said = []
    if release > 0:
        said.append(f"gives back {release:.0f} cores that others cannot do without")
    if distress > _NOTABLE * max(cores, 1.0):
        said.append(f"single apps miss {distress:.0f} cores for the work they have")
    if growth > 1.0 + _NOTABLE:
        said.append(f"traffic is forecast to grow to {growth:.2f} times the present")
    if wanted > cores:
        said.append(f"wants {wanted:.0f} cores and may hold {cores:.0f}")
    if headroom > _NOTABLE:
        said.append(f"{headroom:.0%} on top, because the forecast is that unsure")
    if not said:
        said.append(f"holds {held:.0f} of {cores:.0f} cores; nothing is missing")
    return said
