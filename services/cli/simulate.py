"""`hirl simulate`: one scenario under one controller, live, with the table at the end."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from models.control.catalogue import Contest, enter, entrant_of
from models.jit import is_compiled
from models.sim.describe.config import load_cluster, with_apps
from models.sim.describe.errors import InputError
from models.sim.describe.scenario import load_scenario, scenario_names
from models.sim.outcome.failures import FailureWatch, setting_of
from models.sim.outcome.recording import Recorder
from models.sim.outcome.results import summarise
from models.sim.tick import advance
from models.sim.world import World
from services.cli.live import LiveView, PlainView, View
from services.cli.options import (
    ClusterOption,
    ControllerOption,
    JsonOption,
    ReportOption,
    SeedOption,
)
from services.cli.outcome import Outcome, figures
from services.cli.output import table, write_json
from services.cli.report import write_report

_WATCHED_SPEED = 6.0
"""Simulated minutes per second that eyes can follow."""
EXAMPLES = (
    "Examples: [bold]hirl simulate --scenario cascade --controller hpa[/bold], "
    "[bold]hirl simulate --scenario my.yaml --apps 155 --speed 0 --json result.json[/bold]"
)

ScenarioOption = Annotated[
    str,
    typer.Option(
        "--scenario",
        metavar="S",
        help=f"A path to a scenario file, or one of {', '.join(scenario_names())}.",
    ),
]
AppsOption = Annotated[
    int | None,
    typer.Option(
        "--apps",
        metavar="N",
        min=1,
        help="Scale the cluster to so many apps; as the cluster file says when not given.",
    ),
]
SpeedOption = Annotated[
    float | None,
    typer.Option(
        "--speed",
        metavar="X",
        min=0.0,
        help="Simulated minutes per second, 0 for as fast as it goes; "
        f"{_WATCHED_SPEED:g} when not given and somebody watches.",
    ),
]


def simulate(
    scenario: ScenarioOption,
    controller: ControllerOption = "hpa",
    cluster: ClusterOption = None,
    seed: SeedOption = 0,
    apps: AppsOption = None,
    json: JsonOption = None,
    report: ReportOption = None,
    speed: SpeedOption = None,
) -> None:
    """Run one scenario under one controller and watch it; ends with the table of its figures."""
    entrant_of(controller)
    described = load_cluster(cluster)
    if apps is not None:
        described = with_apps(described, _enough(apps, len(described.domains)))
    chosen = load_scenario(scenario, described)
    console = Console()
    with _preparing(console):
        contest = enter(controller, described, chosen, [seed])
        _compile(contest)
    command = _command(scenario, controller, cluster, seed, apps)
    view = _view(console, contest.world, controller, speed)
    outcome = _run(contest, controller, view, command)
    _show(console, outcome)
    if json is not None:
        write_json(json, _payload(outcome))
    if report is not None:
        console.print(f"report: {write_report(report, outcome)}", soft_wrap=True, highlight=False)


def _enough(apps: int, domains: int) -> int:
    if apps < domains:
        raise InputError(f"apps: expected at least {domains}, one per domain, got {apps}")
    return apps


def _preparing(console: Console) -> "_Status":
    compiling = "compiling kernels (once, one to two minutes)"
    return _Status(console, "building the world" if is_compiled(advance) else compiling)


class _Status:
    """A spinner on a terminal, a line elsewhere."""

    def __init__(self, console: Console, text: str) -> None:
        self._console, self._text = console, text
        self._spinner = console.status(text) if console.is_terminal else None

    def __enter__(self) -> None:
        if self._spinner is not None:
            self._spinner.start()
        else:
            self._console.print(f"{self._text} ...", highlight=False)

    def __exit__(self, *_: object) -> None:
        if self._spinner is not None:
            self._spinner.stop()


def _compile(contest: Contest) -> None:
    """Take one tick and take it back, so that no kernel is compiled under the live view."""
    world, brain = contest.world, contest.controller
    before = world.save()
    seen = world.observe(brain.pipeline)
    plan, _ = brain.step(seen, None, brain.start(seen))
    world.step(plan)
    world.restore(before)


def _view(console: Console, world: World, controller: str, speed: float | None) -> View:
    if not console.is_terminal:
        return PlainView(console, world, controller)
    minutes_per_s = _WATCHED_SPEED if speed is None else speed
    pause = world.cluster.tick_seconds / 60 / minutes_per_s if minutes_per_s > 0 else 0.0
    return LiveView(console, world, controller, pause, time.monotonic, time.sleep)


def _run(contest: Contest, controller: str, view: View, command: str) -> Outcome:
    world = contest.world
    recorder, watch = Recorder(world), FailureWatch(setting_of(world))

    def on_tick(world: World) -> None:
        recorder(world)
        tick = world.tick - 1
        view.show(recorder.recording, tick, watch.look(recorder.recording, tick))

    with view:
        decisions = contest.play(on_tick)
    (result,) = summarise(world, controller, decisions)
    findings = watch.findings(recorder.recording)
    return Outcome(world, world.hash, recorder.recording, findings, result, command)


def _command(
    scenario: str, controller: str, cluster: Path | None, seed: int, apps: int | None
) -> str:
    parts = [f"hirl simulate --scenario {scenario} --controller {controller} --seed {seed}"]
    if cluster is not None:
        parts.append(f"--cluster {cluster}")
    if apps is not None:
        parts.append(f"--apps {apps}")
    return " ".join(parts)


def _show(console: Console, outcome: Outcome) -> None:
    result, world = outcome.result, outcome.world
    for finding in outcome.findings:
        minute = (finding.tick - world.timeline.warmup_ticks) * world.cluster.tick_seconds / 60
        console.print(
            f"[bold]{finding.name}[/bold] from minute {minute:.0f}: {finding.explanation}",
            highlight=False,
            soft_wrap=not console.is_terminal,
        )
    if not outcome.findings:
        console.print("none of the three failure modes occurred", highlight=False)
    title = f"{result.scenario} under {result.controller}, seed {result.seed}"
    console.print(table(title, ("figure", "value"), figures(result)))
    console.print(f"world {outcome.world_hash}", highlight=False)


def _payload(outcome: Outcome) -> dict[str, object]:
    return {
        "world_hash": outcome.world_hash,
        "rows": [outcome.result],
        "failures": outcome.findings,
        "command": outcome.command,
    }
