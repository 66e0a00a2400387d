"""`hirl chaos`: faults into a running system on a real Kafka, and the table of what they did."""

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer
from rich.console import Console

from models.inputs.errors import InputError
from services.cli.commands import examples
from services.cli.options import JsonOption, writable_folder
from services.cli.output import Cell, table, write_json

if TYPE_CHECKING:
    from services.measure.chaos.faults import Fault
    from services.measure.chaos.run import Report

_FOLDER: Final = Path(".hirl")
EXIT_HARMED: Final = 1

MinutesOption = Annotated[
    float,
    typer.Option("--minutes", min=0, metavar="N", help="At least; each fault comes once or more."),
]
SeedOption = Annotated[
    int, typer.Option("--seed", min=0, metavar="N", help="Seed of the faults and the world.")
]
AppsOption = Annotated[int, typer.Option("--apps", min=5, metavar="N", help="Apps in the cluster.")]
SpeedOption = Annotated[
    float, typer.Option("--speed", min=0.1, metavar="X", help="Times real time.")
]
BrokersOption = Annotated[int, typer.Option("--brokers", metavar="N", help="1 or 3.")]
FaultsOption = Annotated[
    str,
    typer.Option(
        "--faults", metavar="WORDS", help="Only faults whose name has one of these, by commas."
    ),
]


@examples("hirl chaos --minutes 10 --json .hirl/chaos.json", "hirl chaos --faults kill,forged")
def chaos(
    minutes: MinutesOption = 60.0,
    seed: SeedOption = 0,
    apps: AppsOption = 60,
    speed: SpeedOption = 10.0,
    brokers: BrokersOption = 1,
    faults: FaultsOption = "",
    json: JsonOption = None,
) -> None:
    """Kill, pause, cut off and deceive a running system, and count what was lost or doubled.

    Exit status 1 if a change was lost, made twice or made because of forged data, if a domain got
    no budgets any more, or if a service did not come back.
    """
    # Kafka's clients are slow to import, and help texts need none.
    from services.devcluster.kafka import provision  # noqa: PLC0415
    from services.devcluster.request import Request  # noqa: PLC0415
    from services.measure.chaos.run import torment  # noqa: PLC0415

    console = Console(emoji=False, highlight=False)
    request = Request(seed=seed, apps=apps, speed=speed, brokers=brokers)
    request.check()
    chosen = _chosen(brokers, faults)
    writable_folder(_FOLDER)
    provision.runtime(console.print)
    _FOLDER.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="chaos-", dir=_FOLDER))
    console.print(f"{len(chosen)} kinds of faults, logs in {folder}")
    report = torment(request, chosen, minutes, seed, folder, console.print)
    show(console, report)
    if json is not None:
        write_json(json, msgspec.to_builtins(report))
    if harmed(report):
        # The folder stays, for its logs.
        raise typer.Exit(EXIT_HARMED)
    shutil.rmtree(folder, ignore_errors=True)


def _chosen(brokers: int, words: str) -> "list[Fault]":
    from services.measure.chaos.faults import all_faults  # noqa: PLC0415

    every = all_faults(brokers)
    wanted = [word.strip() for word in words.split(",") if word.strip()]
    found = [fault for fault in every if not wanted or any(w in fault.name for w in wanted)]
    if not found:
        names = ", ".join(fault.name for fault in every)
        raise InputError(f"--faults: no fault has {words!r} in its name; there are {names}")
    return found


def harmed(report: "Report") -> bool:
    """Whether anything happened that must never happen."""
    return bool(report.dead) or any(
        row.lost or row.doubled or row.wrong_decreases or row.silenced for row in report.rows
    )


def show(console: Console, report: "Report") -> None:
    """Print the table and what is said below it."""
    columns = ("fault", "times", "lost", "doubled", "wrong", "held", "silent", "next s", "most s")
    rows: list[tuple[Cell, ...]] = [
        (
            row.fault, row.times, row.lost, row.doubled, row.wrong_decreases, row.holds,
            row.silenced, row.next_tick_s, row.next_tick_most_s,
        )
        for row in report.rows
    ]  # fmt: skip
    title = "Changes lost, doubled, wrongly decreased, held; domains without budgets; next tick"
    console.print(table(title, columns, rows))
    console.print(
        f"{report.minutes:.0f} minutes, {report.ticks:,} ticks, {report.changes:,} changes "
        f"applied, {report.dead_letters:,} dead letters"
    )
    if report.dead:
        console.print(f"did not come back: {', '.join(report.dead)}")
