"""Each controller against the reference, by scenario and over all scenarios."""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from models.cluster.description import PRIORITIES, Priority
from models.compare.frontier import at_equal_cost
from models.compare.request import Request
from models.sim.results.summary import Result
from models.statistics import Interval, mean, ratio, relative_difference

ALL: Final = "all scenarios"

F64 = NDArray[np.float64]
Figure = Callable[[Result], float]
Rows = list[list[Result]]
"""For each seed, in order, one row per scenario."""
Tally = dict[str, dict[str, Rows]]
"""By scenario, then by entrant."""

PW: Final[Figure] = attrgetter("pw")
OBJECTIVE: Final[Figure] = attrgetter("objective")
NODE_HOURS: Final[Figure] = attrgetter("node_hours")
ACTIONS: Final[Figure] = attrgetter("scaling_actions")
REVERSALS: Final[Figure] = attrgetter("reversals")
LOOPS: Final[Figure] = attrgetter("loops_per_day")
P0_WAITS: Final[Figure] = attrgetter("p0_wait_ticks")


def P0(row: Result) -> float:  # noqa: N802  (one of the figures above)
    """Violation minutes of P0."""
    return row.violation_minutes["P0"]


def P3_HELD(row: Result) -> float:  # noqa: N802  (as P0)
    """P3's share of the ready CPU, summed over the ticks in which P0 waited."""
    # A sum, because means of scenarios with different numbers of such ticks cannot be added.
    return row.p3_share_while_p0_waits * row.p0_wait_ticks


def tally(results: Iterable[Result], request: Request) -> Tally:
    """Each scenario alone and, if there are several, all together."""
    # Every entrant has every seed, in the same order: ratios and differences are paired by seed.
    rows = {(row.scenario, row.controller, row.seed): row for row in results}
    single: Tally = {
        scenario.name: {
            name: [[rows[scenario.name, name, seed]] for seed in request.seeds]
            for name in request.entrants
        }
        for scenario in request.scenarios
    }
    # A single scenario is its own total.
    return single if len(single) == 1 else {**single, ALL: _together(single, request)}


def sums(rows: Rows, figure: Figure) -> F64:
    """[seeds] the figure, summed over the scenarios of each seed."""
    return np.array([sum(figure(row) for row in of_seed) for of_seed in rows], np.float64)


def average(rows: Rows, figure: Figure) -> float:
    """Mean over the seeds of that sum."""
    return float(sums(rows, figure).mean())


def _together(single: Tally, request: Request) -> dict[str, Rows]:
    """A seed's rows of all scenarios; resampling keeps them together."""
    return {
        name: [
            [row for (row,) in of_seed]
            for of_seed in zip(*(entrants[name] for entrants in single.values()), strict=True)
        ]
        for name in request.entrants
    }


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """One controller in one scenario. Minutes, node-hours, actions and J are means over seeds."""

    scenario: str
    controller: str
    violation_minutes: dict[Priority, Interval]
    pw: float
    node_hours: float
    actions: float
    objective: float
    p0_ratio: Interval
    """P0 violation minutes over all seeds, relative to the reference."""
    node_hours_ratio: Interval
    actions_ratio: Interval
    objective_difference: Interval
    """Mean paired difference in J over the reference's mean J."""
    oscillation_rate: float
    loops_per_day: float
    """Mean over scenarios and seeds."""
    p3_share_while_p0_waits: float
    """Over all ticks in which P0 waited."""
    p0_wait_ticks: float
    hpa_p0_at_equal_node_hours: float | None
    """Interpolated on the frontier of HPA's targets; None beyond its ends."""


class FrontierPoint(msgspec.Struct, frozen=True, kw_only=True):
    """HPA at one target, means over seeds."""

    scenario: str
    controller: str
    node_hours: float
    p0_minutes: float
    pw: float


def standings(tallied: Tally, request: Request) -> list[Standing]:
    """By scenario, then all scenarios together; controllers in the requested order."""
    points = frontier(tallied, request)
    return [
        _standing(
            scenario,
            controller,
            entrants,
            request.reference,
            [point for point in points if point.scenario == scenario],
        )
        for scenario, entrants in tallied.items()
        for controller in request.controllers
    ]


def frontier(tallied: Tally, request: Request) -> list[FrontierPoint]:
    """HPA's targets in every scenario."""
    return [
        FrontierPoint(
            scenario=scenario,
            controller=name,
            node_hours=average(entrants[name], NODE_HOURS),
            p0_minutes=average(entrants[name], P0),
            pw=average(entrants[name], PW),
        )
        for scenario, entrants in tallied.items()
        for name in request.frontier
    ]


def _standing(
    scenario: str,
    controller: str,
    entrants: dict[str, Rows],
    reference: str,
    line: list[FrontierPoint],
) -> Standing:
    ours, theirs = entrants[controller], entrants[reference]
    node_hours, waited = average(ours, NODE_HOURS), average(ours, P0_WAITS)
    return Standing(
        scenario=scenario,
        controller=controller,
        violation_minutes={name: _minutes(ours, name) for name in PRIORITIES},
        pw=average(ours, PW),
        node_hours=node_hours,
        actions=average(ours, ACTIONS),
        objective=average(ours, OBJECTIVE),
        # Ratios of sums over seeds: a seed in which the reference never violates has no ratio.
        p0_ratio=ratio(sums(ours, P0), sums(theirs, P0)),
        node_hours_ratio=ratio(sums(ours, NODE_HOURS), sums(theirs, NODE_HOURS)),
        actions_ratio=ratio(sums(ours, ACTIONS), sums(theirs, ACTIONS)),
        objective_difference=relative_difference(sums(ours, OBJECTIVE), sums(theirs, OBJECTIVE)),
        oscillation_rate=_share(average(ours, REVERSALS), average(ours, ACTIONS)),
        # A rate already, so averaged over the scenarios, where other figures are sums.
        loops_per_day=average(ours, LOOPS) / len(ours[0]),
        p3_share_while_p0_waits=_share(average(ours, P3_HELD), waited),
        p0_wait_ticks=waited,
        hpa_p0_at_equal_node_hours=at_equal_cost(
            [point.node_hours for point in line], [point.p0_minutes for point in line], node_hours
        ),
    )


def _minutes(rows: Rows, priority: Priority) -> Interval:
    return mean(sums(rows, lambda row: row.violation_minutes[priority]))


def _share(part: float, whole: float) -> float:
    """0 if the whole is 0."""
    return part / whole if whole > 0 else 0.0
