"""`hirl override`: orders to the running system, for an app, a tier, a domain or the cluster."""

import time
from typing import Annotated, Final, Literal

import typer
from rich.console import Console

from schemas.override_issued import OverrideIssued
from services.cli.bus.issuing import Issuer, cluster_time, ordering
from services.cli.bus.order_tables import Listed, show, show_history
from services.cli.bus.tail import BootstrapOption, CredentialsOption
from services.cli.commands import examples
from services.cli.options import JsonOption
from services.cli.output import write_json

_LISTED: Final = 20
"""Orders that `history` prints when no number is given."""

ReplicasArgument = Annotated[int, typer.Argument(metavar="N", min=0, help="Replicas per app.")]


@examples(
    "hirl override pause --domain payments --only scale-in --for 2h --reason 'sale'",
    "hirl override pause --app payments-0003 --reason 'being debugged' --preview",
)
@ordering()
def pause(
    issuer: Issuer,
    only: Annotated[
        Literal["scale-in", "scale-out"] | None,
        typer.Option("--only", help="Pause one direction; both when not given."),
    ] = None,
) -> None:
    """Apply no changes, or none in one direction; `resume` ends it."""
    issuer.issue("pause", pause=only or "all")


@examples(
    "hirl override freeze --cluster --for 1h --reason 'incident 4711'",
)
@ordering()
def freeze(issuer: Issuer) -> None:
    """Change nothing at all; it stands beside a pause, and takes effect at once."""
    issuer.issue("freeze", pause="all")


@examples(
    "hirl override floor 4 --tier payments/0 --for 6h --reason 'expected press coverage'",
)
@ordering()
def floor(issuer: Issuer, replicas: ReplicasArgument) -> None:
    """Keep at least N replicas of each app, within its declared bounds and the budget."""
    issuer.issue("floor", floor=replicas)


@examples(
    "hirl override ceiling 20 --app data-0007 --for 1d --reason 'its database is at its limit'",
)
@ordering()
def ceiling(issuer: Issuer, replicas: ReplicasArgument) -> None:
    """Keep at most N replicas of each app, within its declared bounds."""
    issuer.issue("ceiling", ceiling=replicas)


@examples(
    "hirl override mode preview --domain internal --for 2d --reason 'migration'",
)
@ordering()
def mode(
    issuer: Issuer,
    mode: Annotated[
        Literal["off", "preview", "canary", "auto"],
        typer.Argument(metavar="MODE", help="off, preview, canary or auto."),
    ],
) -> None:
    """Set the mode; of several orders the strictest mode counts."""
    issuer.issue("mode", mode=mode)


@examples(
    "hirl override resume --domain payments --reason 'sale is over'",
)
@ordering(ends=False)
def resume(issuer: Issuer) -> None:
    """End the pause and the freeze of a scope; those of other scopes stay."""
    issuer.lift(("pause", "freeze"))


@examples(
    "hirl override lift --app data-0007 --reason 'database was enlarged'",
    "hirl override lift --domain payments --order ceiling --reason 'no longer needed'",
)
@ordering(ends=False)
def lift(
    issuer: Issuer,
    order: Annotated[
        Literal["pause", "freeze", "mode", "floor", "ceiling", "replicas", "breaker"] | None,
        typer.Option("--order", help="Only this order; all orders of the scope when not given."),
    ] = None,
) -> None:
    """End the orders of a scope before their time; those of other scopes stay."""
    issuer.lift(() if order is None else (order,))


@examples(
    "hirl override list",
    "hirl override list --json orders.json",
)
def list_orders(
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
    json: JsonOption = None,
) -> None:
    """List the orders in force: what, by whom, until when and why."""
    # Kafka's clients are slow to import, and help texts need none.
    from services._kit.ticks import spell  # noqa: PLC0415
    from services.admin import orders  # noqa: PLC0415
    from services.admin.reader import TopicReader  # noqa: PLC0415
    from services.devcluster.connect import options_of  # noqa: PLC0415

    with TopicReader(options_of(bootstrap, credentials)) as reader:
        # Two clocks: orders end by the cluster's time, but how many take effect in a minute is
        # counted by the brokers' time.
        wall, now = time.time(), cluster_time(reader)
        book = orders.book_of(orders.read_topic(reader, OverrideIssued), wall)
    found = Listed(
        time=spell(now),
        in_force=[one.order for one in book.in_force(now, wall)],
        waiting=[one.order for one in book.waiting()],
    )
    show(Console(highlight=False, markup=False, emoji=False), found)
    if json is not None:
        write_json(json, found)


@examples(
    "hirl override history",
    "hirl override history --last 100 --json audit.json",
)
def history(
    last: Annotated[
        int, typer.Option("--last", metavar="N", min=1, help="The last N orders.")
    ] = _LISTED,
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
    json: JsonOption = None,
) -> None:
    """Show each order with what it changed and held; replaced orders are kept for 30 days."""
    from services.admin import orders  # noqa: PLC0415
    from services.admin.reader import TopicReader  # noqa: PLC0415
    from services.devcluster.connect import options_of  # noqa: PLC0415

    with TopicReader(options_of(bootstrap, credentials)) as reader:
        issued = reader.read_all(OverrideIssued)[-last:]
        found = orders.trails(issued, orders.read_applied(reader))
    show_history(Console(highlight=False, markup=False, emoji=False), found)
    if json is not None:
        write_json(json, found)
