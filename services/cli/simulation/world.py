"""`hirl world show` and `hirl world fit`: the simulated cluster, and the fit of its apps."""

from pathlib import Path
from typing import Annotated, Any

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
from models.sim.population.fitted import FITTED
from services.cli.commands import examples
from services.cli.options import (
    ClusterOption,
    JsonOption,
    PhysicsOption,
    tables_folder,
    writable_file,
)
from services.cli.output import Cell, table, write_json, writing

TracesOption = Annotated[
    Path,
    typer.Option(
        "--traces",
        metavar="DIR",
        callback=tables_folder,
        help="Folder with the tables, in sim/ and dev/.",
    ),
]
OutOption = Annotated[
    Path,
    typer.Option(
        "--out", metavar="FILE", callback=writable_file, help="Where to write the parameters."
    ),
]


@examples(
    "hirl world show",
    "hirl world show --cluster my.yaml --physics my-physics.yaml --json cluster.json",
)
def show(
    cluster: ClusterOption = None, physics: PhysicsOption = None, json: JsonOption = None
) -> None:
    """Check a cluster description and print it as it was understood.

    A cluster file without physics is a real cluster: only what services read is shown.
    """
    described = (
        # Not with the example's physics: they would describe another cluster.
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


@examples("hirl world fit --traces DIR")
def fit(traces: TracesOption, out: OutOption = FITTED) -> None:
    """Fit sizes, service times, profiles, noise and calls, and write them with provenance."""
    # Imported here: only fitting needs pyarrow and scipy.
    from models.sim.population import fit as fitting  # noqa: PLC0415

    console = Console()
    with console.status("fitting"):
        fitted = fitting.fit(traces)
    with writing(out):
        fitting.write(fitted, out)
    console.print(f"written: {out}", highlight=False, soft_wrap=True)


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
    # Markets differ in price, so a pool has a mean price by its shares.
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
    return table("Machines: allocatable resources, price per hour in each market", columns, rows)


def _of(market: Market, values: Markets | Prices) -> float:
    return float(getattr(values, market))


def _mean_prices(cluster: Cluster) -> list[float]:
    """Mean price of a node-hour of each pool over its markets."""
    return [
        cluster.machine_of(pool).price_per_hour
        * sum(_of(market, pool.markets) * _of(market, cluster.prices) for market in MARKETS)
        for pool in cluster.pools
    ]


def _payload(cluster: Cluster) -> dict[str, Any]:
    """The description with all defaults filled in, and derived figures."""
    prices = dict(zip(cluster.pool_names, _mean_prices(cluster), strict=True))
    apps = {"apps": cluster.apps} if isinstance(cluster, SimCluster) else {}
    return {
        "cluster": msgspec.to_builtins(cluster),
        **apps,
        "mean_price_per_node_hour": prices,
    }
