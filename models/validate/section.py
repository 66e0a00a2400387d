"""The results of a validation: checks with figures, tables and plots, by section."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Cell = str | int | float
Draw = Callable[["Axes"], None]


class Check(msgspec.Struct, frozen=True):
    """One property of the world, and the figure that confirms or refutes it."""

    name: str
    figure: str
    expected: str
    ok: bool


class Plot(NamedTuple):
    """Drawn only when a report is written, so that checking needs no plotting library."""

    title: str
    draw: Draw


class Listing(NamedTuple):
    """A table of a section."""

    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]


class Section(NamedTuple):
    """A group of checks with the tables and plots behind them."""

    title: str
    text: str
    checks: list[Check]
    plots: list[Plot]
    listing: Listing | None = None


class Effort(NamedTuple):
    """How much is simulated; a quick validation runs the same checks with fewer seeds."""

    seeds: int
    conservation_apps: int
    conservation_ticks: int
    together: int
    """Environments of the world that is compared with a single one."""
    utilisations: tuple[float, ...]


FULL = Effort(
    seeds=5,
    conservation_apps=1550,
    conservation_ticks=240,
    together=64,
    utilisations=(0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90),
)
QUICK = Effort(
    seeds=2,
    conservation_apps=155,
    conservation_ticks=120,
    together=8,
    utilisations=(0.60, 0.70, 0.85),
)
