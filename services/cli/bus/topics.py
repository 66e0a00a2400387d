"""`hirl topics`: compare a broker's topics and ACLs with schemas/topics.py, and fix them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from services.cli.bus.options import bootstrap_option, broker_options, credentials_option
from services.cli.commands import examples
from services.cli.options import JsonOption
from services.cli.output import plain_console, write_json

if TYPE_CHECKING:
    from services.admin.reconcile import ReconcileOutcome


EXIT_DIFFERENT = 2

BootstrapOption = Annotated[str | None, bootstrap_option("those of hirl up or hirl kafka up")]
CredentialsOption = Annotated[
    Path | None, credentials_option("an administrator; the environment's when not given")
]
ReplicationOption = Annotated[
    int | None,
    typer.Option(
        "--replication",
        metavar="N",
        min=1,
        help="Copies of each record; the number of brokers, at most 3, when not given.",
    ),
]
AclsOption = Annotated[
    bool, typer.Option("--acls", help="Include ACLs; the broker needs an authorizer.")
]


@examples(
    "hirl topics apply --acls",
)
def apply(
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
    replication: ReplicationOption = None,
    acls: AclsOption = False,
    json: JsonOption = None,
) -> None:
    """Create missing topics and fix settings; exit 2 if something cannot be fixed."""
    # kafka-python is slow to import, and help texts don't need it.
    from services.admin import reconcile  # noqa: PLC0415

    with reconcile.connection(broker_options(bootstrap, credentials)) as admin:
        outcome = reconcile.apply_to(admin, replication, acls=acls)
    console = plain_console()
    for difference in outcome.mended:
        created = difference.text == reconcile.MISSING
        console.print(f"created  {difference.subject}" if created else f"fixed    {difference}")
    _report(console, outcome, json)


@examples(
    "hirl topics check --bootstrap kafka.example:9092",
)
def check(
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
    replication: ReplicationOption = None,
    acls: AclsOption = False,
    json: JsonOption = None,
) -> None:
    """Compare and change nothing; one line per difference, exit 2 if there is one."""
    from services.admin import reconcile  # noqa: PLC0415

    with reconcile.connection(broker_options(bootstrap, credentials)) as admin:
        outcome = reconcile.compare(admin, replication, acls=acls)
    _report(plain_console(), outcome, json)


def _report(console: Console, outcome: "ReconcileOutcome", json: Path | None) -> None:
    # What `apply` could not fix is left over here, and so decides the exit code.
    for difference in outcome.differences:
        console.print(f"differs  {difference}")
    if json is not None:
        write_json(json, outcome)
    compared = f"{outcome.topics} topics"
    if outcome.permissions:
        compared += f" and {outcome.permissions} ACLs"
    console.print(f"{compared}: {len(outcome.differences)} difference(s)")
    if outcome.differences:
        raise typer.Exit(EXIT_DIFFERENT)
