"""What each mechanism of the simulated world does to a comparison of two controllers.

A cell is the world with a few numbers of its physics changed, and nothing else. Both controllers
run in every cell, so a ratio that moves says how much a conclusion depends on that mechanism.
`sensitivity.yaml` has the cells with the sources of their values.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from models.cluster.description import Name, Section
from models.compare.hashes import combined, world_hashes
from models.compare.jobs import Job, jobs_of
from models.compare.pooled import cube
from models.compare.request import Request
from models.compare.standings import F64, NODE_HOURS, OBJECTIVE, P0
from models.inputs import yamlfile
from models.inputs.errors import InputError, did_you_mean
from models.sim.config.physics import Physics, SimCluster
from models.sim.results.summary import Result
from models.statistics import Interval, ratio_over_scenarios

CELLS: Final = Path(__file__).with_name("sensitivity.yaml")
BASE: Final = "as-described"
"""The world without any change."""
_EVERY: Final = "*"


class Cell(Section, frozen=True, kw_only=True):
    """One changed world."""

    name: Name
    changes: dict[str, float]
    """New values by their path in the physics file; `*` stands for every entry of a mapping."""
    source: Annotated[str, Meta(min_length=1)]
    """Where the values come from."""

    def applied_to(self, cluster: SimCluster) -> SimCluster:
        """The cluster with these changes and no other."""
        values = msgspec.to_builtins(cluster.physics)
        for path, value in self.changes.items():
            self._set(values, path, value)
        try:
            return replace(cluster, physics=msgspec.convert(values, Physics))
        # A value may not fit another cluster: with shorter ticks a window has too many of them.
        except ValueError as error:
            raise InputError(f"cells: {self.name}: {error}; leave it out with --cells") from None

    def _set(self, values: dict[str, Any], path: str, value: float) -> None:
        *sections, field = path.split(".")
        parts = [values]
        for section in sections:
            parts = [
                part[name]
                for part in parts
                for name in (part if section == _EVERY else [section])
                if name in part
            ]
        # Every field is there, because defaults are written out; a misspelt one is not.
        if not parts or any(field not in part for part in parts):
            raise InputError(f"cells: {self.name}: {path} is no field of the physics file")
        for part in parts:
            part[field] = value


class CellTable(Section, frozen=True, kw_only=True):
    """The whole file."""

    cells: tuple[Cell, ...]

    def __post_init__(self) -> None:
        names = [BASE, *(cell.name for cell in self.cells)]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"cells: expected distinct names, got {name} twice")


class CellJobs(msgspec.Struct, frozen=True, kw_only=True):
    """A cell with the jobs that its figures need."""

    cell: Cell
    unchanged: bool
    """Whether the world already has these values: then the base's jobs are its jobs."""
    world_hash: str
    jobs: list[Job]


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over the scenarios, means over the seeds."""

    p0_minutes: float
    objective: float
    node_hours: float


class CellFigures(msgspec.Struct, frozen=True, kw_only=True):
    """A controller over the reference in one cell, with intervals over scenarios and seeds."""

    cell: str
    controller: str
    p0_ratio: Interval
    objective_ratio: Interval
    node_hours_ratio: Interval
    behind: bool
    """Whether J is above the reference's."""
    ours: Totals
    theirs: Totals


def load_cells(file: Path | None = None) -> tuple[Cell, ...]:
    """Read and check a table of cells; the shipped one when none is given."""
    return yamlfile.load(file or CELLS, CellTable).cells


def choose_cells(names: str | None) -> tuple[Cell, ...]:
    """The cells of these names, separated by commas, in the order of the table; None is all.

    The base comes first, whatever was chosen: a ratio alone does not say what a change did.
    """
    cells = {cell.name: cell for cell in load_cells()}
    base = Cell(name=BASE, changes={}, source="The physics as given.")
    if names is None:
        return (base, *cells.values())
    chosen = {name.strip() for name in names.split(",") if name.strip()}
    if not chosen:
        raise InputError(f"cells: expected at least one name, got {names!r}")
    for name in sorted(chosen - {BASE, *cells}):
        hint = did_you_mean(name, cells)
        raise InputError(f"cells: {name}: {hint}expected one of {', '.join((BASE, *cells))}")
    return (base, *(cell for name, cell in cells.items() if name in chosen))


def jobs_of_cell(cell: Cell, request: Request, code: dict[str, str]) -> CellJobs:
    """All jobs of a cell. Those of an unchanged world are the same as the base's."""
    changed = request._replace(cluster=cell.applied_to(request.cluster))
    unchanged = changed.cluster == request.cluster
    worlds = world_hashes(changed)
    jobs = jobs_of(changed, worlds, code)
    if not unchanged:
        # Nothing plots a timeline of a changed world.
        jobs = [job._replace(variant=cell.name, recorded=False) for job in jobs]
    return CellJobs(
        cell=cell,
        unchanged=unchanged,
        world_hash=combined(f"{name} {h}" for name, by in worlds.items() for h in by.values()),
        jobs=jobs,
    )


def cell_figures(cell: Cell, rows: Sequence[Result], request: Request) -> list[CellFigures]:
    """Each controller over the reference, from the rows of one cell."""
    return [
        _figures(cell, rows, request, name)
        for name in request.controllers
        if name != request.reference
    ]


def _figures(cell: Cell, rows: Sequence[Result], request: Request, name: str) -> CellFigures:
    figures = (P0, OBJECTIVE, NODE_HOURS)
    ours = [cube(rows, request, name, figure) for figure in figures]
    theirs = [cube(rows, request, request.reference, figure) for figure in figures]
    p0, objective, node_hours = (
        ratio_over_scenarios(mine, reference) for mine, reference in zip(ours, theirs, strict=True)
    )
    return CellFigures(
        cell=cell.name,
        controller=name,
        p0_ratio=p0,
        objective_ratio=objective,
        node_hours_ratio=node_hours,
        behind=objective.value > 1,
        ours=_totals(*ours),
        theirs=_totals(*theirs),
    )


def _totals(p0: F64, objective: F64, node_hours: F64) -> Totals:
    # [scenarios, seeds]
    return Totals(
        p0_minutes=float(p0.sum(axis=0).mean()),
        objective=float(objective.sum(axis=0).mean()),
        node_hours=float(node_hours.sum(axis=0).mean()),
    )
