"""`hirl train commander` and `hirl train soldier`: PPO in the simulator, resumable."""

import hashlib
import shutil
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer
from rich.console import Console

from models.inputs.errors import InputError
from models.policies.artefact import CARD, Card
from models.training.args import SOLDIER, Args, with_settings
from services.cli.commands import examples
from services.cli.options import SeedOption, folder_if_given, writable_file, writable_folder
from services.cli.output import command_line, print_line, progress, table

if TYPE_CHECKING:
    from models.training.ppo import Iteration

CHECKPOINTS: Final = Path(".hirl/training")
"""Contains a folder per kind, size and seed."""
MODELS: Final = Path(".hirl/models")
_DEFAULTS: Final = Args()


def _model_folder(path: Path) -> Path:
    writable_file(path / CARD)
    return path


OutOption = Annotated[
    Path,
    typer.Option("--out", metavar="DIR", callback=_model_folder, help="Folder of the policy."),
]
IterationsOption = Annotated[
    int,
    typer.Option(
        "--iterations", metavar="N", min=1, help="Each plays every scenario with every seed."
    ),
]
TrainAppsOption = Annotated[
    int, typer.Option("--apps", metavar="N", min=20, help="Apps of the clusters to learn in.")
]
NodesOption = Annotated[
    float | None,
    typer.Option(
        "--most-nodes",
        metavar="X",
        min=-0.5,
        max=0.5,
        help="Cap on node-hours over the heuristic's, less one: 0 is no more than it uses.",
    ),
]
DrawnOption = Annotated[
    int,
    typer.Option(
        "--drawn", metavar="N", min=0, help="Randomised worlds beside those of the example cluster."
    ),
]
SmallerOption = Annotated[
    list[int] | None,
    typer.Option(
        "--smaller",
        metavar="N",
        min=20,
        help="Begin with worlds of N apps; may be repeated, for one stage each.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Change a setting of models/training/args.py, such as potential=0.1; may be repeated.",
    ),
]
BesideOption = Annotated[
    Path | None,
    typer.Option(
        "--beside",
        metavar="DIR",
        callback=folder_if_given,
        help="Folder of a policy of the other level, to learn beside; it stays as it is.",
    ),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume/--fresh", help=f"Resume from {CHECKPOINTS}, or start again.")
]


@examples(
    "hirl train commander",
    "hirl train commander --apps 155 --most-nodes 0 --seed 1 --out .hirl/models/thrifty",
)
def commander(
    seed: SeedOption = 0,
    apps: TrainAppsOption = _DEFAULTS.apps,
    iterations: IterationsOption = _DEFAULTS.iterations,
    drawn: DrawnOption = _DEFAULTS.drawn,
    smaller: SmallerOption = None,
    most_nodes: NodesOption = None,
    beside: BesideOption = None,
    changes: SetOption = None,
    out: OutOption = MODELS / "commander",
    resume: ResumeOption = True,
) -> None:
    """Train a Commander's policy: residuals on the heuristic, rewarded against it.

    Each iteration plays the tuning scenarios and takes PPO's steps. It resumes after an
    interruption; more --iterations go on from the last state. Writes network, card and curves.
    """
    args = _DEFAULTS._replace(seed=seed, apps=apps, iterations=iterations, most_nodes=most_nodes)
    args = args._replace(
        drawn=drawn, smaller=tuple(smaller or ()), beside=str(beside) if beside else ""
    )
    _train(with_settings(args, changes or ()), out, changes or [], resume=resume)


@examples("hirl train soldier", "hirl train soldier --iterations 5 --most-nodes 0")
def soldier(
    seed: SeedOption = 0,
    apps: TrainAppsOption = SOLDIER.apps,
    iterations: IterationsOption = SOLDIER.iterations,
    drawn: DrawnOption = _DEFAULTS.drawn,
    smaller: SmallerOption = None,
    most_nodes: NodesOption = None,
    beside: BesideOption = None,
    changes: SetOption = None,
    out: OutOption = MODELS / "soldier",
    resume: ResumeOption = True,
) -> None:
    """Train the Soldiers' policy: one network for every domain, from the heuristic on.

    It learns by PPO from rewards of each app. Resumes and writes as `hirl train commander` does.
    """
    args = SOLDIER._replace(seed=seed, apps=apps, iterations=iterations, most_nodes=most_nodes)
    args = args._replace(
        drawn=drawn, smaller=tuple(smaller or ()), beside=str(beside) if beside else ""
    )
    _train(with_settings(args, changes or ()), out, changes or [], resume=resume)


