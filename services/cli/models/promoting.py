"""`hirl models promote|rollback|lock|unlock|history`: orders to services, and their history."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from models.inputs.errors import InputError
from services.cli.bus.tail import BootstrapOption, CredentialsOption
from services.cli.commands import examples
from services.cli.models.options import ArtefactArgument, KeysOption, Place, StoreOption
from services.cli.options import ClusterOption, JsonOption
from services.cli.output import plain_console, table, write_json

if TYPE_CHECKING:
    from schemas.model_promoted import ModelPromoted
    from services.admin.promotions import History
    from services.admin.reader import TopicReader

ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="forecaster, commander or soldier.")
]
ReasonOption = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why, in plain words; kept with the order.")
]


@examples(
    "hirl models promote 4785f03a8924 --evidence evidence.json --reason 'trained on October'",
    "hirl models promote 4785f03a8924 --ungated --approve manual --reason 'a look in shadow'",
)
def promote(
    artefact: ArtefactArgument,
    reason: ReasonOption,
    evidence: Annotated[
        Path | None,
        typer.Option("--evidence", metavar="FILE", help="Evidence for the gate (JSON)."),
    ] = None,
    ungated: Annotated[
        bool, typer.Option("--ungated", help="Skip the gate; the order says so.")
    ] = False,
    equal_ok: Annotated[
        bool, typer.Option("--equal-ok", help="Accept a model that is not known to be better.")
    ] = False,
    approve: Annotated[
        Literal["auto", "manual"],
        typer.Option("--approve", help="manual: each stage waits for another promote --stage."),
    ] = "auto",
    stage: Annotated[
        Literal["shadow", "canary", "serving"] | None,
        typer.Option("--stage", help="With manual approval: the last stage to enter by itself."),
    ] = None,
    store: StoreOption = None,
    keys: KeysOption = None,
    cluster: ClusterOption = None,
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
    json: JsonOption = None,
) -> None:
    """Let services serve a model: shadow first, then a share of the domains, then all.

    The artefact has to be in the store that services read, and signed by a key that they trust.
    """
    from services.admin import promotions  # noqa: PLC0415
    from services.cli.models.gate import check_passes, recorded  # noqa: PLC0415

    place = Place(store, keys)
    found, opened = place.artefact(artefact), place.opened()
    if (found.manifest.kind, found.version) not in set(opened.entries()):
        raise InputError(f"{found.name}: is not in {opened.url}; hirl models add puts it there")
    hold_at = stage or ("serving" if approve == "auto" else "shadow")
    reason = f"{reason} (ungated)" if ungated else reason

    def order(history: "History", author: Any, reader: "TopicReader") -> "ModelPromoted":
        model = promotions.KEYS[found.manifest.kind]
        promotions.check_unlocked(history, model)
        if not ungated:
            limits, drift = promotions.limits_of(history, model), recorded(reader, cluster, found)
            check_passes(found, evidence, limits, drift, equal_ok=equal_ok)
        return promotions.promotion(
            history, found, opened.url, author, reason, time.time(), hold_at
        )

    _issue(order, bootstrap, credentials, json)


@examples(
    "hirl models rollback forecaster --reason 'forecasts too much at night'",
    "hirl models rollback forecaster --to shipped --reason 'incident 4711'",
)
def rollback(
    model: ModelArgument,
    reason: ReasonOption,
    to: Annotated[
        str,
        typer.Option("--to", metavar="VERSION", help="A version that served before, or `shipped`."),
    ] = "",
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
    json: JsonOption = None,
) -> None:
    """Return to an earlier version, or to what ships, at once.

    Without --to: to the version that served before the present one.
    """
    from services.admin import promotions  # noqa: PLC0415

    name = promotions.known_model(model)
    _issue(
        lambda history, author, _: promotions.rollback(
            history, name, to, author, reason, time.time()
        ),
        bootstrap, credentials, json,
    )  # fmt: skip


@examples("hirl models lock forecaster --reason 'black friday'")
def lock(
    model: ModelArgument,
    reason: ReasonOption,
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
    json: JsonOption = None,
) -> None:
    """Let services begin nothing new; what they serve stays."""
    _lock(model, reason, bootstrap, credentials, json, locked=True)


@examples("hirl models unlock forecaster --reason 'the cause is found'")
def unlock(
    model: ModelArgument,
    reason: ReasonOption,
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
    json: JsonOption = None,
) -> None:
    """End a lock, that of a rollback included.

    Begins nothing that was refused or taken back: promote it again for that.
    """
    _lock(model, reason, bootstrap, credentials, json, locked=False)


@examples(
    "hirl models rules commander",
    "hirl models rules soldier stage_decisions=60 --reason 'ten minutes a stage in December'",
    "hirl models rules commander gate.drift=0.2 weights.p0=12 --reason 'as in the review'",
    "hirl models rules commander gate.drift= --reason 'back to what ships'",
)
def rules(
    model: ModelArgument,
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=VALUE]...", help="What to change; no value: back again."),
    ] = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; needed for a change.")
    ] = "",
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
    json: JsonOption = None,
) -> None:
    """Show or change the rules of rollouts, the thresholds of the gate and the weights.

    Services obey from their next decision on; stages that are under way count by the new rules.
    """
    from schemas.model_promoted import RolloutRules  # noqa: PLC0415  slow to import
    from services.admin import promotions  # noqa: PLC0415
    from services.admin.reader import TopicReader  # noqa: PLC0415
    from services.devcluster.connect import options_of  # noqa: PLC0415

    name = promotions.known_model(model)
    if settings:
        # Before anything is connected, so that a typo is answered at once.
        promotions.changed(RolloutRules(), settings)
        _issue(
            lambda history, author, _: promotions.with_rules(
                history, name, settings, author, reason, time.time()
            ),
            bootstrap, credentials, json,
        )  # fmt: skip
        return
    with TopicReader(options_of(bootstrap, credentials)) as reader:
        found = promotions.rules_of(promotions.read_history(reader), name)
    rows = [
        (field, "as before any change" if value is None else f"{value:g}")
        for field, value in promotions.flat(found).items()
    ]
    Console().print(table(f"Rules of {name}", ("rule", "value"), rows))
    if json is not None:
        write_json(json, found)


@examples("hirl models history", "hirl models history forecaster --json history.json")
def history(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="Only this one; all when not given.")
    ] = None,
    bootstrap: BootstrapOption = None,
    credentials: CredentialsOption = None,
    json: JsonOption = None,
) -> None:
    """Show what was ordered and what services made of it, with the evidence."""
    from services.admin.promotions import (  # noqa: PLC0415
        known_model,
        read_history,
        stamp,
        with_changes,
    )
    from services.admin.reader import TopicReader  # noqa: PLC0415
    from services.devcluster.connect import options_of  # noqa: PLC0415

    name = None if model is None else known_model(model)
    with TopicReader(options_of(bootstrap, credentials)) as reader:
        found = read_history(reader)
    rows = [
        (stamp(one.promoted_at), one.model, f"order {one.status}", one.version,
         f"{one.reason}, by {one.issued_by or 'unknown'}{rules}")
        for one, rules in with_changes(found.ordered)
        if name in (None, one.model)
    ]  # fmt: skip
    for step in found.judged:
        if name not in (None, step.model):
            continue
        share = f" {step.share:.0%}" if step.share else ""
        why = step.reason
        if step.locked_until_tick is not None:
            why += f"; locked until tick {step.locked_until_tick}"
        time_text = stamp(step.time)
        rows.append((time_text, step.model, f"{step.phase}{share}", step.version, why))
    console = Console()
    if rows:
        columns = ("time (UTC)", "model", "what", "version", "why")
        console.print(table("Models", columns, rows))
    else:
        plain_console().print("nothing was ordered: services serve what ships")
    if json is not None:
        write_json(json, {"ordered": found.ordered, "judged": found.judged})


def _lock(
    model: str,
    reason: str,
    bootstrap: str | None,
    credentials: Path | None,
    json: Path | None,
    *,
    locked: bool,
) -> None:
    from services.admin import promotions  # noqa: PLC0415

    name = promotions.known_model(model)
    _issue(
        lambda history, author, _: promotions.with_lock(
            history, name, author, reason, time.time(), locked=locked
        ),
        bootstrap, credentials, json,
    )  # fmt: skip


def _issue(order: Any, bootstrap: str | None, credentials: Path | None, json: Path | None) -> None:
    """Read what is in force, make the order of it, and send it."""
    # kafka-python is slow to import, and help texts don't need it.
    from services.admin import orders, promotions  # noqa: PLC0415
    from services.admin.reader import TopicReader  # noqa: PLC0415
    from services.devcluster.connect import options_of  # noqa: PLC0415

    options = options_of(bootstrap, credentials)
    author = orders.author_of(options)
    with TopicReader(options) as reader:
        event = order(promotions.read_history(reader), author, reader)
    orders.publish(options, [event], promotions.SOURCE)
    what = "locked" if event.locked else "unlocked" if event.unlock else event.status
    if event.status == "rolled-back" != what:
        what = f"{event.status} and {what}"
    plain_console().print(
        f"ordered: {event.model} {what} {event.version}, as {author.name}; "
        "hirl models history shows what services make of it"
    )
    if json is not None:
        write_json(json, event)
