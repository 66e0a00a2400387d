"""`hirl lab`: a real Kubernetes control plane on this machine, for trials and tests."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from services.cli.commands import examples
from services.cli.options import JsonOption, folder_of, writable_folder
from services.cli.output import plain_console, write_json
from services.lab import build as programs
from services.lab import controlplane
from services.lab.controlplane import HOME, Lab

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
        bool, typer.Option("--all", help="Scheduler and controller manager, too.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """Build etcd and the API server from their Go modules, once, into a cache."""
    console = plain_console()
    names = programs.EVERYTHING if everything else programs.API_SERVER
    folder = programs.build(names, notify=console.print)
    console.print(f"Kubernetes {programs.kubernetes_version()}: {', '.join(names)} in {folder}")
    if json:
        write_json(json, {"folder": str(folder), "programs": list(names)})


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


def _print(console: Console, lab: Lab) -> None:
    console.print(f"Kubernetes {lab.version} runs at {lab.server}")
    console.print(f"kubeconfig  {lab.kubeconfig}")
    console.print(f"audit log   {lab.audit_log}")
    console.print("no scheduler and no kubelets: Deployments are stored and scaled, not run")
