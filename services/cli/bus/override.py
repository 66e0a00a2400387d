"""`hirl override`: orders to the running system, for an app, a tier, a domain or the cluster."""

import re
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from rich.console import Console

from models.inputs.errors import InputError
from schemas.override_issued import OrderKind, OverrideIssued
from services.cli.bus.order_tables import Listed, author, effect, show, show_history
from services.cli.bus.tail import BootstrapOption, CredentialsOption
from services.cli.commands import examples
from services.cli.options import JsonOption
from services.cli.output import plain_console, write_json

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from services.admin.orders import Scope

_UNITS: Final = {"m": 60, "h": 3600, "d": 86400}
_LISTED: Final = 20
"""Orders that `history` prints when no number is given."""

AppOption = Annotated[str | None, typer.Option("--app", metavar="NAME", help="For one app.")]
TierOption = Annotated[
    str | None,
    typer.Option("--tier", metavar="DOMAIN/N", help="For a tier: the domain and its tier's index."),
]
DomainOption = Annotated[
    str | None, typer.Option("--domain", metavar="NAME", help="For a whole domain.")
]
ClusterOption = Annotated[bool, typer.Option("--cluster", help="For the whole cluster.")]
ReasonOption = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why, in plain words; kept with the order.")
]
ForOption = Annotated[
    str,
    typer.Option("--for", metavar="TIME", help="How long, such as 30m, 4h or 2d; at most 7d."),
]
UntilOption = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="Until when, in UTC, instead of --for."),
]
PreviewOption = Annotated[
    bool, typer.Option("--preview", help="Say what the order is for, and send nothing.")
]
ReplicasArgument = Annotated[int, typer.Argument(metavar="N", min=0, help="Replicas per app.")]


@examples(
    "hirl override pause --domain payments --only scale-in --for 2h --reason 'sale'",
    "hirl override pause --app payments-0003 --reason 'being debugged' --preview",
)
def pause(
    reason: ReasonOption,
    app: AppOption = None,
    tier: TierOption = None,
    domain: DomainOption = None,
    cluster: ClusterOption = False,
    only: Annotated[
        Literal["scale-in", "scale-out"] | None,
        typer.Option("--only", help="Pause one direction; both when not given."),
    ] = None,
    duration: ForOption = "4h",
    until: UntilOption = None,
    preview: PreviewOption = False,
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
) -> None:
    """Apply no changes, or none in one direction; `resume` ends it."""
    desk = Desk(scope_of(app, tier, domain, cluster=cluster), bootstrap, credentials)
    desk.issue("pause", reason, duration, until, preview=preview, pause=only or "all")


@examples(
    "hirl override freeze --cluster --for 1h --reason 'incident 4711'",
)
def freeze(
    reason: ReasonOption,
    app: AppOption = None,
    tier: TierOption = None,
    domain: DomainOption = None,
    cluster: ClusterOption = False,
    duration: ForOption = "4h",
    until: UntilOption = None,
    preview: PreviewOption = False,
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
) -> None:
    """Change nothing at all; it stands beside a pause, and takes effect at once."""
    desk = Desk(scope_of(app, tier, domain, cluster=cluster), bootstrap, credentials)
    desk.issue("freeze", reason, duration, until, preview=preview, pause="all")


@examples(
    "hirl override floor 4 --tier payments/0 --for 6h --reason 'expected press coverage'",
)
def floor(
    replicas: ReplicasArgument,
    reason: ReasonOption,
    app: AppOption = None,
    tier: TierOption = None,
    domain: DomainOption = None,
    cluster: ClusterOption = False,
    duration: ForOption = "4h",
    until: UntilOption = None,
    preview: PreviewOption = False,
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
) -> None:
    """Keep at least N replicas of each app, within its declared bounds and the budget."""
    desk = Desk(scope_of(app, tier, domain, cluster=cluster), bootstrap, credentials)
    desk.issue("floor", reason, duration, until, preview=preview, floor=replicas)


@examples(
    "hirl override ceiling 20 --app data-0007 --for 1d --reason 'its database is at its limit'",
)
def ceiling(
    replicas: ReplicasArgument,
    reason: ReasonOption,
    app: AppOption = None,
    tier: TierOption = None,
    domain: DomainOption = None,
    cluster: ClusterOption = False,
    duration: ForOption = "4h",
    until: UntilOption = None,
    preview: PreviewOption = False,
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
) -> None:
    """Keep at most N replicas of each app, within its declared bounds."""
    desk = Desk(scope_of(app, tier, domain, cluster=cluster), bootstrap, credentials)
    desk.issue("ceiling", reason, duration, until, preview=preview, ceiling=replicas)


@examples(
    "hirl override mode preview --domain internal --for 2d --reason 'migration'",
)
def mode(
    mode: Annotated[
        Literal["off", "preview", "canary", "auto"],
        typer.Argument(metavar="MODE", help="off, preview, canary or auto."),
    ],
    reason: ReasonOption,
    app: AppOption = None,
    tier: TierOption = None,
    domain: DomainOption = None,
    cluster: ClusterOption = False,
    duration: ForOption = "4h",
    until: UntilOption = None,
    preview: PreviewOption = False,
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
) -> None:
    """Set the mode; of several orders the strictest mode counts."""
    desk = Desk(scope_of(app, tier, domain, cluster=cluster), bootstrap, credentials)
    desk.issue("mode", reason, duration, until, preview=preview, mode=mode)


@examples(
    "hirl override resume --domain payments --reason 'sale is over'",
)
def resume(
    reason: ReasonOption,
    app: AppOption = None,
    tier: TierOption = None,
    domain: DomainOption = None,
    cluster: ClusterOption = False,
    preview: PreviewOption = False,
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
) -> None:
    """End the pause and the freeze of a scope; those of other scopes stay."""
    desk = Desk(scope_of(app, tier, domain, cluster=cluster), bootstrap, credentials)
    desk.lift(("pause", "freeze"), reason, preview=preview)


