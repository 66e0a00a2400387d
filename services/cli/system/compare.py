"""What others would have done in the same world, beside what the services did."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace
from rich.console import Console

from models.compare.jobs import Job
from models.compare.race import Lane
from services.cli.comparison.race_tables import READING, final_table
from services.cli.output import progress
from services.devcluster.request import Request
from services.simcluster.score import Results

_OURS: Final = "services"
"""Column of what ran on the bus."""


def compare(console: Console, request: Request, names: Sequence[str], results: Results) -> None:
    """Run the controllers in this process, in the same scenario and seed, and show all."""
    lanes = []
    with progress("the same world under others", len(names), console) as advance:
        for name in names:
            lanes.append(_played(request, name))
            advance(1)
    rows = [*(lane.result() for lane in lanes), replace(results.rows[0], controller=_OURS)]
    failures = [*(len(lane.findings()) for lane in lanes), len(results.failures)]
    console.print(final_table(f"{request.scenario}, seed {request.seed}", rows, failures))
    console.print(READING.format(reference=names[0]), soft_wrap=not console.is_terminal)


def _played(request: Request, name: str) -> Lane:
    cluster, scenario = request.described()
    lane = Lane(Job(name, cluster, scenario, (request.seed,), False, "", ""))
    while not lane.finished:
        lane.step()
    return lane
