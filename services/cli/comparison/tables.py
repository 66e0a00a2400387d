"""The comparison as tables, for the console and for the report."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from models.compare.pooled import Pooled
from models.compare.standings import Standing
from models.sim.results.summary import Result
from models.statistics import Interval

UNKNOWN: Final = "-"
FEW_SEEDS: Final = 6
"""With fewer seeds a bootstrap underestimates the spread between seeds."""
READING: Final = (
    "minutes, node-hours, actions and J are means over the seeds (sums over the scenarios); "
    "ratios are of sums over paired seeds, [low, high] their 95 % bootstrap interval"
)


class Listing(NamedTuple):
    """A table of text."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


def compact(standings: Sequence[Standing], reference: str) -> list[Listing]:
    """One table per scenario, narrow enough for a terminal."""
    columns = ("controller", "P0 minutes", f"/ {reference} [95 %]", "nodes", "actions", "J")
    return [
        Listing(
            f"{name}, nodes and actions over {reference}'s",
            columns,
            [_brief(row) for row in rows],
        )
        for name, rows in grouped(standings).items()
    ]


def by_scenario(standings: Sequence[Standing], reference: str) -> list[Listing]:
    """One table per scenario with figures, and ratios with their intervals."""
    over = f"over {reference}"
    columns = ("controller", "P0 minutes", over, "node-hours", over, "actions", over, "PW", "J")
    return [
        Listing(name, columns, [_line(row) for row in rows])
        for name, rows in grouped(standings).items()
    ]


def objective_table(standings: Sequence[Standing], reference: str) -> Listing:
    """Relative differences in J with their intervals: the upper end decides non-inferiority."""
    return _matrix(
        [row for row in standings if row.controller != reference],
        lambda row: signed(row.objective_difference),
    )


def pooled_tables(pooled: Sequence[Pooled], reference: str) -> list[Listing]:
    """Ratios whose intervals are over scenarios and seeds: all, and all but the largest."""
    columns = ("controller", "P0", "J", "node-hours")
    return [
        Listing(
            f"{'all scenarios' if without is None else f'without {without}'}, over {reference} "
            "[95 % over scenarios and seeds]",
            columns,
            [
                (
                    row.controller,
                    times(row.p0_ratio),
                    times(row.objective_ratio),
                    times(row.node_hours_ratio, 3),
                )
                for row in pooled
                if row.without == without
            ],
        )
        for without in dict.fromkeys(row.without for row in pooled)
    ]


def insurance_table(rows: Sequence[Result]) -> Listing | None:
    """What surviving the loss of a zone costs; None where nothing is insured."""
    found: list[tuple[str, ...]] = []
    for name in dict.fromkeys(row.controller for row in rows):
        own = [row for row in rows if row.controller == name]
        hours = sum(row.insurance_node_hours or 0.0 for row in own)
        money = sum(row.insurance_money or 0.0 for row in own)
        if hours:
            share = hours / sum(row.node_hours for row in own)
            found.append((name, count(hours), f"{share:.1%}", count(money)))
    columns = ("controller", "node-hours", "of all", "money")
    return Listing("insurance against the loss of a zone", columns, found) if found else None


def frontier_table(standings: Sequence[Standing]) -> Listing:
    """P0 minutes, and those of an HPA with equal node-hours."""
    return _matrix(standings, _against_frontier)


def held_table(standings: Sequence[Standing]) -> Listing:
    """Share of CPU that P3 held while P0 waited."""
    return _matrix(standings, _held)


def grouped(standings: Iterable[Standing]) -> dict[str, list[Standing]]:
    """By scenario, in their order."""
    groups: dict[str, list[Standing]] = {}
    for row in standings:
        groups.setdefault(row.scenario, []).append(row)
    return groups


def count(value: float) -> str:
    """Minutes, node-hours or actions."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def times(found: Interval, digits: int = 2) -> str:
    """A ratio with its interval."""
    return _with_bounds(found, f".{digits}f")


def signed(found: Interval) -> str:
    """A relative difference with its interval, in percent."""
    return _with_bounds(_hundredfold(found), "+.1f", " %")


def _brief(row: Standing) -> tuple[str, ...]:
    return (
        row.controller,
        count(row.violation_minutes["P0"].value),
        times(row.p0_ratio),
        f"{row.node_hours_ratio.value:.3f}",
        # A reference of static sizes never acts.
        UNKNOWN if math.isnan(row.actions_ratio.value) else f"{row.actions_ratio.value:.2f}",
        count(row.objective),
    )


def _line(row: Standing) -> tuple[str, ...]:
    return (
        row.controller,
        count(row.violation_minutes["P0"].value),
        times(row.p0_ratio),
        count(row.node_hours),
        times(row.node_hours_ratio, 3),
        count(row.actions),
        times(row.actions_ratio),
        count(row.pw),
        count(row.objective),
    )


def _matrix(standings: Sequence[Standing], cell: Callable[[Standing], str]) -> Listing:
    groups = grouped(standings)
    names = dict.fromkeys(row.controller for row in standings)
    rows = [(scenario, *map(cell, group)) for scenario, group in groups.items()]
    return Listing("", ("scenario", *names), rows)


def _against_frontier(row: Standing) -> str:
    mine, hpa = row.violation_minutes["P0"].value, row.hpa_p0_at_equal_node_hours
    return f"{count(mine)} against {count(hpa)}" if hpa is not None else f"{count(mine)}, beyond"


def _held(row: Standing) -> str:
    if row.p0_wait_ticks == 0:
        return "never waited"
    return f"{row.p3_share_while_p0_waits:.1%} ({row.p0_wait_ticks:.1f} ticks)"


def _hundredfold(found: Interval) -> Interval:
    return Interval(100 * found.value, 100 * found.low, 100 * found.high)


def _with_bounds(found: Interval, form: str, unit: str = "") -> str:
    # The reference may be zero: no violations in any seed.
    if math.isnan(found.value):
        return UNKNOWN
    # One seed has a value and no interval.
    if math.isnan(found.low):
        return f"{found.value:{form}}{unit}"
    return f"{found.value:{form}}{unit} [{found.low:{form}}, {found.high:{form}}]"
