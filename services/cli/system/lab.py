"""`hirl lab`: a real Kubernetes control plane on this machine, for trials and tests."""

import asyncio
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from models.inputs.errors import InputError
from models.sim.config.scenario import load_scenario
from services.cli.commands import examples
from services.cli.named_options import ScenarioOption
from services.cli.options import JsonOption, SeedOption, folder_of, writable_folder
from services.cli.output import Cell, plain_console, table, write_json
from services.lab import build as programs
from services.lab import controlplane
from services.lab.controlplane import HOME, Lab
from services.lab.world import report
from services.lab.world.load import lab_cluster
from services.lab.world.play import Play, play
from services.lab.world.report import Figures

WORLD_HOME: Final = Path(".hirl/world")
"""Not that of `hirl lab up`: each run begins with an empty one."""

HomeOption = Annotated[
    Path,
    typer.Option(
        "--home",
        metavar="DIR",
        callback=folder_of,
        help="Folder of the lab; one lab per folder.",
    ),
]


@examples(
    "hirl lab build",
    "hirl lab build --all",
)
def build(
    everything: Annotated[
        bool, typer.Option("--all", help="Scheduler, controller manager and Karpenter, too.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """Build etcd, the API server and Helm from their Go modules, once, into a cache."""
    console = plain_console()
    names = programs.CONTROL_PLANE if everything else programs.API_SERVER
    folder = programs.build(names, notify=console.print)
    console.print(f"Kubernetes {programs.kubernetes_version()}: {', '.join(names)} in {folder}")
    others = [programs.HELM, programs.KARPENTER] if everything else [programs.HELM]
    programs.build(others, notify=console.print)
    console.print(f"Helm: {programs.helm()}")
    if json:
        found = {"folder": str(folder), "programs": list(names), "helm": str(programs.helm())}
        write_json(json, found)


@examples(
    "hirl lab up",
    "KUBECONFIG=.hirl/lab/admin.kubeconfig kubectl get namespaces",
)
def up(home: HomeOption = HOME, json: JsonOption = None) -> None:
    """Start a real API server with etcd on loopback; a running one stays as it is."""
    writable_folder(home)
    console = plain_console()
    lab = controlplane.start(home, notify=console.print)
    _print(console, lab)
    if json:
        write_json(json, lab)


@examples(
    "hirl lab down --wipe",
)
def down(
    home: HomeOption = HOME,
    wipe: Annotated[
        bool, typer.Option("--wipe", help="Remove its keys, data, logs and audit log, too.")
    ] = False,
) -> None:
    """Stop the processes that `up` started, and no other process."""
    stopped = controlplane.stop(home, wipe=wipe)
    plain_console().print(f"stopped {stopped} process(es) of {home}")


@examples(
    "hirl lab run --scenario infra/lab/scenarios/flash-sale.yaml --controller hpa --speed 3",
    "hirl lab run --scenario infra/lab/scenarios/flash-sale.yaml --controller hirl --seed 1",
)
def run(
    scenario: ScenarioOption,
    controller: Annotated[
        str, typer.Option("--controller", metavar="NAME", help="hpa (the real one) or hirl.")
    ] = "hirl",
    seed: SeedOption = 0,
    apps: Annotated[int, typer.Option("--apps", min=5, metavar="N", help="Deployments.")] = 40,
    pods: Annotated[
        int, typer.Option("--pods", min=40, metavar="N", help="Pods at the daily peak.")
    ] = 500,
    speed: Annotated[
        float,
        typer.Option(
            "--speed", min=0.5, max=10, metavar="X", help="Times real time, for both sides."
        ),
    ] = 1.0,
    home: HomeOption = WORLD_HOME,
    json: JsonOption = None,
) -> None:
    """Play a scenario on a real control plane, with the simulator's figures beside it."""
    if controller not in report.SIMULATED:
        raise InputError(f"--controller: expected hpa or hirl, got {controller}")
    writable_folder(home)
    # Before the lab of an earlier run is wiped, and before minutes of building.
    load_scenario(scenario, lab_cluster(apps, pods))
    console = plain_console()
    wanted = Play(scenario, seed, controller, apps, pods, speed)
    controlplane.stop(home, wipe=True)
    lab = controlplane.start(home, console.print, whole=True, speed=speed)
    try:
        tally = asyncio.run(play(lab, wanted, console.print))
    finally:
        controlplane.stop(home)
    made = report.changes(lab.audit_log, tally.began_at)
    rows = [report.figures(wanted, tally, made.total()), report.predicted(wanted)]
    console.print(_compared(rows))
    if json:
        write_json(json, {"play": wanted.__dict__, "rows": rows, "changes": dict(made)})


def _compared(rows: list[Figures]) -> Table:
    columns = ["world", "P0", "P1", "node-h", "actions", "pending", "most", "late"]
    cells: list[list[Cell]] = [
        [
            row.world, row.p0_minutes, row.p1_minutes, row.node_hours, row.actions,
            row.mean_pending, row.most_pending, row.late_ticks,
        ]
        for row in rows
    ]  # fmt: skip
    return table("Violation minutes, nodes and pods", columns, cells)


def _print(console: Console, lab: Lab) -> None:
    console.print(f"Kubernetes {lab.version} runs at {lab.server}")
    console.print(f"kubeconfig  {lab.kubeconfig}")
    console.print(f"audit log   {lab.audit_log}")
    console.print("no scheduler and no kubelets: Deployments are stored and scaled, not run")
