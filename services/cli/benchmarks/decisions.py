"""`hirl bench decisions`: how long a controller thinks, by size of the cluster."""

import statistics
import time
from typing import Annotated, Any

import typer
from rich.console import Console

from models.compare.catalogue import Contest, enter
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import load_scenario
from services.cli.options import JsonOption
from services.cli.output import Cell, progress, table, write_json

EXAMPLE = "Example: [bold]hirl bench decisions --controllers hpa,heuristic:calendar[/bold]"
SIZES = (155, 1550, 15500)
_SCENARIO = "flash-sale-20-min-early"
_WARM_UP_MINUTES = 2

ControllersOption = Annotated[
    str, typer.Option("--controllers", metavar="A,B", help="Names as in hirl bench control.")
]
MinutesOption = Annotated[
    int, typer.Option("--minutes", min=1, metavar="N", help="Simulated minutes measured.")
]


def decisions(
    controllers: ControllersOption = "hpa,heuristic:calendar",
    minutes: MinutesOption = 10,
    json: JsonOption = None,
) -> None:
    """Time per decision of one environment: of a minute's first tick and of the others.

    For ours the first tick of a minute is the Commander's, with all features encoded, the others
    are the Soldiers' alone; observing and the world itself are not counted.
    """
    console, rows = Console(), []
    for size in SIZES:
        for name in controllers.split(","):
            with progress(f"{name}, {size:,} apps", minutes, console) as advance:
                rows.append(_measure(name, size, minutes))
                advance(minutes)
    _print(console, rows)
    if json is not None:
        write_json(json, {"scenario": _SCENARIO, "rows": rows})


def _measure(name: str, apps: int, minutes: int) -> dict[str, Any]:
    cluster = with_apps(load_sim_cluster(), apps)
    contest = enter(name, cluster, load_scenario(_SCENARIO, cluster), [0])
    first, others = _times(contest, minutes, 60 // cluster.tick_seconds)
    return {
        "controller": name,
        "apps": apps,
        "minute_ms": 1e3 * statistics.median(first),
        "tick_ms": 1e3 * statistics.median(others),
        "ns_per_app_and_tick": 1e9 * statistics.median(others) / apps,
        "share_of_minute": (sum(first) + sum(others)) / (60 * minutes),
    }


def _times(contest: Contest, minutes: int, per_minute: int) -> tuple[list[float], list[float]]:
    """Seconds of the decisions at the beginning of each minute, and of the others."""
    world, controller, forecaster = contest
    seen = world.observe(controller.pipeline)
    state = controller.start(seen)
    foreseen = forecaster.start(seen) if forecaster is not None else None
    first: list[float] = []
    others: list[float] = []
    for tick in range((_WARM_UP_MINUTES + minutes) * per_minute):
        seen, forecast = world.observe(controller.pipeline), None
        if forecaster is not None:
            forecast, foreseen = forecaster.step(seen, foreseen)
        began = time.perf_counter()
        plan, state = controller.step(seen, forecast, state)
        spent = time.perf_counter() - began
        if tick >= _WARM_UP_MINUTES * per_minute:
            (first if tick % per_minute == 0 else others).append(spent)
        world.step(plan)
    return first, others


def _print(console: Console, rows: list[dict[str, Any]]) -> None:
    cells: list[tuple[Cell, ...]] = [
        (
            row["controller"],
            row["apps"],
            row["minute_ms"],
            row["tick_ms"],
            row["ns_per_app_and_tick"],
            f"{row['share_of_minute']:.3%}",
        )
        for row in rows
    ]
    columns = (
        "controller",
        "apps",
        "ms, minute begins",
        "ms, other ticks",
        "ns per app",
        "of time",
    )
    console.print(table("Time per decision", columns, cells))
