"""`hirl kafka`: a real Kafka on this machine, for development, demonstrations and tests."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from models.inputs.errors import InputError
from services.cli.commands import examples
from services.cli.options import JsonOption, folder_of, writable_folder
from services.cli.output import plain_console, write_json
from services.devcluster.kafka import cluster, description
from services.devcluster.kafka.description import HOME, Description

BrokersOption = Annotated[
    int,
    typer.Option("--brokers", metavar="1|3", help="Brokers: 1, or 3 to survive the loss of one."),
]
SecureOption = Annotated[
    bool,
    typer.Option("--secure", help="TLS, a password per service, and no access without an ACL."),
]
PortOption = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="N",
        min=1024,
        max=65_000,
        help="Port of the first broker, others count up; free ports when not given.",
    ),
]
HomeOption = Annotated[
    Path,
    typer.Option(
        "--home",
        metavar="DIR",
        callback=folder_of,
        help="Folder of the cluster; one cluster per folder.",
    ),
]


@examples(
    "hirl kafka up --brokers 3 --secure",
)
def up(
    brokers: BrokersOption = 1,
    secure: SecureOption = False,
    port: PortOption = None,
    home: HomeOption = HOME,
) -> None:
    """Start Kafka and wait until it answers; a running one stays as it is."""
    # A quorum needs a majority: of two brokers neither could be lost.
    if brokers not in {1, 3}:
        raise InputError(f"--brokers: expected 1 or 3, got {brokers}")
    writable_folder(home)
    console = plain_console()
    # Asked before `start`, which leaves a running cluster as it is.
    was_running = cluster.running(home) is not None
    started = cluster.start(home, brokers=brokers, secure=secure, port=port, notify=console.print)
    _print(console, home, started, "was already running" if was_running else "runs")


@examples(
    "hirl kafka down --wipe",
)
def down(
    wipe: Annotated[
        bool, typer.Option("--wipe", help="Also remove records, users and certificates.")
    ] = False,
    home: HomeOption = HOME,
) -> None:
    """Stop the brokers that `up` started, and no other process."""
    # `stop` locks the folder, and would create a missing one.
    stopped = cluster.stop(writable_folder(home), wipe=wipe) if home.is_dir() else 0
    console = plain_console()
    console.print(f"stopped {stopped} broker(s)" if stopped else "no broker was running")
    if wipe:
        console.print(f"removed the data in {home}")


class Status(Description, frozen=True, kw_only=True):
    """The description and the number of running brokers; `status --json` writes it."""

    up: int


@examples(
    "hirl kafka status --json .hirl/kafka-status.json",
)
def status(json: JsonOption = None, home: HomeOption = HOME) -> None:
    """Show what runs; exit 1 unless all brokers do."""
    console = plain_console()
    described = description.read(home)
    if described is None:
        console.print("no cluster here: hirl kafka up starts one")
        raise typer.Exit(1)
    present = [node for node in described.nodes if cluster.is_up(home, node)]
    _print(console, home, described, f"{len(present)} of {len(described.nodes)} broker(s) up")
    if json is not None:
        # msgspec's `replace` keeps the type, so build the subclass from the fields.
        fields = {name: getattr(described, name) for name in described.__struct_fields__}
        write_json(json, Status(**fields, up=len(present)))
    if len(present) < len(described.nodes):
        raise typer.Exit(1)


def _print(console: Console, home: Path, described: Description, state: str) -> None:
    console.print(f"Apache Kafka {described.version} {state}")
    console.print(f"bootstrap   {described.bootstrap}")
    console.print(f"cluster id  {described.cluster_id}")
    console.print(f"security    {described.security}")
    if described.security == "sasl_ssl":
        console.print(f"credentials {home / 'credentials'}/SERVICE.env")
