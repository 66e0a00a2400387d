"""The year's mix: whole days, each counted as often as it occurs in a year.

Scenarios of an hour show how a controller fails. What it costs is decided on the other days, on
most of which nothing happens. `year.yaml` has the weights with their reasons.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from models.cluster.description import PRIORITIES, Name, Priority
from models.compare.standings import NODE_HOURS, OBJECTIVE, P0, PW, Figure
from models.inputs import yamlfile
from models.sim.results.summary import Result
from models.statistics import Interval, mean, ratio, relative_difference

WEIGHTS: Final = Path(__file__).with_name("year.yaml")
DAYS_PER_YEAR: Final = 365

F64 = NDArray[np.float64]


class Weight(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How often one day occurs."""

    day: Name
    """A whole day, by the name of its scenario."""
    days: Annotated[float, Meta(gt=0, le=DAYS_PER_YEAR)]
    """Days per year."""
    why: Annotated[str, Meta(min_length=1)]
    """Where the number comes from."""


class Year(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole file."""

    days: Annotated[tuple[Weight, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        names = [weight.day for weight in self.days]
        for index, name in enumerate(names):
            if names.index(name) != index:
                raise ValueError(f"days[{index}].day: expected distinct days, got {name} twice")
        total = sum(weight.days for weight in self.days)
        if abs(total - DAYS_PER_YEAR) > 1e-6:
            raise ValueError(f"days: expected a sum of {DAYS_PER_YEAR}, got {total:g}")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the days, in file order."""
        return tuple(weight.day for weight in self.days)


class YearStanding(msgspec.Struct, frozen=True, kw_only=True):
    """One controller over a year; figures are means over the seeds, ratios are paired by seed."""

    controller: str
    node_hours: Interval
    violation_minutes: dict[Priority, Interval]
    pw: Interval
    objective: Interval
    node_hours_ratio: Interval
    """Over the reference."""
    p0_ratio: Interval
    objective_difference: Interval
    """Relative to the reference's J."""


def load_year(file: Path | None = None) -> Year:
    """Read and check a file of weights; the shipped one when none is given."""
    return yamlfile.load(file or WEIGHTS, Year)


def year_standings(
    rows: Sequence[Result], year: Year, controllers: Sequence[str], reference: str
) -> list[YearStanding]:
    """Each controller against the reference. Every one has every day and seed."""
    theirs = [row for row in rows if row.controller == reference]
    return [
        _standing(name, [row for row in rows if row.controller == name], theirs, year)
        for name in controllers
    ]


def _standing(name: str, ours: list[Result], theirs: list[Result], year: Year) -> YearStanding:
    def total(figure: Figure) -> F64:
        return _of_seeds(ours, figure, year)

    def reference(figure: Figure) -> F64:
        return _of_seeds(theirs, figure, year)

    return YearStanding(
        controller=name,
        node_hours=mean(total(NODE_HOURS)),
        violation_minutes={p: mean(total(_minutes_of(p))) for p in PRIORITIES},
        pw=mean(total(PW)),
        objective=mean(total(OBJECTIVE)),
        node_hours_ratio=ratio(total(NODE_HOURS), reference(NODE_HOURS)),
        p0_ratio=ratio(total(P0), reference(P0)),
        objective_difference=relative_difference(total(OBJECTIVE), reference(OBJECTIVE)),
    )


def _of_seeds(rows: list[Result], figure: Figure, year: Year) -> F64:
    """[seeds] the figure over a year in which every day of a kind is like that of the seed."""
    days = {weight.day: weight.days for weight in year.days}
    totals: dict[int, float] = {}
    for row in rows:
        totals[row.seed] = totals.get(row.seed, 0.0) + days[row.scenario] * figure(row)
    # In the order of seeds, because ratios pair them.
    return np.array([totals[seed] for seed in sorted(totals)], np.float64)


def _minutes_of(priority: Priority) -> Figure:
    return lambda row: row.violation_minutes[priority]
