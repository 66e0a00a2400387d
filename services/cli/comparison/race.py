"""`hirl race`: controllers side by side in the same scenario, tick by tick, live."""

import shlex
import time
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from models.compare import pool
from models.compare.catalogue import ENTRANTS, entrant_of
from models.compare.hashes import code_hashes, world_hashes
from models.compare.jobs import Job, jobs_of
from models.compare.outcome import Outcome
from models.compare.race import Race
from models.compare.request import Request
from models.inputs.errors import InputError
from models.jit import is_compiled
from models.sim.config.physics import load_scaled
from models.sim.config.scenario import load_scenario
from models.sim.tick import advance as tick_kernel
from services.cli.comparison.files import payload
from services.cli.comparison.race_report import outcome_of, write_race
from services.cli.comparison.race_tables import READING, final_table
from services.cli.comparison.race_view import LiveView, PlainView, View, play
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
from services.cli.output import progress, write_json
from services.cli.simulation.live import Pace, pause_of

SCENARIO: Final = "flash-sale-20-min-early"
CONTROLLERS: Final = "hpa-calibrated,rules,heuristic:calendar"
EXAMPLES = (
    "Examples: [bold]hirl race[/bold], [bold]hirl race --scenario cascade "
    "--controllers hpa,heuristic:calendar --apps 155 --speed 0 --report .hirl/report[/bold]"
)

ControllersOption = Annotated[
    str,
    typer.Option(
        "--controllers",
        metavar="A,B,C",
        help=f"Of {', '.join(ENTRANTS)}; the others are compared with the first.",
    ),
]


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
    # `heuristic:calendar:` must not become a picture of a calendar.
    console, began = Console(emoji=False), time.monotonic()
    names = distinct(controllers)
    described = load_scaled(cluster, apps, physics)
    chosen = load_scenario(scenario, described)
    request = Request(described, names, (), (chosen,), (seed,), names[0], ())
    under_way = _prepared(console, request)
    play(under_way, _view(console, under_way, speed))
    command = _command(scenario, names, cluster, physics, seed, apps)
    outcome = outcome_of(under_way, request, time.monotonic() - began, command)
    _show(console, under_way, outcome)
    if json is not None:
        failures = {lane.name: lane.findings() for lane in under_way.lanes}
        write_json(json, {**payload(outcome), "failures": failures})
    if report is not None:
        _say(console, f"report: {write_race(report, under_way, outcome)}")


def distinct(text: str) -> tuple[str, ...]:
    """Names of controllers, separated by commas; each is known and stands there once."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise InputError(f"controllers: expected at least one name, got {text!r}")
    for name in names:
        entrant_of(name)
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"controllers: {twice[0]}: expected each controller once")
    return names


def _prepared(console: Console, request: Request) -> Race:
    """Worlds at their first tick, every kernel that they will need compiled."""
    jobs = jobs_of(request, world_hashes(request), code_hashes(request.entrants))
    _compile(console, jobs)
    return Race(jobs)


def _compile(console: Console, jobs: list[Job]) -> None:
    """Try each controller out for a moment, so that no kernel is compiled under the live view."""
    compiling = "compiling kernels (once, about three minutes)"
    # Only those of the world can be looked for; a controller's may be missing all the same.
    building = "building worlds, compiling what is new"
    doing = building if is_compiled(tick_kernel) else compiling
    with progress(doing, len(jobs), console) as advance:
        pool.try_out(jobs, advance)


def _view(console: Console, race: Race, speed: float | None) -> View:
    if not console.is_terminal:
        return PlainView(console, race)
    pause = pause_of(race.world.cluster.tick_seconds, WATCHED_SPEED if speed is None else speed)
    return LiveView(console, race, Pace(pause, time.monotonic, time.sleep))


def _show(console: Console, race: Race, outcome: Outcome) -> None:
    for lane in race.lanes:
        for finding in lane.findings():
            timeline, tick_s = lane.world.timeline, lane.world.cluster.tick_seconds
            minute = (finding.tick - timeline.warmup_ticks) * tick_s / 60
            _say(
                console,
                f"{lane.name}: {finding.name} from minute {minute:.0f}: {finding.explanation}",
            )
    request = outcome.request
    title = f"{request.shown.name}, seed {request.seeds[0]}"
    failures = [len(lane.findings()) for lane in race.lanes]
    console.print(final_table(title, outcome.rows, failures))
    _say(console, READING.format(reference=request.reference))
    _say(console, f"worlds {outcome.world_hash}; took {outcome.seconds:.0f} s")


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
    given = [f"{k} {shlex.quote(str(value))}" for k, value in values.items() if value is not None]
    return " ".join(["hirl race", *given])


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=not console.is_terminal)
