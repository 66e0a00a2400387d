"""`hirl up`: run the whole system on this machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
from msgspec.structs import replace
from rich.console import Console

from models.compare.jobs import Job
from models.compare.race import Lane
from models.compare.request import controller_names
from models.inputs.errors import InputError
from services.cli.commands import examples
from services.cli.comparison.race_tables import READING, final_table, winner
from services.cli.named_options import ScenarioOption
from services.cli.options import (
    AppsOption,
    ClusterOption,
    JsonOption,
    PhysicsOption,
    SeedOption,
    writable_folder,
)
from services.cli.output import print_line, progress, table, write_json
from services.cli.signals import EXIT_SIGNAL, interrupt_on_signals
from services.cli.simulation.report import figures
from services.cli.system.kernels import compile_missing

if TYPE_CHECKING:
    from services.devcluster.request import Request
    from services.simcluster.score import Results

SCENARIO: Final = "flash-sale-20-min-early"
_OURS: Final = "hirl"
"""Column of the run on the bus in the comparison table."""

PaceOption = Annotated[
    float | None,
    typer.Option(
        "--speed",
        metavar="X",
        help="Times real time, free-running: 60 is a simulated minute per second.",
    ),
]
LockStepOption = Annotated[
    bool,
    typer.Option(
        "--lock-step", help="The cluster waits for every decision: as fast as the machine allows."
    ),
]
BusOption = Annotated[
    Literal["kafka", "memory"],
    typer.Option("--bus", help="A real Kafka and a process per service, or all in this process."),
]
BrokersOption = Annotated[
    int,
    typer.Option("--brokers", metavar="1|3", help="Brokers: 1, or 3 to survive the loss of one."),
]
SecureOption = Annotated[
    bool, typer.Option("--secure", help="TLS, a password per service, and ACLs.")
]
ModeOption = Annotated[
    Literal["auto", "preview", "canary"],
    typer.Option("--mode", help="preview changes nothing, canary one app in twenty."),
]
ForecastOption = Annotated[
    Literal["calendar", "tft", "seasonal", "persistence"],
    typer.Option("--forecast", help="The model that the forecaster serves."),
]
FollowOption = Annotated[
    bool | None,
    typer.Option(
        "--follow/--detach",
        help="Follow until the scenario ends, or leave it running; follows on a terminal.",
    ),
]
CompareOption = Annotated[
    str | None,
    typer.Option(
        "--compare",
        metavar="A,B",
        help="Controllers to run in the same world afterwards, for the final table.",
    ),
]


@examples(
    "hirl up --apps 155 --lock-step",
    "hirl up --scenario cascade --speed 30 --mode preview --detach",
    "hirl up --bus memory --apps 155 --speed 120 --compare hpa-calibrated,practitioner",
)
def up(
    scenario: ScenarioOption = SCENARIO,
    seed: SeedOption = 0,
    apps: AppsOption = None,
    cluster: ClusterOption = None,
    physics: PhysicsOption = None,
    speed: PaceOption = None,
    lock_step: LockStepOption = False,
    bus: BusOption = "kafka",
    brokers: BrokersOption = 1,
    secure: SecureOption = False,
    mode: ModeOption = "auto",
    forecast: ForecastOption = "calendar",
    follow: FollowOption = None,
    compare: CompareOption = None,
    json: JsonOption = None,
) -> None:
    """Start the whole system on a simulated cluster: Kafka, every service, and a live view.

    When it follows, it ends with the scenario or Ctrl-C and leaves nothing running.
    """
    # Kafka's clients are slow to import, and help texts need none.
    from services.devcluster.kernels import are_compiled  # noqa: PLC0415
    from services.devcluster.request import Request  # noqa: PLC0415

    if lock_step and speed is not None:
        raise InputError("--speed is for a free-running cluster: leave out --lock-step")
    request = Request(
        scenario=scenario,
        seed=seed,
        apps=apps,
        cluster=cluster,
        physics=physics,
        speed=1.0 if speed is None else speed,
        lock_step=lock_step,
        brokers=brokers,
        secure=secure,
        mode=mode,
        forecast=forecast,
    )
    request.check()
    console = Console(emoji=False, highlight=False)
    # Without a terminal the system is left running. The memory bus lives in this process and is
    # always followed; `_check_memory` refuses --detach.
    follow = console.is_terminal if follow is None and bus == "kafka" else follow is not False
    if (json is not None or compare is not None) and not follow:
        raise InputError("--json, --compare: figures come at the end, so they need --follow")
    # Checked before anything starts, used at the end.
    others = () if compare is None else controller_names(compare)
    in_memory = bus == "memory"
    if in_memory:
        _check_memory(request, follow)
    try:
        interrupt_on_signals()
        # Services that start together would each compile what they share.
        if not are_compiled():
            compile_missing(console)
        results = _in_memory(console, request) if in_memory else _on_kafka(console, request, follow)
    except KeyboardInterrupt as error:
        # typer exits with 130, which is that of Ctrl-C.
        if error.args:
            raise typer.Exit(EXIT_SIGNAL + error.args[0]) from None
        raise
    if results is not None:
        _finish(console, request, results, others, json)


def _on_kafka(console: Console, request: "Request", follow: bool) -> "Results | None":
    """Figures of the run; None if it is left running."""
    from services.cli.system.follow import follow as follow_run  # noqa: PLC0415
    from services.cli.system.view import view_for  # noqa: PLC0415
    from services.devcluster import launch, lifecycle  # noqa: PLC0415
    from services.devcluster.record import ROOT  # noqa: PLC0415

    writable_folder(ROOT)
    try:
        run = launch.start(request, ROOT, console.print)
    except KeyboardInterrupt:
        console.print("stopped before it was up; nothing is left running")
        raise
    if not follow:
        console.print(f"bootstrap {run.bootstrap}, simulated cluster {run.cluster_url}")
        console.print("it decides as soon as hirl status says ready, within a minute or so")
        console.print("inspect: hirl status, hirl tail budgets, hirl explain APP; stop: hirl down")
        return None
    try:
        return follow_run(ROOT, run, view_for(console, run.simulation))
    # Also after Ctrl-C or an error: no broker or service may be left behind.
    finally:
        console.print("stopping ...")
        lifecycle.stop(ROOT)
        console.print(f"stopped; logs in {run.folder}/logs", soft_wrap=True)


def _check_memory(request: "Request", follow: bool) -> None:
    if not follow:
        raise InputError("--detach: the memory bus lives in this process, use --bus kafka")
    if request.secure or request.brokers != 1:
        raise InputError("--brokers, --secure: the memory bus has no brokers, use --bus kafka")


def _in_memory(console: Console, request: "Request") -> "Results | None":
    from services.cli.system.follow import follow_memory  # noqa: PLC0415
    from services.cli.system.view import view_for  # noqa: PLC0415
    from services.devcluster.memory import memory_system  # noqa: PLC0415

    system, simulation = memory_system(request, console.print)
    pace = request.wall_seconds(simulation.tick_seconds)
    return follow_memory(system, simulation, view_for(console, simulation), pace)


def _finish(
    console: Console,
    request: "Request",
    results: "Results",
    others: Sequence[str],
    json: Path | None,
) -> None:
    for finding in results.failures:
        console.print(f"{finding.name}: {finding.explanation}", soft_wrap=not console.is_terminal)
    if others:
        _compare(console, request, others, results)
    else:
        for row in results.rows:
            title = f"{row.scenario} under our services, seed {row.seed}"
            console.print(table(title, ("figure", "value"), figures(row)))
    if json is not None:
        write_json(json, results)


def _compare(
    console: Console, request: "Request", names: Sequence[str], results: "Results"
) -> None:
    """Run other controllers in the same world, in this process, and print all side by side."""
    lanes = []
    with progress("the same world under other controllers", len(names), console) as advance:
        for name in names:
            lanes.append(_play(request, name))
            advance(1)
    # Ours last: the first named controller is the reference of the ratios.
    rows = [*(lane.result() for lane in lanes), replace(results.rows[0], controller=_OURS)]
    failures = [*(len(lane.findings()) for lane in lanes), len(results.failures)]
    console.print(final_table(f"{request.scenario}, seed {request.seed}", rows, failures))
    print_line(console, READING.format(reference=names[0]))
    print_line(console, winner(rows))


def _play(request: "Request", name: str) -> Lane:
    cluster, scenario = request.load()
    # The hashes identify stored results, and these are not stored.
    lane = Lane(Job(name, cluster, scenario, (request.seed,), False, "", ""))
    while not lane.finished:
        lane.step()
    return lane
