"""All scenarios together, with intervals over scenarios and seeds, and without the largest.

A sum over scenarios is mostly that of its largest. Which scenarios were chosen decides more than
which seeds, so both are drawn.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from models.compare.request import Request
from models.compare.standings import F64, NODE_HOURS, OBJECTIVE, P0, Figure
from models.sim.results.summary import Result
from models.statistics import Interval, ratio_over_scenarios


class Pooled(msgspec.Struct, frozen=True, kw_only=True):
    """A controller over the reference: ratios of sums over scenarios and seeds."""

    controller: str
    without: str | None
    """The scenario that is left out: the one in which the reference has most P0 minutes."""
    p0_ratio: Interval
    objective_ratio: Interval
    node_hours_ratio: Interval


def pooled(results: Sequence[Result], request: Request) -> list[Pooled]:
    """All scenarios, then all but the largest; nothing for a single scenario."""
    names = [scenario.name for scenario in request.scenarios]
    if len(names) < 2:
        return []
    cubes = {
        figure: {name: cube(results, request, name, figure) for name in request.controllers}
        for figure in (P0, OBJECTIVE, NODE_HOURS)
    }
    largest = int(cubes[P0][request.reference].sum(axis=1).argmax())
    kept = [index for index in range(len(names)) if index != largest]
    return [
        Pooled(
            controller=name,
            without=without,
            p0_ratio=_ratio(cubes[P0], name, request.reference, rows),
            objective_ratio=_ratio(cubes[OBJECTIVE], name, request.reference, rows),
            node_hours_ratio=_ratio(cubes[NODE_HOURS], name, request.reference, rows),
        )
        for without, rows in ((None, list(range(len(names)))), (names[largest], kept))
        for name in request.controllers
        if name != request.reference
    ]


def cube(results: Sequence[Result], request: Request, controller: str, figure: Figure) -> F64:
    """[scenarios, seeds]."""
    rows = {(row.scenario, row.seed): row for row in results if row.controller == controller}
    return np.array(
        [
            [figure(rows[scenario.name, seed]) for seed in request.seeds]
            for scenario in request.scenarios
        ]
    )


def _ratio(cubes: dict[str, F64], ours: str, theirs: str, rows: list[int]) -> Interval:
    return ratio_over_scenarios(cubes[ours][rows], cubes[theirs][rows])
