"""`hirl tail`: follow a topic, an event per line, for people or as JSON."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer
from rich.console import Console

from models.inputs.errors import InputError
from schemas.topics import BY_NAME

if TYPE_CHECKING:
    from services.admin.reader import Found

EXAMPLES: Final = (
    "Examples: [bold]hirl tail budgets[/bold], "
    "[bold]hirl tail scale-applied --key payments --from-beginning --limit 20[/bold], "
    "[bold]hirl tail dead-letters --from-beginning[/bold], "
    "[bold]hirl tail plans --json | jq .changes[/bold]"
)
_NICKNAMES: Final = {
    "inventory": "app-declared",
    "apps": "app-declared",
    "calendar": "event-scheduled",
    "backfill": "demand-backfilled",
    "samples": "metrics-sampled",
    "pools": "pool-observed",
    "frames": "domain-observed",
    "forecasts": "demand-forecast",
    "budgets": "budget-granted",
    "nodes": "capacity-requested",
    "plans": "scale-planned",
    "applied": "scale-applied",
    "breakers": "breaker-changed",
    "overrides": "override-issued",
    "models": "model-promoted",
    "transitions": "transition-recorded",
    "dead-letters": "rejected",
}

TopicArgument = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC", help=f"A topic, its short name, or one of {', '.join(_NICKNAMES)}."
    ),
]
BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT",
        envvar="HIRL_KAFKA_BOOTSTRAP",
        help="Brokers, comma-separated; those of hirl up or hirl kafka up when not given.",
    ),
]
CredentialsOption = Annotated[
    Path | None,
    typer.Option(
        "--credentials",
        metavar="FILE",
        help="HIRL_KAFKA_* variables of somebody who may read, for --bootstrap with security.",
    ),
]


def tail(
    topic: TopicArgument,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Begin with the oldest record that is kept.")
    ] = False,
    key: Annotated[
        str | None, typer.Option("--key", metavar="K", help="Records of this key only.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The event as JSON, a line each.")] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="End after so many.")
    ] = None,
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
) -> None:
    """Follow a topic until Ctrl-C: time, key, and what each event says.

    What a reader could not use is shown, too, with what is wrong about it.
    """
    name = topic_named(topic)
    # Kafka's clients are slow to import, and only where services run.
    from services.admin.reader import Onlooker  # noqa: PLC0415
    from services.devcluster.connect import options_of  # noqa: PLC0415

    options = options_of(bootstrap, credentials)
    console = Console(highlight=False, markup=False, soft_wrap=True, emoji=False)
    servers = ",".join(options["bootstrap_servers"])
    Console(stderr=True, highlight=False).print(f"{name} at {servers}, Ctrl-C ends", style="dim")
    shown = 0
    with Onlooker(options) as onlooker:
        onlooker.watch([name], from_beginning=from_beginning, key=key)
        while limit is None or shown < limit:
            for found in onlooker.next():
                if key is not None and found.delivery.key != key.encode():
                    continue
                console.print(raw(found) if json else line(found))
                shown += 1
                if shown == limit:
                    break


def topic_named(text: str) -> str:
    """The topic that is meant: by its name, without prefix and version, or by a nickname."""
    stem = _NICKNAMES.get(text, text)
    names = [name for name in BY_NAME if stem in (name, _stem(name))]
    names = names or [name for name in BY_NAME if _stem(name).startswith(stem)]
    if len(names) == 1:
        return names[0]
    known = ", ".join(_stem(name) for name in BY_NAME)
    raise InputError(f"topic: expected one of {known}, got {text}")


def line(found: "Found") -> str:
    """An event for people."""
    from services._kit.clock import rfc3339  # noqa: PLC0415
    from services.cli.bus.event_lines import essence, moment  # noqa: PLC0415

    delivery, event = found.delivery, found.event
    key = delivery.key.decode(errors="replace")
    if event is None:
        what = f"unreadable: {found.problem}" if found.problem else "removed"
        return f"{rfc3339(delivery.timestamp)[11:19]}  {key}  {what}"
    when = moment(event) or rfc3339(delivery.timestamp)[11:19]
    return "  ".join(word for word in (when, key, essence(event)) if word)


def raw(found: "Found") -> str:
    """An event, whole, as JSON; a record that is no event as what is wrong with it."""
    if found.event is not None:
        return msgspec.json.encode(found.event).decode()
    key = found.delivery.key.decode(errors="replace")
    return msgspec.json.encode({"key": key, "problem": found.problem or "tombstone"}).decode()


def _stem(name: str) -> str:
    return name.removeprefix("hirl.").removesuffix(".v1")
