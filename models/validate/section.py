"""What a validation finds: checks with their figures, tables and plots, section by section."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Cell = str | int | float
Draw = Callable[["Axes"], None]


class Check(msgspec.Struct, frozen=True):
    """One promise of the world, with the figure it was judged by."""

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
    """A group of checks with what a reader needs to believe them."""

    title: str
    says: str
    checks: list[Check]
    plots: list[Plot]
    listing: Listing | None = None


class Effort(NamedTuple):
    """How much is simulated; a quick validation asks the same questions with fewer seeds."""

    seeds: int
    conservation_apps: int
    conservation_ticks: int
    together: int
    """Environments side by side in the check of batch sizes."""
    utilisations: tuple[float, ...]
    spiking: tuple[str, ...]
    """Domains that spike in turn, in the sweep of utilisation."""


FULL = Effort(
    seeds=5,
    conservation_apps=1550,
    conservation_ticks=240,
    together=64,
    utilisations=(0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90),
    spiking=("payments", "fraud", "merchant", "data", "internal"),
)
QUICK = Effort(
    seeds=2,
    conservation_apps=155,
    conservation_ticks=120,
    together=8,
    utilisations=(0.60, 0.70, 0.85),
    spiking=("payments", "data"),
)
