"""`hirl world`: look at the simulated cluster itself, without running a controller in it."""

from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from models.cluster.description import MARKETS, PRIORITIES, Market, Markets, Prices
from models.sim.describe.physics import SimCluster, load_sim_cluster
from services.cli.forecast import months
from services.cli.options import ClusterOption, JsonOption
from services.cli.output import Cell, table, write_json
from services.cli.simulation import failures, fit
from services.cli.simulation import validate as validation

app = typer.Typer(no_args_is_help=True, help="Look at the simulated cluster itself.")
app.command(epilog=failures.EXAMPLES)(failures.failures)
app.command(epilog=fit.EXAMPLES)(fit.fit)
app.command("months", epilog=months.EXAMPLES)(months.months_command)
app.command(epilog=validation.EXAMPLES)(validation.validate)


@app.command(
    epilog="Examples: [bold]hirl world show[/bold], "
    "[bold]hirl world show --cluster my.yaml --json cluster.json[/bold]"
)
def show(cluster: ClusterOption = None, json: JsonOption = None) -> None:
    """Check a cluster description and print it as it was understood."""
    world = load_sim_cluster(cluster)
    console = Console()
    console.print(_headline(world), highlight=False)
    for part in (_domains, _placement, _calls, _pools, _machines):
        console.print(part(world))
    if json is not None:
        write_json(json, _payload(world))


def _headline(world: SimCluster) -> str:
    weights = ", ".join(f"{name} {world.priority_weights[name]:g}" for name in PRIORITIES)
    return (
        f"[bold]{world.name}[/bold]: {world.apps:,} apps in {len(world.domains)} domains, "
        f"{world.physics.population.pods_at_peak:,} pods at peak, "
        f"zones {', '.join(world.physics.zones)}; a tick is {world.tick_seconds} s; "
        f"spend cap {world.spend_cap_per_hour:,g} per hour; "
        f"a violated app-minute weighs {weights}"
    )


def _domains(world: SimCluster) -> Table:
    columns = (
        "domain", "priority", "apps", "pods", "floor",
        "SLO", "target", "timeout", "retries",
    )  # fmt: skip
    rows = [
        (
            domain.name,
            domain.priority,
            physics.apps,
            f"{physics.pod_share:.0%}",
            f"{domain.floor_share:.0%}",
            domain.slo.kind,
            domain.slo.latency_target_ms,
            physics.timeout_ms,
            "yes" if physics.retryable else "no",
        )
        for domain, physics in zip(world.domains, world.domain_physics, strict=True)
    ]
    return table("Domains: shares of pods and capacity, times in ms", columns, rows)


def _placement(world: SimCluster) -> Table:
    rows = [
        (domain.name, " > ".join(domain.tiers), " > ".join(domain.pools))
        for domain in world.domains
    ]
    return table(
        "Tiers in call order, pools in order of preference", ("domain", "tiers", "pools"), rows
    )


def _calls(world: SimCluster) -> Table:
    rows = [
        (call.caller, call.callee, call.calls_per_request, world.guard_of(call))
        for call in world.calls
    ]
    return table("Inline calls", ("caller", "callee", "calls per request", "guard"), rows)


def _pools(world: SimCluster) -> Table:
    columns = ("pool", "machine", "headroom", "quota", *MARKETS, "node-hour")
    rows: list[tuple[Cell, ...]] = [
        (
            pool.name,
            pool.machine,
            f"{physics.headroom:.0%}",
            f"x {physics.max_nodes:g}",
            *(f"{_of(market, pool.markets):.0%}" for market in MARKETS),
            price,
        )
        for pool, physics, price in zip(
            world.pools, world.pool_physics, _mean_prices(world), strict=True
        )
    ]
    return table("Pools: quota over nodes at the peak, mean price of a node-hour", columns, rows)


def _machines(world: SimCluster) -> Table:
    columns = ("machine", "cores", "GiB", "max pods", *MARKETS)
    rows: list[tuple[Cell, ...]] = [
        (
            machine.name,
            machine.cpu_cores - machine.reserved_cpu_cores,
            machine.memory_gib - machine.reserved_memory_gib,
            machine.max_pods,
            *(machine.price_per_hour * _of(market, world.prices) for market in MARKETS),
        )
        for machine in world.machines
    ]
    return table("Machines: what is allocatable, price per hour in each market", columns, rows)


def _of(market: Market, values: Markets | Prices) -> float:
    return float(getattr(values, market))


def _mean_prices(world: SimCluster) -> list[float]:
    """Price of an average node-hour of each pool, by how its nodes are bought."""
    return [
        world.machine_of(pool).price_per_hour
        * sum(_of(market, pool.markets) * _of(market, world.prices) for market in MARKETS)
        for pool in world.pools
    ]


def _payload(world: SimCluster) -> dict[str, Any]:
    """The whole file with every default filled in, and what was derived from it."""
    prices = dict(zip(world.pool_names, _mean_prices(world), strict=True))
    return {
        "cluster": msgspec.to_builtins(world),
        "apps": world.apps,
        "mean_price_per_node_hour": prices,
    }
