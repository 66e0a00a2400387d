"""`hirl world generate`: a random cluster, to try controllers on others than the example."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
import yaml

from models.cluster.description import Cluster
from models.inputs.errors import InputError
from models.sim.config.physics import SimCluster, load_sim_cluster
from models.sim.config.topologies import FEWEST_DOMAINS, MOST_DOMAINS, generate_topology
from services.cli.commands import examples
from services.cli.options import SeedOption, writable_folder
from services.cli.output import plain_console, write_file

CLUSTER_FILE, PHYSICS_FILE = "cluster.yaml", "physics.yaml"

DomainsOption = Annotated[
    int | None,
    typer.Option(
        "--domains",
        metavar="N",
        min=FEWEST_DOMAINS,
        max=MOST_DOMAINS,
        help=f"Number of domains; drawn from {FEWEST_DOMAINS} to {MOST_DOMAINS} by default.",
    ),
]
AppsOption = Annotated[
    int | None,
    typer.Option("--apps", metavar="N", min=1, help="Number of apps; drawn by default."),
]
OutOption = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="DIR",
        callback=writable_folder,
        help=f"Folder for {CLUSTER_FILE} and {PHYSICS_FILE}.",
    ),
]


@examples("hirl world generate --seed 7 --out .hirl/seven")
def generate(
    out: OutOption, seed: SeedOption = 0, domains: DomainsOption = None, apps: AppsOption = None
) -> None:
    """Write a random cluster with its physics: domains, priorities, own and shared pools.

    The same seed and numbers give the same files. Every command with --cluster and --physics takes
    them; the shipped scenarios hit the domains whose priority the example's have.
    """
    cluster = generate_topology(seed, domains, apps)
    if cluster.apps < len(cluster.domains):
        raise InputError(f"apps: expected at least {len(cluster.domains)}, one per domain")
    for name, part in ((CLUSTER_FILE, _description(cluster)), (PHYSICS_FILE, cluster.physics)):
        values = msgspec.to_builtins(part)
        text = yaml.safe_dump(values, sort_keys=False, default_flow_style=None, width=100)
        write_file(out / name, text.encode())
    # Read again, so that what was written is known to be valid.
    read = load_sim_cluster(out / CLUSTER_FILE, out / PHYSICS_FILE)
    plain_console().print(
        f"{len(read.domains)} domains, {len(read.pools)} pools, {read.apps:,} apps: "
        f"--cluster {out / CLUSTER_FILE} --physics {out / PHYSICS_FILE}"
    )


def _description(cluster: SimCluster) -> dict[str, Any]:
    """What the product reads: the cluster without its physics."""
    return {name: getattr(cluster, name) for name in Cluster.__struct_fields__}
