"""`hirl breaker`: show, open and reset circuit breakers."""

from typing import Annotated

import msgspec
import typer
from rich.console import Console

from schemas.breaker_changed import BreakerChanged
from services.cli.bus.issuing import Issuer, ordering
from services.cli.bus.tail import BootstrapOption, CredentialsOption
from services.cli.commands import examples
from services.cli.options import JsonOption
from services.cli.output import table, write_json


class Breakers(msgspec.Struct, frozen=True, kw_only=True):
    """The newest event of each breaker; `--json` writes it."""

    breakers: list[BreakerChanged]


@examples(
    "hirl breaker show",
    "hirl breaker show --domain payments --json breaker.json",
)
def show(
    domain: Annotated[
        str | None, typer.Option("--domain", metavar="NAME", help="Only this domain.")
    ] = None,
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
    json: JsonOption = None,
) -> None:
    """Show state and level of each breaker, since when, and why."""
    # Kafka's clients are slow to import, and help texts need none.
    from services.admin.reader import TopicReader  # noqa: PLC0415
    from services.devcluster.connect import options_of  # noqa: PLC0415

    with TopicReader(options_of(bootstrap, credentials)) as reader:
        newest = {one.scope: one for one in reader.read_all(BreakerChanged)}
    kept = [one for one in newest.values() if domain in (None, one.scope)]
    found = Breakers(breakers=sorted(kept, key=lambda one: one.scope))
    print_breakers(Console(highlight=False, markup=False, emoji=False), found)
    if json is not None:
        write_json(json, found)


@examples(
    "hirl breaker open --domain payments --for 30m --reason 'rollout of the database'",
)
@ordering(("domain", "cluster"))
def open_breaker(issuer: Issuer) -> None:
    """Open a breaker: nothing is changed until the order ends or is reset."""
    issuer.issue("breaker", breaker="open")


@examples(
    "hirl breaker reset --domain payments --reason 'collector is back'",
)
@ordering(("domain", "cluster"), ends=False)
def reset(issuer: Issuer) -> None:
    """Close an open breaker once; it opens again if its cause is still there."""
    # Short: a breaker that is down for longer should judge for itself when it is back.
    issuer.issue("breaker", duration="10m", breaker="reset")


def print_breakers(console: Console, found: Breakers) -> None:
    """Print a line per breaker."""
    if not found.breakers:
        console.print("no breaker has reported yet: does a system run?")
        return
    rows = [
        (one.scope, one.state, one.level, one.since_tick, one.tick, one.reason or "-")
        for one in found.breakers
    ]
    columns = ("scope", "state", "level", "since tick", "last tick", "reason")
    console.print(table("breakers", columns, rows))
