"""Results put in order: by scenario, entrant and seed, so that seeds can be paired."""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from models.compare.request import Request
from models.sim.results.summary import Result

ALL: Final = "all scenarios"

F64 = NDArray[np.float64]
Figure = Callable[[Result], float]
Rows = list[list[Result]]
"""For each seed, in the order of the seeds, one row per scenario."""
Tally = dict[str, dict[str, Rows]]
"""By scenario, then by entrant."""

PW: Final[Figure] = attrgetter("pw")
OBJECTIVE: Final[Figure] = attrgetter("objective")
NODE_HOURS: Final[Figure] = attrgetter("node_hours")
ACTIONS: Final[Figure] = attrgetter("scaling_actions")
REVERSALS: Final[Figure] = attrgetter("reversals")
LOOPS: Final[Figure] = attrgetter("loops_per_day")
P0_WAITS: Final[Figure] = attrgetter("p0_wait_ticks")


def P0(row: Result) -> float:  # noqa: N802  a figure among the others
    """Violation minutes of P0."""
    return row.violation_minutes["P0"]


def P3_HELD(row: Result) -> float:  # noqa: N802  as P0
    """P3's share of the ready CPU, summed over the ticks in which P0 waited."""
    return row.p3_share_while_p0_waits * row.p0_wait_ticks


def tally(results: Iterable[Result], request: Request) -> Tally:
    """Every scenario on its own and, where there are several, all together."""
    found = {(row.scenario, row.controller, row.seed): row for row in results}
    single: Tally = {
        scenario.name: {
            name: [[found[scenario.name, name, seed]] for seed in request.seeds]
            for name in request.entrants
        }
        for scenario in request.scenarios
    }
    return single if len(single) == 1 else {**single, ALL: _together(single, request)}


def sums(rows: Rows, figure: Figure) -> F64:
    """[seeds] the figure, summed over the scenarios of each seed."""
    return np.array([sum(figure(row) for row in of_seed) for of_seed in rows], np.float64)


def average(rows: Rows, figure: Figure) -> float:
    """Mean over the seeds of that sum."""
    return float(sums(rows, figure).mean())


def _together(single: Tally, request: Request) -> dict[str, Rows]:
    """A seed's rows of all scenarios side by side: drawn again, they stay together."""
    return {
        name: [
            [row for (row,) in of_seed]
            for of_seed in zip(*(entrants[name] for entrants in single.values()), strict=True)
        ]
        for name in request.entrants
    }
