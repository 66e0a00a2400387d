"""`hirl bench size`: one size of cluster over a real Kafka, its costs, states and restarts."""

from typing import Annotated, Any

import typer
from rich.console import Console

from services.cli.benchmarks.on_kafka import SCENARIO, AppsOption, measurement_folder
from services.cli.commands import examples
from services.cli.options import ClusterOption, JsonOption, PhysicsOption
from services.cli.output import Cell, progress, table, write_json

TicksOption = Annotated[
    int, typer.Option("--ticks", min=1, metavar="N", help="Ticks measured, after the warm-up.")
]


@examples("hirl bench size --apps 62000 --ticks 12 --json .hirl/bench-size.json")
def size(
    apps: AppsOption = 62_000,
    ticks: TicksOption = 12,
    cluster: ClusterOption = None,
    physics: PhysicsOption = None,
    json: JsonOption = None,
) -> None:
    """Time, CPU, memory and saved states of a tick in lock-step, and how long restarts take.

    For the restarts, services are killed one after the other. The next tick is the first one that
    began after the kill and is closed in every domain.
    """
    # Kafka's clients are slow to import, and help texts need none.
    from services.devcluster.request import Request  # noqa: PLC0415
    from services.measure.size import measure  # noqa: PLC0415

    console = Console(emoji=False, highlight=False)
    request = Request(scenario=SCENARIO, apps=apps, cluster=cluster, physics=physics)
    request.check()
    with measurement_folder("size", console) as folder:
        with progress(f"{apps:,} apps, {ticks} ticks", 1, console):
            payload = measure(request, ticks, folder)
        show(console, payload)
        if json is not None:
            write_json(json, payload)


def show(console: Console, payload: dict[str, Any]) -> None:
    """Print all tables, and the headline last."""
    costs: list[tuple[Cell, ...]] = [
        (name, cost.cpu_s_per_tick, cost.rss_mb) for name, cost in payload["services"].items()
    ]
    console.print(table("Each process", ("service", "CPU s per tick", "MB"), costs))
    states: list[tuple[Cell, ...]] = [
        (one.service, one.key, one.sent_bytes, one.parts, one.newest_bytes)
        for one in payload["states"]
    ]
    columns: tuple[str, ...] = ("service", "key", "bytes sent", "parts", "newest, not deflated")
    console.print(table("Largest saved state of each service", columns, states))
    restarts: list[tuple[Cell, ...]] = [
        (name, one.ready_s, one.ready_cpu_s, one.next_tick_s)
        for name, one in payload["restarts"].items()
    ]
    columns = ("service", "ready, s", "of it CPU, s", "next tick closed, s")
    console.print(table("After a kill", columns, restarts))
    tick, path = payload["tick_s"], payload["sample_to_applied_s"]
    cpu = sum(cost.cpu_s_per_tick for cost in payload["services"].values())
    load = payload["load"]
    console.print(
        f"[bold]{path['p50']:.1f} s p50, {path['p99']:.1f} s p99[/bold] from sample to change with "
        f"{payload['apps']:,} apps; a tick takes {tick['p50']:.1f} s (slowest {tick['max']:.1f}) "
        f"and {cpu:.1f} s of CPU; {payload['dead_letters']} dead letters; load of the machine "
        f"{load[0]:.1f} to {load[1]:.1f}"
    )