def _train(args: Args, out: Path, changes: list[str], *, resume: bool) -> None:
    for module in ("torch", "onnxscript"):
        if find_spec(module) is None:
            raise InputError(
                f"training needs {module}: run `make train-env`, "
                f"then `.venv-train/bin/hirl train {args.agent}`"
            )
    # Only here: torch is not installed where models run.
    from models.training.produce import Order, produce  # noqa: PLC0415

    console = Console(emoji=False)
    checkpoints = writable_folder(CHECKPOINTS / _checkpoint_of(args))
    if not resume and checkpoints.exists():
        shutil.rmtree(checkpoints)
    order = Order(args, out, checkpoints, _command(args, changes))
    with progress("training", args.iterations, console) as advance:
        card = produce(order, _Progress(console, advance, args), time.monotonic)
    _show(console, card, args, out)


def _checkpoint_of(args: Args) -> str:
    # Ablations have folders of their own; more iterations are no other run.
    usual = SOLDIER if args.agent == SOLDIER.agent else _DEFAULTS
    other = args._replace(iterations=usual.iterations, seed=usual.seed, apps=usual.apps)
    digest = hashlib.sha256(msgspec.json.encode(other)).hexdigest()[:6]
    return f"{args.agent}-{args.apps}-{args.seed}" + ("" if other == usual else f"-{digest}")


class _Progress:
    """Prints a line per judgement, and moves a bar for iterations."""

    def __init__(self, console: Console, advance: Callable[[int], None], args: Args) -> None:
        self._console, self._advance, self._args = console, advance, args
        self._done = 0

    def prepared(self, scenario: str) -> None:
        """Print a line for a world."""
        print_line(self._console, f"warmed up: {scenario}")

    def played(self) -> None:
        """Too short for the bar."""

    def learned(self, iteration: "Iteration") -> None:
        """Move the bar; after a resumption by all earlier iterations at once."""
        self._advance(iteration.iteration + 1 - self._done)
        self._done = iteration.iteration + 1
        judged = "" if iteration.judged is None else f"; judged J {iteration.judged:+.2%}"
        print_line(
            self._console,
            f"iteration {self._done}: J {iteration.objective:+.2%}, "
            f"P0 {iteration.p0_minutes:+.2f} min, nodes {iteration.nodes:+.2%}{judged}",
        )


def _command(args: Args, changes: list[str]) -> str:
    given = {
        "--seed": args.seed, "--apps": args.apps, "--iterations": args.iterations,
        "--drawn": args.drawn, "--most-nodes": args.most_nodes,
        "--beside": args.beside or None,
    }  # fmt: skip
    more = [f"--smaller {apps}" for apps in args.smaller] + [f"--set {one}" for one in changes]
    return " ".join((command_line(f"hirl train {args.agent}", given), *more, "--fresh"))


def _show(console: Console, card: Card, args: Args, out: Path) -> None:
    judged = [(at + 1, row) for at, row in enumerate(card.curve) if row["judged"] is not None]
    rows = [
        (at, f"{row['judged']:+.2%}", f"{row['judged_p0']:+.2f}", f"{row['judged_nodes']:+.2%}")
        for at, row in judged[-10:]
    ]
    title = "Judged without noise, over the heuristic"
    console.print(table(title, ("iteration", "J", "P0 minutes", "node-hours"), rows))
    for note in card.notes:
        print_line(console, note)
    print_line(
        console,
        f"{card.model}: ONNX within {card.parity:.1e}; {card.minutes:.0f} minutes; written: {out}",
    )
    print_line(console, f"next: hirl bench policy --{args.agent} {out} --apps {args.apps}")