@examples(
    "hirl override lift --app data-0007 --reason 'database was enlarged'",
    "hirl override lift --domain payments --order ceiling --reason 'no longer needed'",
)
def lift(
    reason: ReasonOption,
    app: AppOption = None,
    tier: TierOption = None,
    domain: DomainOption = None,
    cluster: ClusterOption = False,
    order: Annotated[
        Literal["pause", "freeze", "mode", "floor", "ceiling", "replicas", "breaker"] | None,
        typer.Option("--order", help="Only this order; all orders of the scope when not given."),
    ] = None,
    preview: PreviewOption = False,
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
) -> None:
    """End the orders of a scope before their time; those of other scopes stay."""
    desk = Desk(scope_of(app, tier, domain, cluster=cluster), bootstrap, credentials)
    desk.lift(() if order is None else (order,), reason, preview=preview)


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
        wall, now = time.time(), _cluster_time(reader)
        book = orders.book_of(orders.read_topic(reader, OverrideIssued), wall)
    found = Listed(
        time=spell(now),
        in_force=[one.order for one in book.in_force(now, wall)],
        waiting=[one.order for one in book.waiting()],
    )
    show(Console(highlight=False), found)
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
    show_history(Console(highlight=False), found)
    if json is not None:
        write_json(json, found)


class Desk:
    """Issues the orders of one command."""

    def __init__(self, scope: "Scope", bootstrap: str | None, credentials: "Path | None") -> None:
        from services.admin.orders import author_of  # noqa: PLC0415
        from services.devcluster.connect import options_of  # noqa: PLC0415

        self._scope = scope
        self._options = options_of(bootstrap, credentials)
        self._author = author_of(self._options)

    def issue(
        self,
        order: OrderKind,
        reason: str,
        duration: str,
        until: str | None,
        *,
        preview: bool,
        **what: Any,
    ) -> None:
        """Issue one order, or say what it would be for."""
        from services.admin import orders  # noqa: PLC0415
        from services.admin.reader import TopicReader  # noqa: PLC0415

        length = duration_of(duration)
        with TopicReader(self._options) as reader:
            apps = self._touched(reader)
            now = _cluster_time(reader)
        end = orders.end_of(now, length, until)
        new = orders.new_order(self._scope, order, self._author, reason, now, end, **what)
        if not preview:
            orders.publish(self._options, [new])
        self._report([new], apps, preview=preview)

    def lift(self, kinds: Sequence[OrderKind], reason: str, *, preview: bool) -> None:
        """Lift the orders of these kinds, all without one."""
        from services.admin import orders  # noqa: PLC0415
        from services.admin.reader import TopicReader  # noqa: PLC0415

        with TopicReader(self._options) as reader:
            now, wall = _cluster_time(reader), time.time()
            book = orders.book_of(orders.read_topic(reader, OverrideIssued), wall)
            apps = self._touched(reader)
        present = [one.order for one in (*book.in_force(now, wall), *book.waiting())]
        lifts = [
            orders.new_order(
                self._scope, one.order, self._author, reason, now,
                order_id=one.order_id, lifted=True,
            )
            for one in present
            if (one.kind, one.scope) == self._scope and (not kinds or one.order in kinds)
        ]  # fmt: skip
        if not lifts:
            raise InputError(
                f"{self._scope} has no such order in force: hirl override list shows all orders"
            )
        if not preview:
            orders.publish(self._options, lifts)
        self._report(lifts, apps, preview=preview)

    def _touched(self, reader: Any) -> int:
        from schemas.app_declared import AppDeclared  # noqa: PLC0415
        from services.admin import orders  # noqa: PLC0415

        apps = orders.inventory(orders.read_topic(reader, AppDeclared))
        return len(orders.touched(apps, self._scope))

    def _report(self, sent: Sequence[OverrideIssued], apps: int, *, preview: bool) -> None:
        console = plain_console()
        for one in sent:
            end = "" if one.until is None else f" until {one.until}"
            verb = "would order" if preview else "ordered"
            console.print(
                f"{verb}: {effect(one)} for {self._scope} ({apps:,} apps){end}, "
                f"as {author(one)}, id {one.order_id}"
            )
        if not self._author.authenticated:
            console.print("the broker has no authentication: the author is this machine's user")


def scope_of(app: str | None, tier: str | None, domain: str | None, *, cluster: bool) -> "Scope":
    """The one scope that was named; none at all never means everything."""
    from services.admin.orders import Scope  # noqa: PLC0415

    named: list[Scope] = [Scope("app", app)] if app else []
    named += [Scope("tier", tier)] if tier else []
    named += [Scope("domain", domain)] if domain else []
    named += [Scope("cluster", "cluster")] if cluster else []
    if len(named) != 1:
        raise InputError(
            "scope: expected exactly one of --app, --tier, --domain and --cluster, "
            f"got {len(named)}"
        )
    return named[0]


def duration_of(text: str) -> timedelta:
    """A duration such as 30m, 4h or 2d."""
    found = re.fullmatch(r"([0-9]{1,4})([mhd])", text.strip())
    if found is None:
        raise InputError(f"--for: expected a duration such as 30m, 4h or 2d, got {text}")
    return timedelta(seconds=int(found[1]) * _UNITS[found[2]])


def _cluster_time(reader: Any) -> "datetime":
    from schemas.scale_applied import ScaleApplied  # noqa: PLC0415
    from services.admin.orders import cluster_time  # noqa: PLC0415

    return cluster_time(reader.newest_records(ScaleApplied), time.time())
