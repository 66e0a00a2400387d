"""`hirl tail`: follow a topic, one event per line, for people or as JSON."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer
from rich.console import Console

from models.inputs.errors import InputError, did_you_mean
from schemas.topics import BY_NAME
from services.cli.bus.options import bootstrap_option, broker_options, credentials_option
from services.cli.commands import examples
from services.cli.output import printable

if TYPE_CHECKING:
    from services.admin.reader import ReadRecord

_NICKNAMES: Final = {
    "inventory": "app-declared",
    "apps": "app-declared",
    "calendar": "event-scheduled",
    "backfill": "demand-backfilled",
    "samples": "metrics-sampled",
    "agents": "samples-signed",
    "pools": "pool-observed",
    "frames": "domain-observed",
    "forecasts": "demand-forecast",
    "budgets": "budget-granted",
    "nodes": "capacity-requested",
    "plans": "scale-planned",
    "applied": "scale-applied",
    "breakers": "breaker-changed",
    "overrides": "override-issued",
    "resets": "state-reset",
    "models": "model-promoted",
    "rollouts": "model-judged",
    "transitions": "transition-recorded",
    "dead-letters": "rejected",
}

TopicArgument = Annotated[
    str,
    typer.Argument(
        metavar="TOPIC", help=f"A topic, its short name, or one of {', '.join(_NICKNAMES)}."
    ),
]
BootstrapOption = Annotated[str | None, bootstrap_option("those of hirl up or hirl kafka up")]
CredentialsOption = Annotated[
    Path | None, credentials_option("a user who may do this; the environment's when not given")
]


@examples(
    "hirl tail budgets",
    "hirl tail scale-applied --key payments --from-beginning --limit 20",
    "hirl tail dead-letters --from-beginning",
    "hirl tail plans --json | jq .changes",
)
def tail(
    topic: TopicArgument,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Begin with the oldest record.")
    ] = False,
    key: Annotated[
        str | None, typer.Option("--key", metavar="K", help="Only records of this key.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON event per line.")] = False,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", min=1, help="Stop after this many records."),
    ] = None,
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
) -> None:
    """Follow a topic until Ctrl-C: time, key, and a summary of each event.

    Unreadable records are printed, too, with the error.
    """
    # Before the slow imports, so that a typo is answered at once.
    name = topic_named(topic)
    # Kafka's clients are slow to import, and help texts need none.
    from services.admin.reader import TopicReader  # noqa: PLC0415

    options = broker_options(bootstrap, credentials)
    console = Console(highlight=False, markup=False, soft_wrap=True, emoji=False)
    servers = ",".join(options["bootstrap_servers"])
    # On stderr, so that stdout holds events only and can be piped.
    Console(stderr=True, highlight=False).print(
        f"{name} at {servers}, stop with Ctrl-C", style="dim"
    )
    shown = 0
    with TopicReader(options) as reader:
        reader.seek([name], from_beginning=from_beginning, key=key)
        while limit is None or shown < limit:
            for found in reader.poll():
                # The reader narrows to the partition of the key; other keys share it.
                if key is not None and found.delivery.key != key.encode():
                    continue
                console.print(raw(found) if json else line(found))
                shown += 1
                if shown == limit:
                    break


def topic_named(text: str) -> str:
    """A topic by its name, its name without prefix and version, or a nickname."""
    stem = _NICKNAMES.get(text, text)
    names = [name for name in BY_NAME if stem in (name, _stem(name))]
    names = names or [name for name in BY_NAME if _stem(name).startswith(stem)]
    if len(names) == 1:
        return names[0]
    # An ambiguous prefix such as `scale` is an error: a guess could follow the wrong topic.
    if names:
        raise InputError(f"topic: {text} is ambiguous: {', '.join(map(_stem, names))}")
    hint = did_you_mean(text, (*_NICKNAMES, *map(_stem, BY_NAME)))
    raise InputError(f"topic: no topic {text}: {hint}hirl tail --help lists all")


def line(found: "ReadRecord") -> str:
    """A record as a line for people, whatever its texts hold."""
    from services._kit.clock import rfc3339  # noqa: PLC0415
    from services.cli.bus.event_lines import event_time, summary  # noqa: PLC0415

    delivery, event = found.delivery, found.event
    key = delivery.key.decode(errors="replace")
    if event is None:
        what = f"unreadable: {found.problem}" if found.problem else "removed"
        return f"{rfc3339(delivery.timestamp)[11:19]}  {printable(key)}  {printable(what)}"
    when = event_time(event) or rfc3339(delivery.timestamp)[11:19]
    return "  ".join(printable(word) for word in (when, key, summary(event)) if word)


def raw(found: "ReadRecord") -> str:
    """A record as JSON: the event, or the key and the problem."""
    if found.event is not None:
        return msgspec.json.encode(found.event).decode()
    key = found.delivery.key.decode(errors="replace")
    return msgspec.json.encode({"key": key, "problem": found.problem or "tombstone"}).decode()


def _stem(name: str) -> str:
    return name.removeprefix("hirl.").removesuffix(".v1")
