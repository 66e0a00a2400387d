"""`hirl bench override`: how long an operator's stopping order takes on a real Kafka."""

from typing import Annotated, Any

import typer
from rich.console import Console

from services.cli.benchmarks.on_kafka import SCENARIO, AppsOption, measurement_folder
from services.cli.commands import examples
from services.cli.options import ClusterOption, JsonOption, PhysicsOption
from services.cli.output import Cell, progress, table, write_json


@examples("hirl bench override --orders 100 --json .hirl/bench-override.json")
def override(
    orders: Annotated[
        int, typer.Option("--orders", min=10, metavar="N", help="Orders to measure.")
    ] = 100,
    apps: AppsOption = 155,
    speed: Annotated[float, typer.Option("--speed", metavar="X", help="Times real time.")] = 1.0,
    cluster: ClusterOption = None,
    physics: PhysicsOption = None,
    json: JsonOption = None,
) -> None:
    """Time from an operator's pause to the first plan that it holds, a process per service.

    Most of it is the wait for the next tick. In real time, 100 orders take about five minutes.
    """
    # Kafka's clients are slow to import, and help texts need none.
    from services.devcluster.request import Request  # noqa: PLC0415
    from services.measure import overrides  # noqa: PLC0415

    console = Console(emoji=False, highlight=False)
    request = Request(scenario=SCENARIO, apps=apps, speed=speed, cluster=cluster, physics=physics)
    request.check()
    with measurement_folder("override", console) as folder:
        with progress(f"{orders} orders, {request.pace}", 1, console):
            measured = overrides.measure(request, orders, folder)
        payload = {"apps": apps, "scenario": SCENARIO, "speed": speed, **measured}
        show(console, payload)
        if json is not None:
            write_json(json, payload)


def show(console: Console, payload: dict[str, Any]) -> None:
    """Print the table, and what an order missed."""
    rows: list[tuple[Cell, ...]] = [
        (what, one["p50"], one["p99"], one["max"])
        for what, one in (
            ("order to first held plan", payload["order_to_held_ms"]),
            ("of it, from that plan on", payload["plan_to_held_ms"]),
        )
    ]
    console.print(table("A pause, ms by the broker's clock", ("", "p50", "p99", "max"), rows))
    console.print(
        f"{payload['orders']} orders; {payload['missed_plans']} plans came after an order and were "
        f"not held by it, at most {payload['longest_missed_ms']:,.0f} ms after; "
        f"load of the machine {payload['load'][0]:.1f} to {payload['load'][1]:.1f}"
    )
