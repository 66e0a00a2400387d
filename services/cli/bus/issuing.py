"""Options that every order shares, and how orders are issued."""

import re
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from models.inputs.errors import InputError
from schemas.override_issued import OrderKind, OverrideIssued
from services.cli.bus.order_tables import author, effect
from services.cli.bus.tail import BootstrapOption, CredentialsOption
from services.cli.output import plain_console

if TYPE_CHECKING:
    from datetime import datetime

    from services.admin.orders import Scope

_UNITS: Final = {"m": 60, "h": 3600, "d": 86400}
"""Seconds by suffix of `--for`."""
_BOTH: Final = Parameter.POSITIONAL_OR_KEYWORD

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

_SCOPES: Final = {
    "app": Parameter("app", _BOTH, default=None, annotation=AppOption),
    "tier": Parameter("tier", _BOTH, default=None, annotation=TierOption),
    "domain": Parameter("domain", _BOTH, default=None, annotation=DomainOption),
    "cluster": Parameter("cluster", _BOTH, default=False, annotation=ClusterOption),
}
_TERM: Final = (
    Parameter("duration", _BOTH, default="4h", annotation=ForOption),
    Parameter("until", _BOTH, default=None, annotation=UntilOption),
)
_SENDING: Final = (
    Parameter("preview", _BOTH, default=False, annotation=PreviewOption),
    Parameter("bootstrap", _BOTH, default=None, annotation=BootstrapOption),
    Parameter("credentials", _BOTH, default=None, annotation=CredentialsOption),
)

ScopeName = Literal["app", "tier", "domain", "cluster"]
EVERY_SCOPE: Final[tuple[ScopeName, ...]] = ("app", "tier", "domain", "cluster")


def ordering(
    scopes: Sequence[ScopeName] = EVERY_SCOPE, *, ends: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function of an Issuer and the command's own options.

    It gets options for the scopes, the reason, where to send it and, if it `ends`, how long.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        _, *own = signature(function, eval_str=True).parameters.values()
        shared = (
            Parameter("reason", _BOTH, annotation=ReasonOption),
            *(_SCOPES[name] for name in scopes),
        )
        rest = (*_TERM, *_SENDING) if ends else _SENDING
        names = {one.name for one in (*shared, *rest)}

        @wraps(function)
        def command(**options: Any) -> None:
            issuer = Issuer(**{name: value for name, value in options.items() if name in names})
            function(issuer, **{n: value for n, value in options.items() if n not in names})

        required = [one for one in own if one.default is Parameter.empty]
        optional = [one for one in own if one.default is not Parameter.empty]
        # Typer reads the options from here.
        command.__dict__["__signature__"] = Signature([*required, *shared, *optional, *rest])
        return command

    return decorate


class Issuer:
    """Issues the orders of one command."""

    def __init__(
        self,
        reason: str,
        app: str | None = None,
        tier: str | None = None,
        domain: str | None = None,
        cluster: bool = False,
        duration: str = "4h",
        until: str | None = None,
        preview: bool = False,
        bootstrap: str | None = None,
        credentials: Path | None = None,
    ) -> None:
        from services.admin.orders import author_of  # noqa: PLC0415
        from services.devcluster.connect import options_of  # noqa: PLC0415

        self._scope = scope_of(app, tier, domain, cluster=cluster)
        self._reason, self._duration, self._until = reason, duration, until
        self._preview = preview
        self._options = options_of(bootstrap, credentials)
        self._author = author_of(self._options)

    def issue(self, order: OrderKind, duration: str | None = None, **what: Any) -> None:
        """Issue one order, or say what it would be for; `duration` if the command has none."""
        from services.admin import orders  # noqa: PLC0415
        from services.admin.reader import TopicReader  # noqa: PLC0415

        length = duration_of(duration or self._duration)
        with TopicReader(self._options) as reader:
            # Also refuses a scope without apps, before anything is sent.
            apps = self._touched(reader)
            now = cluster_time(reader)
        end = orders.end_of(now, length, self._until)
        new = orders.new_order(self._scope, order, self._author, self._reason, now, end, **what)
        self._send([new], apps)

    def lift(self, kinds: Sequence[OrderKind]) -> None:
        """Lift the orders of these kinds, all without one."""
        from services.admin import orders  # noqa: PLC0415
        from services.admin.reader import TopicReader  # noqa: PLC0415

        with TopicReader(self._options) as reader:
            now, wall = cluster_time(reader), time.time()
            book = orders.book_of(orders.read_topic(reader, OverrideIssued), wall)
            apps = self._touched(reader)
        # Waiting orders as well: one that the limit per minute still holds back would otherwise
        # take effect after it was lifted.
        present = [one.order for one in (*book.in_force(now, wall), *book.waiting())]
        lifts = [
            orders.new_order(
                self._scope, one.order, self._author, self._reason, now,
                order_id=one.order_id, lifted=True,
            )
            for one in present
            if (one.kind, one.scope) == self._scope and (not kinds or one.order in kinds)
        ]  # fmt: skip
        if not lifts:
            raise InputError(
                f"{self._scope} has no such order in force: hirl override list shows all orders"
            )
        self._send(lifts, apps)

    def _touched(self, reader: Any) -> int:
        from schemas.app_declared import AppDeclared  # noqa: PLC0415
        from services.admin import orders  # noqa: PLC0415

        apps = orders.inventory(orders.read_topic(reader, AppDeclared))
        return len(orders.touched(apps, self._scope))

    def _send(self, sent: Sequence[OverrideIssued], apps: int) -> None:
        from services.admin import orders  # noqa: PLC0415

        if not self._preview:
            orders.publish(self._options, sent)
        console = plain_console()
        for one in sent:
            end = "" if one.until is None else f" until {one.until}"
            verb = "would order" if self._preview else "ordered"
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


def cluster_time(reader: Any) -> "datetime":
    """The cluster's present time, by its last tick."""
    from schemas.scale_applied import ScaleApplied  # noqa: PLC0415
    from services.admin import orders  # noqa: PLC0415

    return orders.cluster_time(reader.newest_records(ScaleApplied), time.time())
