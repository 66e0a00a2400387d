"""`hirl world failures`: the three failure modes under a controller, with their figures."""

from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from models.compare.catalogue import entrant_of
from models.compare.failure_modes import Figures, PerSeed, measure
from models.sim.config.physics import load_sim_cluster
from services.cli.commands import examples
from services.cli.named_options import ControllerOption
from services.cli.options import ClusterOption, JsonOption, PhysicsOption
from services.cli.output import progress, table, write_json

SeedsOption = Annotated[
    int, typer.Option("--seeds", metavar="N", min=1, help="Seeds 0 to N-1, side by side.")
]


@examples(
    "hirl world failures",
    "hirl world failures --seeds 10 --json failures.json",
)
def failures(
    controller: ControllerOption = "hpa",
    seeds: SeedsOption = 6,
    cluster: ClusterOption = None,
    physics: PhysicsOption = None,
    json: JsonOption = None,
) -> None:
    """Measure stampede, cascade and priority inversion under a controller."""
    entrant_of(controller)
    described = load_sim_cluster(cluster, physics)
    console = Console()
    with progress("stampede, cascade with and without its spike, inversion, calm", 5) as advance:
        found = measure(described, controller, range(seeds), advance)
    console.print(_table(found))
    if json is not None:
        write_json(json, found)


def _table(found: Figures) -> Table:
    rows = [
        # Expected figures: what the world is calibrated to under HPA (docs/concepts).
        _row("stampede: need to ready, p95, s", found.stampede_s, "180 to 240"),
        _row("cascade: need to ready, p95, s", found.cascade_s, "240 to 480"),
        _row("cascade: bystander violation minutes an hour", found.bystander_minutes, ""),
        _row("calm: the same apps' violation minutes an hour", found.calm_minutes, ""),
        _ratio("cascade over calm, bystanders", found.bystander_minutes, found.calm_minutes),
        _row(f"the same, {found.unrelated_apps} unrelated apps", found.unrelated_minutes, ""),
        _row("calm: unrelated apps", found.unrelated_calm_minutes, ""),
        _ratio(
            "cascade over calm, unrelated", found.unrelated_minutes, found.unrelated_calm_minutes
        ),
        _row(
            "inversion: P3's share of the cluster while P0 waits, %",
            _percent(found.p3_share_while_p0_waits),
            "about 18",
        ),
        _row(
            "inversion: P3's share of the pools P0 waits for, %",
            _percent(found.p3_share_of_p0_pools_while_p0_waits),
            "",
        ),
        _row("inversion: ticks in which P0 waits", found.p0_wait_ticks, "above 0"),
    ]
    title = f"{found.controller}, seeds 0 to {found.seeds - 1}, {found.bystander_apps} bystanders"
    return table(title, ("failure", "mean", "over seeds", "expected"), rows)


def _row(label: str, values: PerSeed, expected: str) -> tuple[str, str, str, str]:
    return label, f"{np.mean(values):.1f}", f"{min(values):.1f} to {max(values):.1f}", expected


def _ratio(label: str, spike: PerSeed, calm: PerSeed) -> tuple[str, str, str, str]:
    return label, f"{np.mean(spike) / max(1e-9, float(np.mean(calm))):.1f}", "", "at least 5"


def _percent(shares: PerSeed) -> PerSeed:
    return [100 * share for share in shares]
