"""`hirl race`: run controllers side by side in the same scenario, live."""

import time
from html import escape
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from models.compare import workers
from models.compare.catalogue import ENTRANTS
from models.compare.hashes import code_hashes, world_hashes
from models.compare.jobs import Job, jobs_of
from models.compare.outcome import BenchmarkOutcome, payload
from models.compare.race import Lane, Race, outcome_of
from models.compare.request import Request, controller_names
from models.jit import is_compiled
from models.sim.config.physics import load_scaled
from models.sim.config.scenario import load_scenario
from models.sim.tick import advance as tick_kernel
from services.cli.commands import examples
from services.cli.comparison.race_tables import READING, final_table, winner
from services.cli.comparison.race_view import LiveView, PlainView, View, play
from services.cli.comparison.report import Section, write_report
from services.cli.named_options import ScenarioOption
from services.cli.options import (
    WATCHED_SPEED,
    AppsOption,
    ClusterOption,
    JsonOption,
    PhysicsOption,
    ReportOption,
    SeedOption,
    SpeedOption,
)
from services.cli.output import command_line, print_line, progress, write_json
from services.cli.simulation.live import Pace, pause_of
from services.cli.simulation.report import failure_line

SCENARIO: Final = "flash-sale-20-min-early"
CONTROLLERS: Final = "hpa-calibrated,practitioner,heuristic:calendar"

ControllersOption = Annotated[
    str,
    typer.Option(
        "--controllers",
        metavar="A,B,C",
        help=f"Of {', '.join(ENTRANTS)}; the first is the reference.",
    ),
]


@examples(
    "hirl race",
    "hirl race --scenario cascade --controllers hpa,heuristic:calendar --apps 155 "
    "--speed 0 --report .hirl/report",
)
def race(
    scenario: ScenarioOption = SCENARIO,
    controllers: ControllersOption = CONTROLLERS,
    seed: SeedOption = 0,
    apps: AppsOption = None,
    cluster: ClusterOption = None,
    physics: PhysicsOption = None,
    speed: SpeedOption = None,
    json: JsonOption = None,
    report: ReportOption = None,
) -> None:
    """Run controllers side by side: the same scenario and seed, in lock-step, live.

    Ends with a table of their figures and ratios to the first. One seed shows how controllers
    differ, not how much: `hirl bench control` measures that.
    """
    # Without `emoji=False` rich would print `:calendar:` as an emoji.
    console, began = Console(emoji=False), time.monotonic()
    names = controller_names(controllers)
    sim_cluster = load_scaled(cluster, apps, physics)
    chosen = load_scenario(scenario, sim_cluster)
    # Expressed as a benchmark of one scenario and seed, so that both share tables and report.
    request = Request(sim_cluster, names, (), (chosen,), (seed,), names[0], ())
    race_run = _prepare(console, request)
    play(race_run, _view(console, race_run, speed))
    command = _command(scenario, names, cluster, physics, seed, apps)
    outcome = outcome_of(race_run, request, time.monotonic() - began, command)
    _show(console, race_run, outcome)
    if json is not None:
        failures = {lane.name: lane.findings() for lane in race_run.lanes}
        write_json(json, {**payload(outcome), "failures": failures})
    if report is not None:
        print_line(console, f"report: {_write_race(report, race_run, outcome)}")


def _prepare(console: Console, request: Request) -> Race:
    """A race before its first tick, with all kernels compiled."""
    jobs = jobs_of(request, world_hashes(request), code_hashes(request.entrants))
    _compile(console, jobs)
    return Race(jobs)


def _compile(console: Console, jobs: list[Job]) -> None:
    """Try each controller briefly, so that no kernel compiles during the live view."""
    compiling = "compiling kernels (once, about three minutes)"
    # Only the world's kernels can be checked; a controller's may still be missing.
    building = "building worlds, compiling what is new"
    doing = building if is_compiled(tick_kernel) else compiling
    with progress(doing, len(jobs), console) as advance:
        # Its estimate of the duration is not needed here.
        workers.try_out(jobs, advance)


def _view(console: Console, race: Race, speed: float | None) -> View:
    if not console.is_terminal:
        return PlainView(console, race)
    pause = pause_of(race.world.cluster.tick_seconds, WATCHED_SPEED if speed is None else speed)
    return LiveView(console, race, Pace(pause, time.monotonic, time.sleep))


def _show(console: Console, race: Race, outcome: BenchmarkOutcome) -> None:
    for lane in race.lanes:
        for finding in lane.findings():
            timeline, tick_s = lane.world.timeline, lane.world.cluster.tick_seconds
            minute = (finding.tick - timeline.warmup_ticks) * tick_s / 60
            print_line(
                console,
                f"{lane.name}: {finding.name} from minute {minute:.0f}: {finding.explanation}",
            )
    request = outcome.request
    title = f"{request.shown.name}, seed {request.seeds[0]}"
    failures = [len(lane.findings()) for lane in race.lanes]
    console.print(final_table(title, outcome.rows, failures))
    print_line(console, READING.format(reference=request.reference))
    if sentence := winner(outcome.rows):
        print_line(console, sentence)
    print_line(console, f"worlds {outcome.world_hash}; took {outcome.seconds:.0f} s")


def _command(
    scenario: str,
    names: tuple[str, ...],
    cluster: Path | None,
    physics: Path | None,
    seed: int,
    apps: int | None,
) -> str:
    values = {
        "--scenario": scenario,
        "--controllers": ",".join(names),
        "--seed": seed,
        "--cluster": cluster,
        "--physics": physics,
        "--apps": apps,
    }
    return command_line("hirl race", values)


def _write_race(folder: Path, race: Race, outcome: BenchmarkOutcome) -> Path:
    """Write the report of the race into `folder`; return the file."""
    request = outcome.request
    name = f"race-{request.shown.name}-{request.seeds[0]}.html"
    return write_report(folder, outcome, name, [_failures(race)])


def _failures(race: Race) -> Section:
    return Section(
        "Which failures occurred",
        "Stampede, cascade and priority inversion, as detected during the race; minutes count from "
        "the end of the warm-up.",
        "".join(f"<h3>{escape(lane.name)}</h3><ul>{_listed(lane)}</ul>" for lane in race.lanes),
    )


def _listed(lane: Lane) -> str:
    lines = [failure_line(lane.world, finding) for finding in lane.findings()]
    return "".join(f"<li>{line}</li>" for line in lines or ["None of the three."])
