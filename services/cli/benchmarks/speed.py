"""`hirl bench`: how fast the simulated cluster is, and how controllers compare."""

import resource
import statistics
import sys
import time
from typing import Annotated, Any

import typer
from rich.console import Console

from models.compare.busy_world import busy_world
from models.compare.drive import Driven
from models.compare.stages import describe, stage_seconds
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import load_scenario
from models.sim.world import World
from services.cli.benchmarks import decisions as bench_decisions
from services.cli.benchmarks import path as path_command
from services.cli.comparison import control as contest
from services.cli.forecast import bench as forecasting
from services.cli.forecast import published
from services.cli.options import JsonOption
from services.cli.output import Cell, progress, table, write_json

app = typer.Typer(no_args_is_help=True, help="Measure speed, and compare controllers.")
app.command(epilog=contest.EXAMPLES)(contest.control)
app.command(epilog=bench_decisions.EXAMPLE)(bench_decisions.decisions)
app.command(epilog=path_command.EXAMPLE)(path_command.path)
app.command(epilog=forecasting.EXAMPLES)(forecasting.forecast)
app.command(epilog=published.EXAMPLES)(published.published)

SIZES = (155, 1550, 15500)
_BLOCK = 15
"""Ticks per measurement; the median of the blocks is reported."""
_WARM_UP = 30
_STAGED_TICKS = 120

EnvsOption = Annotated[
    int, typer.Option("--envs", min=1, metavar="N", help="Environments side by side.")
]
AppsOption = Annotated[int, typer.Option("--apps", min=20, metavar="N", help="Apps in each.")]
TicksOption = Annotated[
    int, typer.Option("--ticks", min=_BLOCK, metavar="N", help="Ticks measured of each size.")
]


@app.command(epilog="Example: [bold]hirl bench sim --envs 64 --apps 1550 --json bench.json[/bold]")
def sim(
    envs: EnvsOption = 64,
    apps: AppsOption = 1550,
    ticks: TicksOption = 300,
    json: JsonOption = None,
) -> None:
    """Environment-ticks per second on one core, every mechanism on, an HPA per app included.

    Headline, stages and sizes are of a calm day, with its deploys, crashes, drains and
    reclaims; beside it stands an hour with an event of every kind, stampede and zone loss
    among them. The scheduler is the example cluster's. Larger clusters run in fewer
    environments, so that environments x apps and with it the memory stay the same. The first
    run compiles the kernels, which takes minutes.
    """
    console = Console()
    world, rates = _measured(_calm(apps, envs), ticks, console)
    _, busy = _measured(busy_world(with_apps(load_sim_cluster(), apps), envs), ticks, console)
    peak = peak_rss_mb()
    with progress("stages", 1, console):
        stages = _stages(Driven(_calm(apps, envs)), min(ticks, _STAGED_TICKS))
    others = []
    for size in SIZES:
        fewer = max(1, min(envs, envs * apps // size))
        same = size == apps
        rate = _median(rates if same else _measured(_calm(size, fewer), ticks, console)[1])
        others.append({"apps": size, "envs": fewer, "env_ticks_per_s": rate})
    payload = {
        "envs": envs,
        "apps": apps,
        "env_ticks_per_s": _median(rates),
        "busy_env_ticks_per_s": _median(busy),
        "slowest_env_ticks_per_s": min(busy),
        "peak_rss_mb": peak,
        "by_apps": others,
        "stages": stages,
        "world_hash": world.hash,
    }
    _print(console, payload)
    if json is not None:
        write_json(json, payload)


def _calm(apps: int, envs: int) -> World:
    cluster = with_apps(load_sim_cluster(), apps)
    return World(cluster, load_scenario("calm", cluster), list(range(envs)))


def _measured(world: World, ticks: int, console: Console) -> tuple[World, list[float]]:
    """Environment-ticks per second in each block of ticks after a warm-up."""
    envs, apps = world.environments, world.given.apps.size
    label = f"{world.scenario.name}, {envs} x {apps:,} apps"
    with progress(label, ticks + _WARM_UP, console) as advance:
        run = Driven(world)
        run.run(_WARM_UP)
        advance(_WARM_UP)
        rates = []
        for _ in range(ticks // _BLOCK):
            began = time.perf_counter()
            run.run(_BLOCK)
            rates.append(_BLOCK * envs / (time.perf_counter() - began))
            advance(_BLOCK)
    return run.world, rates


def _median(rates: list[float]) -> float:
    return float(statistics.median(rates))


def peak_rss_mb() -> float:
    """The most memory this process ever held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # macOS counts bytes, Linux KiB.
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def _stages(run: Driven, ticks: int) -> list[dict[str, Any]]:
    run.run(_WARM_UP)
    spent = stage_seconds(run, ticks)
    total, work = sum(spent.values()), ticks * run.world.environments
    return [
        {
            "stage": name,
            "what": describe(name),
            "us_per_env_tick": 1e6 * seconds / work,
            "share": seconds / total,
        }
        for name, seconds in spent.items()
    ]


def _print(console: Console, payload: dict[str, Any]) -> None:
    stages: list[tuple[Cell, ...]] = [
        (row["stage"], row["what"], row["us_per_env_tick"], f"{row['share']:.1%}")
        for row in payload["stages"]
    ]
    title = "What each mechanism costs"
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
        f"{payload['busy_env_ticks_per_s']:,.0f} while everything happens, "
        f"{payload['slowest_env_ticks_per_s']:,.0f} in the slowest block of that; "
        f"peak memory {payload['peak_rss_mb']:,.0f} MB; world {payload['world_hash']}",
        highlight=False,
    )
