"""`hirl kubernetes`: what an operator does to a cluster that HiRL-Scale is installed on."""

from typing import Annotated

import typer

from services.admin.release import Kubectl, Release, adopted, hand_back
from services.cli.commands import examples
from services.cli.options import JsonOption
from services.cli.output import plain_console, write_json

NamespaceOption = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NAME", help="Only this one; default: all.")
]
ContextOption = Annotated[
    str, typer.Option("--context", metavar="NAME", help="Of your kubeconfig; default: the current.")
]


@examples(
    "hirl kubernetes release --dry-run",
    "hirl kubernetes release --namespace shop --keep-replicas",
)
def release(
    namespace: NamespaceOption = "",
    context: ContextOption = "",
    keep_replicas: Annotated[
        bool, typer.Option("--keep-replicas", help="Leave the replicas as they are now.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Ask the API server, and change nothing.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """Hand adopted workloads back to their owners, with the replicas that they had before."""
    kubectl = Kubectl((f"--context={context}",) if context else ())
    found = adopted(kubectl, namespace)
    done = hand_back(kubectl, found, keep_replicas=keep_replicas, dry_run=dry_run)
    console = plain_console()
    for one in done:
        console.print(_line(one))
    failed = sum(not one.is_done for one in done)
    verb = "would be handed back" if dry_run else "handed back"
    console.print(f"{len(done) - failed} of {len(done)} workload(s) {verb}")
    if json:
        write_json(json, [one._asdict() for one in done])
    raise typer.Exit(1 if failed else 0)


def _line(one: Release) -> str:
    change = "stay" if one.restored is None else f"-> {one.restored}"
    return (
        f"{one.namespace}/{one.name} ({one.kind}): {one.replicas} replicas {change}, {one.reason}"
    )
