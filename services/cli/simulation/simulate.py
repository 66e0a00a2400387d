"""`hirl simulate`: run one scenario under one controller, live, with a table at the end."""

import time
from pathlib import Path

from rich.console import Console

from models.compare.catalogue import Match, enter, entrant_of
from models.jit import is_compiled
from models.sim.config.physics import load_scaled
from models.sim.config.scenario import load_scenario
from models.sim.results.failures import FailureWatch, setting_of
from models.sim.results.recording import Recorder
from models.sim.results.summary import summarise
from models.sim.tick import advance
from models.sim.world import World
from services.cli.commands import examples
from services.cli.named_options import ControllerOption, ScenarioOption
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
from services.cli.output import table, write_json
from services.cli.simulation.live import LiveView, PlainView, View, pause_of
from services.cli.simulation.report import FinishedRun, figures, write_report


@examples(
    "hirl simulate --scenario cascade --controller hpa",
    "hirl simulate --scenario my.yaml --apps 155 --speed 0 --json result.json",
)
def simulate(
    scenario: ScenarioOption,
    controller: ControllerOption = "hpa",
    cluster: ClusterOption = None,
    physics: PhysicsOption = None,
    seed: SeedOption = 0,
    apps: AppsOption = None,
    json: JsonOption = None,
    report: ReportOption = None,
    speed: SpeedOption = None,
) -> None:
    """Run one scenario under one controller, live; ends with the table of its figures."""
    # Fail on a bad name before the world is built, which takes seconds.
    entrant_of(controller)
    sim_cluster = load_scaled(cluster, apps, physics)
    chosen = load_scenario(scenario, sim_cluster)
    console = Console()
    with _preparing(console):
        match = enter(controller, sim_cluster, chosen, [seed])
        _compile(match)
    command = _command(scenario, controller, cluster, physics, seed, apps)
    view = _view(console, match.world, controller, speed)
    finished = _run(match, controller, view, command)
    _show(console, finished)
    if json is not None:
        write_json(json, _payload(finished))
    if report is not None:
        console.print(f"report: {write_report(report, finished)}", soft_wrap=True, highlight=False)


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


def _compile(match: Match) -> None:
    """Run one tick and undo it, so that no kernel compiles during the live view."""
    world, controller = match.world, match.controller
    # Nothing is consumed: randomness is a function of the tick, so the undone tick leaves no trace.
    before = world.save()
    observation = world.observe(controller.pipeline)
    plan, _ = controller.step(observation, None, controller.start(observation))
    world.step(plan)
    world.restore(before)


def _view(console: Console, world: World, controller: str, speed: float | None) -> View:
    if not console.is_terminal:
        return PlainView(console, world, controller)
    minutes_per_s = WATCHED_SPEED if speed is None else speed
    pause = pause_of(world.cluster.tick_seconds, minutes_per_s)
    return LiveView(console, world, controller, pause, time.monotonic, time.sleep)


def _run(match: Match, controller: str, view: View, command: str) -> FinishedRun:
    world = match.world
    recorder, watch = Recorder(world), FailureWatch(setting_of(world))

    def on_tick(world: World) -> None:
        recorder(world)
        tick = world.tick - 1
        view.show(recorder.recording, tick, watch.look(recorder.recording, tick))

    with view:
        decisions = match.play(on_tick)
    (result,) = summarise(world, controller, decisions)
    findings = watch.findings(recorder.recording)
    return FinishedRun(world, world.hash, recorder.recording, findings, result, command)


def _command(
    scenario: str,
    controller: str,
    cluster: Path | None,
    physics: Path | None,
    seed: int,
    apps: int | None,
) -> str:
    parts = [f"hirl simulate --scenario {scenario} --controller {controller} --seed {seed}"]
    optional = {"--cluster": cluster, "--physics": physics, "--apps": apps}
    parts += [f"{name} {value}" for name, value in optional.items() if value is not None]
    return " ".join(parts)


def _show(console: Console, finished: FinishedRun) -> None:
    result, world = finished.result, finished.world
    for finding in finished.findings:
        minute = (finding.tick - world.timeline.warmup_ticks) * world.cluster.tick_seconds / 60
        console.print(
            f"[bold]{finding.name}[/bold] from minute {minute:.0f}: {finding.explanation}",
            highlight=False,
            soft_wrap=not console.is_terminal,
        )
    if not finished.findings:
        console.print("none of the three failure modes occurred", highlight=False)
    title = f"{result.scenario} under {result.controller}, seed {result.seed}"
    console.print(table(title, ("figure", "value"), figures(result)))
    console.print(f"world {finished.world_hash}", highlight=False)


def _payload(finished: FinishedRun) -> dict[str, object]:
    return {
        "world_hash": finished.world_hash,
        "rows": [finished.result],
        "failures": finished.findings,
        "command": finished.command,
    }
