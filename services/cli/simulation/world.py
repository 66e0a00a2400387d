"""`hirl world`: look at the simulated cluster itself, without running a controller in it."""

from typing import Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from models.cluster.description import (
    MARKETS,
    PRIORITIES,
    Cluster,
    Market,
    Markets,
    Prices,
    load_cluster,
)
from models.sim.config.physics import SimCluster, load_sim_cluster
from services.cli.forecast import months
from services.cli.options import ClusterOption, JsonOption, PhysicsOption
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
    "[bold]hirl world show --cluster my.yaml --physics my-physics.yaml --json cluster.json[/bold]"
)
def show(
    cluster: ClusterOption = None, physics: PhysicsOption = None, json: JsonOption = None
) -> None:
    """Check a cluster description and print it as it was understood.

    A cluster file without physics is a real cluster: only what services read is shown.
    """
    described = (
        load_cluster(cluster)
        if cluster is not None and physics is None
        else load_sim_cluster(cluster, physics)
    )
    console = Console()
    console.print(_headline(described), highlight=False)
    for part in (_domains, _placement, _calls, _pools, _machines):
        console.print(part(described))
    if json is not None:
        write_json(json, _payload(described))


def _headline(cluster: Cluster) -> str:
    weights = ", ".join(f"{name} {cluster.priority_weights[name]:g}" for name in PRIORITIES)
    size = f"{len(cluster.domains)} domains"
    if isinstance(cluster, SimCluster):
        size = (
            f"{cluster.apps:,} apps in {size}, "
            f"{cluster.physics.population.pods_at_peak:,} pods at peak, "
            f"zones {', '.join(cluster.physics.zones)}"
        )
    return (
        f"[bold]{cluster.name}[/bold]: {size}; a tick is {cluster.tick_seconds} s; "
        f"spend cap {cluster.spend_cap_per_hour:,g} per hour; "
        f"a violated app-minute weighs {weights}"
    )


def _domains(cluster: Cluster) -> Table:
    columns: dict[str, list[Cell]] = {
        "domain": [domain.name for domain in cluster.domains],
        "priority": [domain.priority for domain in cluster.domains],
        "floor": [f"{domain.floor_share:.0%}" for domain in cluster.domains],
        "SLO": [domain.slo.kind for domain in cluster.domains],
        "target": [domain.slo.latency_target_ms for domain in cluster.domains],
    }
    if isinstance(cluster, SimCluster):
        physics = cluster.domain_physics
        columns |= {
            "timeout": [domain.timeout_ms for domain in physics],
            "apps": [domain.apps for domain in physics],
            "pods": [f"{domain.pod_share:.0%}" for domain in physics],
            "retries": ["yes" if domain.retryable else "no" for domain in physics],
        }
    return _by_columns("Domains: shares of capacity and pods, times in ms", columns)


def _placement(cluster: Cluster) -> Table:
    rows = [
        (domain.name, " > ".join(domain.tiers), " > ".join(domain.pools))
        for domain in cluster.domains
    ]
    return table(
        "Tiers in call order, pools in order of preference", ("domain", "tiers", "pools"), rows
    )


def _calls(cluster: Cluster) -> Table:
    columns: dict[str, list[Cell]] = {
        "caller": [call.caller for call in cluster.calls],
        "callee": [call.callee for call in cluster.calls],
        "calls per request": [call.calls_per_request for call in cluster.calls],
    }
    if isinstance(cluster, SimCluster):
        columns["guard"] = [cluster.guard_of(call) for call in cluster.calls]
    return _by_columns("Inline calls", columns)


def _pools(cluster: Cluster) -> Table:
    columns: dict[str, list[Cell]] = {
        "pool": [pool.name for pool in cluster.pools],
        "machine": [pool.machine for pool in cluster.pools],
    }
    if isinstance(cluster, SimCluster):
        columns |= {
            "headroom": [f"{pool.headroom:.0%}" for pool in cluster.pool_physics],
            "quota": [f"x {pool.max_nodes:g}" for pool in cluster.pool_physics],
        }
    for market in MARKETS:
        columns[market] = [f"{_of(market, pool.markets):.0%}" for pool in cluster.pools]
    columns["node-hour"] = [*_mean_prices(cluster)]
    return _by_columns("Pools: quota over nodes at the peak, mean price of a node-hour", columns)


def _by_columns(title: str, columns: dict[str, list[Cell]]) -> Table:
    return table(title, tuple(columns), list(zip(*columns.values(), strict=True)))


def _machines(cluster: Cluster) -> Table:
    columns = ("machine", "cores", "GiB", "max pods", *MARKETS)
    rows: list[tuple[Cell, ...]] = [
        (
            machine.name,
            machine.cpu_cores - machine.reserved_cpu_cores,
            machine.memory_gib - machine.reserved_memory_gib,
            machine.max_pods,
            *(machine.price_per_hour * _of(market, cluster.prices) for market in MARKETS),
        )
        for machine in cluster.machines
    ]
    return table("Machines: what is allocatable, price per hour in each market", columns, rows)


def _of(market: Market, values: Markets | Prices) -> float:
    return float(getattr(values, market))


def _mean_prices(cluster: Cluster) -> list[float]:
    """Price of an average node-hour of each pool, by how its nodes are bought."""
    return [
        cluster.machine_of(pool).price_per_hour
        * sum(_of(market, pool.markets) * _of(market, cluster.prices) for market in MARKETS)
        for pool in cluster.pools
    ]


def _payload(cluster: Cluster) -> dict[str, Any]:
    """The whole file with every default filled in, and what was derived from it."""
    prices = dict(zip(cluster.pool_names, _mean_prices(cluster), strict=True))
    apps = {"apps": cluster.apps} if isinstance(cluster, SimCluster) else {}
    return {
        "cluster": msgspec.to_builtins(cluster),
        **apps,
        "mean_price_per_node_hour": prices,
    }
