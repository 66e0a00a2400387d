"""Whether better forecasts help: J of each controller at most that of the next, by scenario."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from models.compare.pooled import cube
from models.compare.request import Request
from models.compare.standings import ALL, F64, OBJECTIVE
from models.sim.results.summary import Result
from models.statistics import Interval, ratio_over_scenarios, relative_difference

Verdict = Literal["holds", "open", "fails"]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """Two neighbours of the order in one scenario."""

    better: str
    """The controller that is expected to have the lower J."""
    worse: str
    difference: Interval
    """J of `better` over that of `worse`, less one; paired by seed."""

    @property
    def verdict(self) -> Verdict:
        """`open`: the order is reversed, but the interval includes zero or there is none."""
        # Without violations and without nodes there is no J to compare.
        if math.isnan(self.difference.value) or self.difference.value <= 0:
            return "holds"
        return "fails" if self.difference.low > 0 else "open"


class ForesightRow(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario, or all together."""

    scenario: str
    steps: list[Step]
    verdict: Verdict
    """The worst of its steps."""


def foresight(results: Sequence[Result], request: Request) -> list[ForesightRow]:
    """By scenario with intervals over the seeds; all together with intervals over both."""
    figures = {name: cube(results, request, name, OBJECTIVE) for name in request.controllers}
    rows = [
        _row(scenario.name, {name: figures[name][index] for name in request.controllers})
        for index, scenario in enumerate(request.scenarios)
    ]
    return rows if len(rows) == 1 else [*rows, _row(ALL, figures)]


def _row(scenario: str, figures: dict[str, F64]) -> ForesightRow:
    """Figures are [seeds] of one scenario or [scenarios, seeds] of all, best controller first."""
    steps = [
        Step(better=better, worse=worse, difference=_difference(figures[better], figures[worse]))
        for better, worse in pairwise(figures)
    ]
    verdicts = {step.verdict for step in steps}
    worst: Verdict = "fails" if "fails" in verdicts else "open" if "open" in verdicts else "holds"
    return ForesightRow(scenario=scenario, steps=steps, verdict=worst)


def _difference(ours: F64, theirs: F64) -> Interval:
    if ours.ndim == 1:
        return relative_difference(ours, theirs)
    found = ratio_over_scenarios(ours, theirs)
    return Interval(found.value - 1, found.low - 1, found.high - 1)
