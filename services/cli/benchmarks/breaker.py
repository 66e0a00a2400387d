"""`hirl bench breaker`: how soon breakers trip, and what they cost and save."""

from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from models.cluster.description import PRIORITIES
from models.compare.breaker_cost import (
    BAD_FORECASTS,
    CONTROLLER,
    FAULTY,
    BreakerRow,
    measure_breakers,
)
from models.compare.request import Options, request_of
from models.control.breaker.limits import Thresholds
from models.control.breaker.trip_times import trip_times
from services.cli.commands import examples
from services.cli.options import ClusterOption, JsonOption, PhysicsOption
from services.cli.output import Cell, progress, table, write_json

_FAULT_SCENARIO = "calm"
_FORECAST_SCENARIOS = ("calm", "flash-sale-on-time", "cascade")
"""A quiet day, one where the forecast is right, and one where nothing announces what happens."""

ScenariosOption = Annotated[
    str | None,
    typer.Option(
        "--scenarios", metavar="S,T", help="Names or paths of files; all that ship by default."
    ),
]
SeedsOption = Annotated[
    str, typer.Option("--seeds", metavar="20-24", help="Such as 0-9, 3 or 0,2,5.")
]
AppsOption = Annotated[int, typer.Option("--apps", min=20, metavar="N", help="Apps in a world.")]


@examples("hirl bench breaker --scenarios calm,retry-storm --seeds 20-24")
def breaker(
    scenarios: ScenariosOption = None,
    seeds: SeedsOption = "20-24",
    apps: AppsOption = 155,
    cluster: ClusterOption = None,
    physics: PhysicsOption = None,
    json: JsonOption = None,
) -> None:
    """Time to trip by priority, trips in scenarios, and J with and without breakers.

    Rows after those of the scenarios have a fault. A faulty controller takes replicas from P0 for
    15 minutes, whatever they need. Forecasts become constant (three times the traffic, or frozen),
    lose their numbers or turn upside down; there "without" means breakers that do not fall back.
    """
    console = Console()
    times = trip_times(Thresholds())
    request = request_of(
        Options(scenarios=scenarios, seeds=seeds, apps=apps, cluster=cluster, physics=physics)
    )
    runs = [(CONTROLLER, scenario) for scenario in request.scenarios]
    runs += [(FAULTY, one) for one in request.scenarios if one.name == _FAULT_SCENARIO]
    runs += [
        (wrong, one)
        for one in request.scenarios
        if one.name in _FORECAST_SCENARIOS
        for wrong in BAD_FORECASTS
    ]
    rows = []
    for controller, scenario in runs:
        ticks = scenario.timeline(request.cluster.tick_seconds).total_ticks
        with progress(f"{controller}, {scenario.name}", 2 * ticks, console) as advance:
            rows.append(
                measure_breakers(
                    controller, request.cluster, scenario, request.seeds, lambda: advance(1)
                )
            )
    tick_s = request.cluster.tick_seconds
    seconds = {cause.label: [tick_s * one for one in by] for cause, by in times.items()}
    _print(console, seconds, rows)
    if json is not None:
        write_json(json, {"trip_times_s": seconds, "rows": msgspec.to_builtins(rows)})


def _print(console: Console, seconds: dict[str, list[int]], rows: list[BreakerRow]) -> None:
    cells: list[tuple[Cell, ...]] = [(name, *values) for name, values in seconds.items()]
    console.print(table("Seconds to trip, all apps affected", ("cause", *PRIORITIES), cells))
    columns = (
        "scenario", "controller", "J", "J without", "change", "median", "better", "worse",
        "P0 min", "without", "trips",
    )  # fmt: skip
    figures: list[tuple[Cell, ...]] = [
        (
            row.scenario,
            row.controller,
            row.objective,
            row.objective_without,
            f"{row.change:+.2%}",
            f"{row.median_change:+.2%}",
            row.better,
            row.worse,
            row.p0_minutes,
            row.p0_minutes_without,
            _trips(row),
        )
        for row in rows
    ]
    console.print(table("With and without breakers", columns, figures))
    for row in rows:
        if row.first_trip_s is not None:
            back = "not" if row.rollback_s is None else f"{row.rollback_s:.0f} s later"
            console.print(
                f"{row.controller}: first trip {row.first_trip_s:.0f} s after the fault, "
                f"replicas back {back}",
                highlight=False,
            )
        if row.fallback_s:
            times = ", ".join(f"{name} {one:.0f} s" for name, one in row.fallback_s.items())
            console.print(
                f"{row.scenario}, {row.controller}: fell back after {times}", highlight=False
            )


def _trips(row: BreakerRow) -> Any:
    return ", ".join(f"{name} {count}" for name, count in row.trips.items()) or "none"
