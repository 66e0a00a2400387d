"""The figures of a race, a column per controller, narrow enough for a terminal."""

from collections.abc import Callable, Sequence
from typing import Final

from rich.table import Table

from models.cluster.description import PRIORITIES, Priority
from models.sim.results.summary import Result
from services.cli.output import table

UNKNOWN: Final = "-"
Figure = Callable[[Result], float]


def _minutes(priority: Priority) -> Figure:
    return lambda row: row.violation_minutes[priority]


_FIGURES: Final[tuple[tuple[str, str, Figure], ...]] = (
    *((f"{name} minutes", ",.1f", _minutes(name)) for name in PRIORITIES),
    ("PW", ",.1f", lambda row: row.pw),
    ("node-hours", ",.1f", lambda row: row.node_hours),
    ("J", ",.1f", lambda row: row.objective),
    ("money", ",.0f", lambda row: row.money),
    ("P0 p99, ms", ",.0f", lambda row: row.latency_p99_ms),
    ("actions", ",.0f", lambda row: row.scaling_actions),
    ("loops per day", ",.0f", lambda row: row.loops_per_day),
    ("pods started", ",.0f", lambda row: row.pods_started),
    ("most pending", ",.0f", lambda row: row.max_pending_pods),
    ("ready p95, s", ",.0f", lambda row: row.need_to_ready_p95_s),
    ("P0 waits, ticks", ",.0f", lambda row: row.p0_wait_ticks),
    ("P3 holds then", ".1%", lambda row: row.p3_share_while_p0_waits),
)
"""Label, number format and value of each row."""
READING: Final = (
    "minutes are violation minutes, J = PW + node-hours, ready is from need to ready; "
    "in brackets the ratio to {reference}"
)


def columns(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table with right-aligned figures; long cells fold instead of being cut."""
    result = table(title, ("", *names), rows)
    # Five controllers do not fit into 80 columns: a folded cell is readable, a cut one is not.
    for column in result.columns:
        column.overflow = "fold"
    for column in result.columns[1:]:
        column.justify = "right"
    return result


def final_table(title: str, results: Sequence[Result], failures: Sequence[int]) -> Table:
    """All figures, each with its ratio to the first controller's."""
    rows = [(label, *_cells(shape, figure, results)) for label, shape, figure in _FIGURES]
    rows.append(("failures", *map(str, failures)))
    return columns(title, [row.controller for row in results], rows)


def _cells(shape: str, figure: Figure, results: Sequence[Result]) -> list[str]:
    reference, *others = map(figure, results)
    # A ratio to a value that prints as zero would only be a large number.
    is_zero = format(reference, shape) == format(0.0, shape)
    return [
        format(reference, shape),
        *(
            f"{value:{shape}} ({UNKNOWN if is_zero else f'{value / reference:.2f}'})"
            for value in others
        ),
    ]
