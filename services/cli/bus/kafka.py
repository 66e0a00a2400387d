"""`hirl kafka`: a real Kafka on this machine, for development, demonstrations and tests."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from models.inputs.errors import InputError
from services.cli.options import JsonOption
from services.cli.output import write_json
from services.devcluster.kafka import cluster, description
from services.devcluster.kafka.description import HOME, Description

app = typer.Typer(
    no_args_is_help=True, help="A real Apache Kafka on this machine, under .hirl/kafka."
)

BrokersOption = Annotated[
    int,
    typer.Option("--brokers", metavar="1|3", help="Brokers: 1, or 3 to survive the loss of one."),
]
SecureOption = Annotated[
    bool,
    typer.Option(
        "--secure", help="TLS, a password per service, and nothing allowed without an ACL."
    ),
]
PortOption = Annotated[
    int | None,
    typer.Option(
        "--port",
        metavar="N",
        min=1024,
        max=65_000,
        help="Port of the first broker, the next ones follow; free ports when not given.",
    ),
]
HomeOption = Annotated[
    Path,
    typer.Option("--home", metavar="DIR", help="Where the cluster lives; one folder, one cluster."),
]


@app.command(epilog="Example: [bold]hirl kafka up --brokers 3 --secure[/bold]")
def up(
    brokers: BrokersOption = 1,
    secure: SecureOption = False,
    port: PortOption = None,
    home: HomeOption = HOME,
) -> None:
    """Start Kafka and wait until it answers; one that runs is left as it is."""
    if brokers not in {1, 3}:
        raise InputError(f"--brokers: expected 1 or 3, got {brokers}")
    console = _console()
    already = cluster.running(home)
    started = cluster.start(home, brokers=brokers, secure=secure, port=port, console=console)
    _print(console, home, started, "was already running" if already else "runs")


@app.command(epilog="Example: [bold]hirl kafka down --wipe[/bold]")
def down(
    wipe: Annotated[
        bool, typer.Option("--wipe", help="Remove records, users and certificates, too.")
    ] = False,
    home: HomeOption = HOME,
) -> None:
    """Stop the brokers that `up` started, and no other process."""
    stopped = cluster.stop(home, wipe=wipe)
    console = _console()
    console.print(f"stopped {stopped} broker(s)" if stopped else "no broker was running")
    if wipe:
        console.print(f"removed the data in {home}")


class Status(Description, frozen=True, kw_only=True):
    """What `status --json` writes."""

    up: int


@app.command(epilog="Example: [bold]hirl kafka status --json .hirl/kafka-status.json[/bold]")
def status(json: JsonOption = None, home: HomeOption = HOME) -> None:
    """Say what runs; exit 1 when not all of it does."""
    console = _console()
    known = description.read(home)
    if known is None:
        console.print("no cluster: hirl kafka up starts one")
        raise typer.Exit(1)
    present = [node for node in known.nodes if cluster.is_up(home, node)]
    _print(console, home, known, f"{len(present)} of {len(known.nodes)} broker(s) up")
    if json is not None:
        fields = {name: getattr(known, name) for name in known.__struct_fields__}
        write_json(json, Status(**fields, up=len(present)))
    if len(present) < len(known.nodes):
        raise typer.Exit(1)


def _print(console: Console, home: Path, known: Description, state: str) -> None:
    console.print(f"Apache Kafka {known.version} {state}")
    console.print(f"bootstrap   {known.bootstrap}")
    console.print(f"cluster id  {known.cluster_id}")
    console.print(f"security    {known.security}")
    if known.security == "sasl_ssl":
        console.print(f"credentials {home / 'credentials'}/SERVICE.env")


def _console() -> Console:
    return Console(highlight=False, markup=False, soft_wrap=True)
