"""`hirl bench sim` and `hirl bench decisions`: speed of the simulator and of controllers."""

from typing import Annotated, Any

import typer
from rich.console import Console

from models.compare.speed import (
    BLOCK,
    DECISION_SCENARIO,
    SIZES,
    WARM_UP,
    measure_decisions,
    measure_rates,
    measure_simulator,
)
from models.sim.config.physics import load_sim_cluster
from models.sim.world import World
from services.cli.commands import examples
from services.cli.options import ClusterOption, JsonOption, PhysicsOption
from services.cli.output import Cell, progress, table, write_json

EnvsOption = Annotated[
    int, typer.Option("--envs", min=1, metavar="N", help="Environments side by side.")
]
AppsOption = Annotated[int, typer.Option("--apps", min=20, metavar="N", help="Apps in each.")]
TicksOption = Annotated[
    int, typer.Option("--ticks", min=BLOCK, metavar="N", help="Ticks measured of each size.")
]
ControllersOption = Annotated[
    str, typer.Option("--controllers", metavar="A,B", help="Names as in hirl bench control.")
]
MinutesOption = Annotated[
    int, typer.Option("--minutes", min=1, metavar="N", help="Simulated minutes measured.")
]


@examples("hirl bench sim --envs 64 --apps 1550 --json bench.json")
def sim(
    envs: EnvsOption = 64,
    apps: AppsOption = 1550,
    ticks: TicksOption = 300,
    cluster: ClusterOption = None,
    physics: PhysicsOption = None,
    json: JsonOption = None,
) -> None:
    """Environment-ticks per second on one core, every mechanism on, an HPA per app included.

    Headline, stages and sizes are of a calm day with its deploys, crashes, drains and reclaims.
    Beside them is an hour with an event of every kind, stampede and zone loss included. Larger
    clusters run in fewer environments, so that memory stays the same, and the cluster itself also
    in as many as a job of a comparison has, of which the cache holds more. The first run compiles
    the kernels, which takes minutes.
    """
    console = Console()

    def measure(world: World, ticks: int) -> list[float]:
        # A progress bar per world: measuring knows nothing of terminals.
        label = f"{world.scenario.name}, {world.environments} x {world.given.apps.size:,} apps"
        with progress(label, ticks + WARM_UP, console) as advance:
            return measure_rates(world, ticks, advance)

    payload = measure_simulator(load_sim_cluster(cluster, physics), envs, apps, ticks, measure)
    _print_simulator(console, payload)
    if json is not None:
        write_json(json, payload)


@examples("hirl bench decisions --controllers hpa,heuristic:calendar")
def decisions(
    controllers: ControllersOption = "hpa,heuristic:calendar",
    minutes: MinutesOption = 10,
    cluster: ClusterOption = None,
    physics: PhysicsOption = None,
    json: JsonOption = None,
) -> None:
    """Time per decision of one environment: of a minute's first tick and of the others.

    In our controller the first tick of a minute is the Commander's, which encodes all features;
    the other ticks are the Soldiers'. Observing and simulating are not counted.
    """
    console, rows = Console(), []
    described = load_sim_cluster(cluster, physics)
    for size in SIZES:
        for name in controllers.split(","):
            with progress(f"{name}, {size:,} apps", minutes, console) as advance:
                rows.append(measure_decisions(described, name, size, minutes))
                advance(minutes)
    _print_decisions(console, rows)
    if json is not None:
        write_json(json, {"scenario": DECISION_SCENARIO, "rows": rows})


def _print_simulator(console: Console, payload: dict[str, Any]) -> None:
    stages: list[tuple[Cell, ...]] = [
        (row["stage"], row["what"], row["us_per_env_tick"], f"{row['share']:.1%}")
        for row in payload["stages"]
    ]
    title = "Cost of each mechanism"
    console.print(table(title, ("stage", "what", "us per env-tick", "share"), stages))
    sizes: list[tuple[Cell, ...]] = [
        (
            row["apps"],
            row["envs"],
            row["env_ticks_per_s"],
            1e9 / (row["env_ticks_per_s"] * row["apps"]),
        )
        for row in payload["by_apps"]
    ]
    columns = ("apps", "environments", "env-ticks/s", "ns per app and tick")
    console.print(table("By size", columns, sizes))
    console.print(
        f"[bold]{payload['env_ticks_per_s']:,.0f} env-ticks/s[/bold] with "
        f"{payload['envs']} x {payload['apps']:,} apps on one core, "
        f"{payload['busy_env_ticks_per_s']:,.0f} in the busy hour, "
        f"{payload['slowest_env_ticks_per_s']:,.0f} in its slowest block; "
        f"peak memory {payload['peak_rss_mb']:,.0f} MB; world {payload['world_hash']}",
        highlight=False,
    )


def _print_decisions(console: Console, rows: list[dict[str, Any]]) -> None:
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
        "controller", "apps", "ms, minute begins", "ms, other ticks", "ns per app", "of time",
    )  # fmt: skip
    console.print(table("Time per decision", columns, cells))
