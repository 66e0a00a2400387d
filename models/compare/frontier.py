"""Violations at equal cost and cost at equal violations, interpolated between points of a line.

One controller with more nodes and fewer violations than another is neither better nor worse.
Each family trades one for the other by its targets, so families are compared where they cost as
much, and where they violate as much.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from models.cluster.description import Priority
from models.sim.results.summary import Result
from models.statistics import Interval, resampled

F64 = NDArray[np.float64]
TUNED: Final = 1.0
"""The knob at which a family is as it was tuned."""


class KnobPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A family at one setting of its cost knob, in one scenario with one seed."""

    knob: float
    scenario: str
    seed: int
    node_hours: float
    violation_minutes: dict[Priority, float]
    pw: float
    objective: float


Families = dict[str, list[KnobPoint]]


class Equal(msgspec.Struct, frozen=True, kw_only=True):
    """A family beside the tuned reference, summed over the scenarios, means over the seeds.

    Intervals are of draws of scenarios and seeds; NaN where a line does not reach.
    """

    family: str
    reference: str
    p0_at_equal_node_hours: float | None
    """Over the reference's P0 minutes."""
    p0_interval: Interval
    node_hours_at_equal_p0: float | None
    """Over the reference's node-hours."""
    node_hours_interval: Interval


def at_knobs(name: str, knobs: Iterable[float]) -> dict[str, float]:
    """Names of the entrants on the line of `name`, with their knobs."""
    return {f"{name}~{knob:g}": knob for knob in knobs}


def knob_points(rows: Iterable[Result], lines: Mapping[str, Mapping[str, float]]) -> Families:
    """Rows by family; `lines` has the entrants of each with their knobs."""
    place = {
        entrant: (name, knob) for name, line in lines.items() for entrant, knob in line.items()
    }
    found: Families = {name: [] for name in lines}
    for row in rows:
        name, knob = place[row.controller]
        found[name].append(
            KnobPoint(
                knob=knob,
                scenario=row.scenario,
                seed=row.seed,
                node_hours=row.node_hours,
                violation_minutes=row.violation_minutes,
                pw=row.pw,
                objective=row.objective,
            )
        )
    return found


def compare_lines(families: Families, reference: str) -> list[Equal]:
    """Each family beside the reference at its tuned knob."""
    hours, minutes = (
        {name: _cube(points, of) for name, points in families.items()}
        for of in (_node_hours, _p0_minutes)
    )
    knobs = sorted({point.knob for point in families[reference]})
    tuned = knobs.index(TUNED)

    def cheaper(name: str) -> Callable[[F64], float]:
        def figure(weights: F64) -> float:
            cost, level = (_line(cube[reference], weights)[tuned] for cube in (hours, minutes))
            line = _line(hours[name], weights), _line(minutes[name], weights)
            found = at_equal_violations(*line, level)
            return np.nan if found is None else found / cost

        return figure

    def better(name: str) -> Callable[[F64], float]:
        def figure(weights: F64) -> float:
            cost, level = (_line(cube[reference], weights)[tuned] for cube in (hours, minutes))
            line = _line(hours[name], weights), _line(minutes[name], weights)
            found = at_equal_cost(*line, cost)
            return np.nan if found is None or level <= 0 else found / level

        return figure

    shape = hours[reference].shape[1:]
    found = []
    for name in families:
        p0, saved = resampled(better(name), shape), resampled(cheaper(name), shape)
        found.append(
            Equal(
                family=name,
                reference=reference,
                p0_at_equal_node_hours=_known(p0.value),
                p0_interval=p0,
                node_hours_at_equal_p0=_known(saved.value),
                node_hours_interval=saved,
            )
        )
    return found


def _node_hours(point: KnobPoint) -> float:
    return point.node_hours


def _p0_minutes(point: KnobPoint) -> float:
    return point.violation_minutes["P0"]


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def _cube(points: Sequence[KnobPoint], of: Callable[[KnobPoint], float]) -> F64:
    """[knobs, scenarios, seeds]."""
    knobs = sorted({point.knob for point in points})
    scenarios = list(dict.fromkeys(point.scenario for point in points))
    seeds = sorted({point.seed for point in points})
    cube = np.full((len(knobs), len(scenarios), len(seeds)), np.nan)
    for point in points:
        place = knobs.index(point.knob), scenarios.index(point.scenario), seeds.index(point.seed)
        cube[place] = of(point)
    return cube


def _line(cube: F64, weights: F64) -> F64:
    """[knobs] sums over the drawn scenarios and seeds."""
    line: F64 = (cube * weights).sum(axis=(1, 2))
    return line


def at_equal_cost(
    node_hours: Sequence[float] | F64, violations: Sequence[float] | F64, cost: float
) -> float | None:
    """Violations on the line at `cost` node-hours; None where the line does not reach.

    An interpolation, piecewise linear in (node-hours, log(violations + 1)): between two targets
    violations fall by a factor rather than by an amount. Where a target costs as much as another
    or more and violates more, the better one counts: a full cluster makes generous targets
    worse. There is no extrapolation.
    """
    hours, index = np.unique(np.asarray(node_hours, np.float64), return_inverse=True)
    if hours.size == 0 or not hours[0] <= cost <= hours[-1]:
        return None
    # Of several targets at equal cost the best one counts, then of all that cost at most as much.
    levels = np.full(hours.size, np.inf)
    np.minimum.at(levels, index, np.log1p(violations))
    return float(np.expm1(np.interp(cost, hours, np.minimum.accumulate(levels))))


def at_equal_violations(
    node_hours: Sequence[float] | F64, violations: Sequence[float] | F64, level: float
) -> float | None:
    """The least node-hours on the line at which violations are at most `level`.

    Interpolated like `at_equal_cost`; None if no point is that good, or if the cheapest point is
    better already: how much cheaper the line would get is not known.
    """
    order = np.argsort(node_hours, kind="stable")
    hours = np.asarray(node_hours, np.float64)[order]
    levels = np.minimum.accumulate(np.log1p(np.asarray(violations, np.float64)[order]))
    wanted = np.log1p(level)
    reached = np.flatnonzero(levels <= wanted)
    if reached.size == 0 or levels[0] < wanted:
        return None
    first = int(reached[0])
    if first == 0:
        return float(hours[0])
    before, after = levels[first - 1], levels[first]
    share = (before - wanted) / (before - after)
    return float(hours[first - 1] + share * (hours[first] - hours[first - 1]))
