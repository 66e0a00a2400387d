"""`hirl chaos`: faults into a running system on a real Kafka, and the table of what they did."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer
from rich.console import Console

from models.inputs.errors import InputError
from services.cli.benchmarks.on_kafka import AppsOption, measurement_folder
from services.cli.commands import examples
from services.cli.options import JsonOption, writable_file
from services.cli.output import Cell, command_line, print_line, table, write_file, write_json
from services.cli.signals import interrupt_on_signals

if TYPE_CHECKING:
    from services.measure.chaos.report import Report
    from services.measure.chaos.subject import Fault

EXIT_HARMED: Final = 1
_LEGEND: Final = (
    "lost, twice: changes; wrong: decreases by false data, or of what an app uses; held: changes "
    "held because of the fault; silent: domains without budgets at the end; next, max: median and "
    "longest time to the next closed tick"
)

MinutesOption = Annotated[
    float,
    typer.Option("--minutes", min=0, metavar="N", help="At least; each fault comes once or more."),
]
SeedOption = Annotated[
    int, typer.Option("--seed", min=0, metavar="N", help="Seed of the faults and the world.")
]
SpeedOption = Annotated[
    float, typer.Option("--speed", min=0.1, metavar="X", help="Times real time.")
]
BrokersOption = Annotated[int, typer.Option("--brokers", metavar="N", help="1 or 3.")]
FaultsOption = Annotated[
    str,
    typer.Option(
        "--faults", metavar="WORDS", help="Only faults whose name has one of these words: A,B."
    ),
]
RecordsOption = Annotated[
    int,
    typer.Option(
        "--records", min=6, metavar="N", help="Hostile records in each pass through all faults."
    ),
]
ReleaseOption = Annotated[
    str,
    typer.Option(
        "--release", metavar="REV", help="Earlier release, a git revision; default: the last one."
    ),
]
PageOption = Annotated[
    Path | None,
    typer.Option(
        "--page",
        metavar="FILE",
        callback=writable_file,
        help="Also write the table to this file, as a page of docs/results.",
    ),
]
ListOption = Annotated[bool, typer.Option("--list", help="Name all kinds of faults and end.")]


@examples(
    "hirl chaos --minutes 10 --json .hirl/chaos.json",
    "hirl chaos --faults kill,forged",
    "hirl chaos --list",
)
def chaos(
    minutes: MinutesOption = 60.0,
    seed: SeedOption = 0,
    apps: AppsOption = 60,
    speed: SpeedOption = 10.0,
    brokers: BrokersOption = 1,
    faults: FaultsOption = "",
    records: RecordsOption = 100_000,
    release: ReleaseOption = "",
    list_only: ListOption = False,
    json: JsonOption = None,
    page: PageOption = None,
) -> None:
    """Inject faults and false data into a running system, and count lost or doubled changes.

    Exit status 1 if a change was lost, made twice or made because of false data, if a domain got
    no budgets any more, if a service did not come back, or if a system stood still. Ctrl-C ends it
    early, with the table of what happened until then. Files are written after each round, which is
    one scenario.
    """
    # Kafka's clients are slow to import, and help texts need none.
    from services.devcluster.request import Request  # noqa: PLC0415
    from services.measure.chaos.page import origin, page_of  # noqa: PLC0415
    from services.measure.chaos.run import Callbacks, Options, run_faults  # noqa: PLC0415

    console = Console(emoji=False, highlight=False)
    request = Request(seed=seed, apps=apps, speed=speed, brokers=brokers)
    request.check()
    chosen = _chosen(brokers, faults)
    if list_only:
        console.print("\n".join(fault.name for fault in chosen))
        return
    options = Options(minutes=minutes, seed=seed, hostile_records=records, release=release)
    given = {"--minutes": f"{minutes:g}", "--seed": seed, "--apps": apps, "--speed": f"{speed:g}"}
    given |= {"--brokers": brokers, "--records": records, "--faults": faults or None}
    world = f"{request.scenario} with seeds from {seed} on, {apps} apps"

    def write(report: "Report") -> None:
        if json is not None:
            write_json(json, msgspec.to_builtins(report) | {"harmed": report.harmed})
        if page is not None:
            day = datetime.now(UTC).date()
            text = page_of(report, origin(command_line("hirl chaos", given), world, day))
            write_file(page, text.encode())

    with measurement_folder("chaos", console) as folder:
        console.print(f"{len(chosen)} kinds of faults, logs in {folder}")
        interrupt_on_signals()
        report = run_faults(request, chosen, options, folder, Callbacks(console.print, write))
        show(console, report)
        if report.harmed:
            # Inside the block, so that the folder stays, for its logs.
            raise typer.Exit(EXIT_HARMED)
    if report.interrupted:
        raise KeyboardInterrupt


def _chosen(brokers: int, words: str) -> "list[Fault]":
    from services.measure.chaos.faults import all_faults  # noqa: PLC0415

    every = all_faults(brokers)
    wanted = [word.strip() for word in words.split(",") if word.strip()]
    found = [fault for fault in every if not wanted or any(w in fault.name for w in wanted)]
    if not found:
        names = ", ".join(fault.name for fault in every)
        raise InputError(f"--faults: no fault has {words!r} in its name; there are {names}")
    return found


def show(console: Console, report: "Report") -> None:
    """Print the table and what is said below it."""
    columns = ("fault", "times", "lost", "twice", "wrong", "held", "silent", "next s", "max s")
    rows: list[tuple[Cell, ...]] = [
        (
            row.fault, row.times, row.lost, row.doubled, row.wrong_decreases, row.holds,
            row.silenced, round(row.next_tick_s, 1), round(row.next_tick_most_s, 1),
        )
        for row in report.rows
    ]  # fmt: skip
    console.print(table("What faults did", columns, rows))
    console.print(_LEGEND, soft_wrap=not console.is_terminal)
    console.print(
        f"{report.minutes:.0f} minutes, {report.ticks:,} ticks, {report.changes:,} changes "
        f"applied, {report.hostile_records:,} hostile records, "
        f"{report.dead_letters:,} dead letters",
        soft_wrap=not console.is_terminal,
    )
    for one in report.skipped:
        print_line(console, f"skipped {one.fault}: {one.reason}")
    for line in report.died:
        print_line(console, f"ended early after {line}")
    if report.dead:
        console.print(f"did not come back: {', '.join(report.dead)}")
