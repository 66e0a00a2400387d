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
    ("weighted minutes", ",.1f", lambda row: row.pw),
    ("node-hours", ",.1f", lambda row: row.node_hours),
    ("J", ",.1f", lambda row: row.objective),
    ("money for nodes", ",.0f", lambda row: row.money),
    ("P0 p99, ms", ",.0f", lambda row: row.latency_p99_ms),
    ("actions", ",.0f", lambda row: row.scaling_actions),
    ("loops a day", ",.0f", lambda row: row.loops_per_day),
    ("pods started", ",.0f", lambda row: row.pods_started),
    ("most pods pending", ",.0f", lambda row: row.max_pending_pods),
    ("ready p95, s", ",.0f", lambda row: row.need_to_ready_p95_s),
    ("P0 waits, ticks", ",.0f", lambda row: row.p0_wait_ticks),
    ("CPU of P3 then", ".1%", lambda row: row.p3_share_while_p0_waits),
)
"""Label, number format and value of each row."""
READING: Final = (
    "P0 to P3 minutes: requests of that priority violated their target, P0 matters most; weighted "
    "minutes: all of them, by weight of the priority; J = weighted minutes + node-hours, lower is "
    "better; money: in the cluster file's currency; actions: changes of an app after the warm-up "
    "(the live view counts from the first tick); loops: out and back within 5 minutes; pods "
    "pending: without a node; ready: from need to ready; P0 waits: for a node, and the share of "
    "CPU that P3 holds then; failures: stampede, cascade, priority inversion. In brackets the "
    "ratio to {reference}"
)
_LEVEL: Final = 1e-3
"""Relative difference in J below which no controller wins."""


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


def winner(results: Sequence[Result]) -> str:
    """One sentence on the controller that won by J; empty if there is only one."""
    if len(results) < 2:
        return ""
    best, second, *others = sorted(results, key=lambda row: row.objective)
    if _lead(best, second) < _LEVEL:
        first = f"{best.controller} and {second.controller} are level at a J of "
        first += f"{best.objective:,.1f}"
    else:
        first = f"{best.controller} wins with the lowest J, {best.objective:,.1f}; "
        first += f"{second.controller} follows with {_behind(best, second)}"
    # Whoever came last is named as well: it may be ours.
    rest = [f"; {row.controller} {_behind(best, row)}" for row in others]
    return f"{first}{''.join(rest)}; one seed shows how they differ, not by how much"


def _lead(best: Result, other: Result) -> float:
    return other.objective / best.objective - 1 if best.objective else 0.0


def _behind(best: Result, other: Result) -> str:
    return f"{other.objective:,.1f} ({100 * _lead(best, other):+.0f} %)"


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
