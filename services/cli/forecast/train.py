"""`hirl train forecaster`: make the shipped model again, or one of your own."""

import shutil
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from models.forecaster.learned.artefact import Card
from models.forecaster.training.args import Args
from models.forecaster.training.corpus import RECORDED, Part, corpus
from models.inputs.errors import InputError
from models.sim.config.physics import load_sim_cluster
from services.cli.options import SeedOption
from services.cli.output import progress, table
from services.cli.targets import writable_file

if TYPE_CHECKING:
    from models.forecaster.training.train import Epoch

app = typer.Typer(
    no_args_is_help=True, help="Train models; needs the environment of `make train-env`."
)
CHECKPOINTS: Final = Path(".hirl/training/forecaster")
"""A folder in it for each seed."""
EXAMPLES = (
    "Examples: [bold]hirl train forecaster[/bold] learns from simulated months alone, "
    "[bold]hirl train forecaster --traces ../traces --seed 1 --out .hirl/model[/bold]"
)
_DEFAULTS: Final = Args()


def _trace_folder(path: Path | None) -> Path | None:
    """The folder with the recorded files; they may stand in a folder `dev` of it."""
    if path is None or (path / RECORDED[0].file).exists():
        return path
    if (path / "dev" / RECORDED[0].file).exists():
        return path / "dev"
    raise InputError(f"{path}: expected a folder with {RECORDED[0].file} and the other traces")


def _model_folder(path: Path) -> Path:
    writable_file(path / "card.json")
    return path


TracesOption = Annotated[
    Path | None,
    typer.Option(
        "--traces",
        metavar="DIR",
        callback=_trace_folder,
        help="Folder with recorded traffic to learn from as well; the last fifth is kept out.",
    ),
]
OutOption = Annotated[
    Path,
    typer.Option("--out", metavar="DIR", callback=_model_folder, help="Folder of the model."),
]
EpochsOption = Annotated[int, typer.Option("--epochs", metavar="N", min=1, help="At most so many.")]
ThreadsOption = Annotated[
    int,
    typer.Option(
        "--threads",
        metavar="N",
        min=1,
        help="The same seed gives the same model for one number of threads.",
    ),
]
ResumeOption = Annotated[
    bool,
    typer.Option("--resume/--fresh", help=f"Go on from {CHECKPOINTS}, or begin anew."),
]


@app.command(epilog=EXAMPLES)
def forecaster(
    traces: TracesOption = None,
    out: OutOption = Path(".hirl/models/forecaster"),
    seed: SeedOption = 0,
    epochs: EpochsOption = _DEFAULTS.epochs,
    threads: ThreadsOption = _DEFAULTS.threads,
    resume: ResumeOption = True,
) -> None:
    """Train the forecaster on simulated months and recorded traffic.

    Stops when nothing gets better, goes on where it was stopped, and leaves a folder with the
    network as ONNX, its card and its curves. Up to an hour on two cores.
    """
    _check_torch()
    # Only here: torch is not installed where models run.
    from models.forecaster.training.produce import Order, produce  # noqa: PLC0415

    console = Console(emoji=False)
    if not resume:
        _forget(CHECKPOINTS / str(seed))
    args = Args(seed=seed, epochs=epochs, threads=threads)
    order = Order(args, out, CHECKPOINTS / str(seed), _command(traces, seed, epochs, threads))
    parts = corpus(load_sim_cluster(), traces)
    with progress("training", args.members * epochs * args.steps, console) as advance:
        card = produce(parts, order, Watching(console, advance, args), time.monotonic)
    _show(console, card, out, epochs)


class Watching:
    """Lines for parts and epochs, and a bar for steps."""

    def __init__(self, console: Console, advance: Callable[[int], None], args: Args) -> None:
        self._console, self._advance, self._args = console, advance, args
        self._done = self._before = 0

    def part(self, part: Part) -> None:
        """A line for a part of the data."""
        minutes = sum(series.rps.size for series in part.series)
        self._say(f"data: {part.name}: {len(part.series)} series, {minutes:,} minutes")

    def begun(self, seed: int) -> None:
        """A line for a member; the bar leaves out what an earlier one did not need."""
        member = seed - self._args.seed * self._args.members
        self._say(f"member {member + 1} of {self._args.members}")
        self._before = member * self._args.epochs * self._args.steps

    def step(self, epoch: int, step: int, loss: float) -> None:  # noqa: ARG002  shown per epoch
        """The bar moves; after a resumption by all that was done before."""
        done = self._before + epoch * self._args.steps + step + 1
        self._advance(done - self._done)
        self._done = done

    def judged(self, epoch: "Epoch") -> None:
        """A line for an epoch."""
        losses = f"loss {epoch.learned:.5f}, judged {epoch.judged:.5f}"
        self._say(f"epoch {epoch.epoch + 1}: {losses}")

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False)


def _forget(checkpoints: Path) -> None:
    if checkpoints.exists():
        shutil.rmtree(checkpoints)


def _check_torch() -> None:
    for module in ("torch", "onnxscript"):
        if find_spec(module) is None:
            raise InputError(
                f"training needs {module}: run `make train-env`, "
                "then `.venv-train/bin/hirl train forecaster`"
            )


def _command(traces: Path | None, seed: int, epochs: int, threads: int) -> str:
    """Without the place of the traces, which is another one elsewhere."""
    recorded = " --traces DIR" if traces else ""
    return (
        f"hirl train forecaster{recorded} --seed {seed} --epochs {epochs} --threads {threads} "
        "--fresh"
    )


def _show(console: Console, card: Card, out: Path, epochs: int) -> None:
    rows = [
        (each.part, each.series, each.minutes, each.windows, f"{each.share:.0%}")
        for each in card.learned
    ]
    columns = ("part", "series", "minutes", "windows", "of an epoch")
    console.print(table("Learned from", columns, rows))
    for number, curve in enumerate(card.curves, start=1):
        best = min(curve, key=lambda epoch: epoch[2])
        early = "" if len(curve) >= epochs else ", stopped early"
        console.print(
            f"member {number}: {len(curve)} epochs{early}, best {best[0] + 1} "
            f"(judged {best[2]:.5f})",
            highlight=False,
        )
    console.print(
        f"{card.model}: {card.parameters:,} parameters; ONNX within {card.parity:.1e}; "
        f"{card.minutes:.0f} minutes\nwritten: {out}\n"
        f"next: hirl bench forecast --series FILE --artefact {out}",
        highlight=False,
        soft_wrap=True,
    )
