"""`hirl train`: train the forecaster, or fit a corrector to a model's errors."""

import shutil
import time
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from models.cluster.calendar import DAY_MINUTES
from models.forecaster.data.load import load
from models.forecaster.learned import corrector as correction
from models.forecaster.learned.artefact import CORRECTOR, SHIPPED, Card, load_artefact, seal
from models.forecaster.series import Series
from models.forecaster.training.args import Args
from models.forecaster.training.corpus import LEARNED_SHARE, RECORDED, Part, corpus
from models.forecaster.training.corrector import Made, make
from models.inputs.errors import InputError
from models.sim.config.physics import load_sim_cluster
from services.cli.commands import examples
from services.cli.options import SeedOption, writable_file, writable_folder
from services.cli.output import progress, table, writing

if TYPE_CHECKING:
    from models.forecaster.training.train import Epoch

CHECKPOINTS: Final = Path(".hirl/training/forecaster")
"""Contains a folder per seed."""
LEAST_DAYS: Final = 3
_DEFAULTS: Final = Args()


def _trace_folder(path: Path | None) -> Path | None:
    """The folder with the recorded files, or the folder `dev` in it."""
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
        help="Folder with recorded traffic to learn from, too; the last fifth is held out.",
    ),
]
OutOption = Annotated[
    Path,
    typer.Option("--out", metavar="DIR", callback=_model_folder, help="Folder of the model."),
]
EpochsOption = Annotated[
    int, typer.Option("--epochs", metavar="N", min=1, help="Most epochs to train.")
]
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
    typer.Option("--resume/--fresh", help=f"Resume from {CHECKPOINTS}, or start again."),
]


SeriesOption = Annotated[
    list[Path],
    typer.Option(
        "--series", metavar="FILE", help="Recorded traffic by the minute; repeat it for more files."
    ),
]
CalendarOption = Annotated[
    list[str],
    typer.Option("--calendar", metavar="FILE=FILE", help="What was announced about a file."),
]
ArtefactOption = Annotated[
    Path,
    typer.Option("--artefact", metavar="DIR", help="Folder of the model to correct."),
]
ShareOption = Annotated[
    float,
    typer.Option(
        "--share",
        min=0.1,
        max=1.0,
        metavar="X",
        help="Share of each series to use, from its beginning.",
    ),
]


@examples(
    "hirl train forecaster", "hirl train forecaster --traces ../traces --seed 1 --out .hirl/model"
)
def forecaster(
    traces: TracesOption = None,
    out: OutOption = Path(".hirl/models/forecaster"),
    seed: SeedOption = 0,
    epochs: EpochsOption = _DEFAULTS.epochs,
    threads: ThreadsOption = _DEFAULTS.threads,
    resume: ResumeOption = True,
) -> None:
    """Train the forecaster on simulated months and recorded traffic.

    Stops early when nothing improves, resumes after an interruption, and writes a folder with the
    network as ONNX, its card and its curves. Takes up to an hour on two cores.
    """
    _check_torch()
    # Only here: torch is not installed where models run.
    from models.forecaster.training.produce import TrainingJob, produce  # noqa: PLC0415

    console = Console(emoji=False)
    writable_folder(CHECKPOINTS)
    if not resume:
        _remove(CHECKPOINTS / str(seed))
    args = Args(seed=seed, epochs=epochs, threads=threads)
    order = TrainingJob(args, out, CHECKPOINTS / str(seed), _command(traces, seed, epochs, threads))
    parts = corpus(load_sim_cluster(), traces)
    with progress("training", args.members * epochs * args.steps, console) as advance:
        card = produce(parts, order, TrainingProgress(console, advance, args), time.monotonic)
    _show(console, card, out, epochs)


@examples(
    "hirl train corrector --series traffic.csv --artefact .hirl/model",
    "hirl train corrector --series a.csv --series b.csv --calendar a.csv=events.csv",
)
def corrector(
    series: SeriesOption,
    calendar: CalendarOption = [],  # noqa: B006  typer reads it once
    artefact: ArtefactOption = SHIPPED,
    share: ShareOption = LEARNED_SHARE,
) -> None:
    """Fit a corrector to the model's forecasts of recorded traffic and their errors.

    The earlier part of the traffic is for fitting, the later for judging. A corrector that does
    not help there is written but not used. Its inputs are the network's hidden state and the last
    twelve errors.
    """
    console = Console(emoji=False)
    model = load_artefact(artefact)
    writable_file(artefact / CORRECTOR)
    calendars = dict(_pair(text) for text in calendar)
    read = [each for path in series for each in load(path, calendars.get(path.name))]
    usable = [
        # The corrector learns from the last twelve errors minute by minute.
        each
        for each in read
        if each.step_min == 1 and each.rps.size > LEAST_DAYS * DAY_MINUTES
    ]
    if not usable:
        raise InputError(
            f"no series has one-minute steps and {LEAST_DAYS} days or more: pass other files"
        )
    stretches = [_stretch(each, share) for each in usable]
    until = max(each.origin_min + end for each, _, end in stretches)
    with progress("fitting", 1, console) as advance:
        made = make(model.session, stretches, ", ".join(each.name for each in usable), until)
        advance(1)
    with writing(artefact / CORRECTOR):
        correction.save(made.corrector, artefact / CORRECTOR)
        seal(artefact, version("hirl-scale"))
    _show_corrector(console, made, artefact / CORRECTOR)


class TrainingProgress:
    """Prints lines for data parts and epochs, and moves a bar for steps."""

    def __init__(self, console: Console, advance: Callable[[int], None], args: Args) -> None:
        self._console, self._advance, self._args = console, advance, args
        self._done = self._before = 0

    def part(self, part: Part) -> None:
        """Print a line for a part of the data."""
        minutes = sum(series.rps.size for series in part.series)
        self._print(f"data: {part.name}: {len(part.series)} series, {minutes:,} minutes")

    def begun(self, seed: int) -> None:
        """Print a line for a member; the bar skips epochs that an earlier member did not need."""
        # Member m of run s is trained with the seed s x members + m.
        member = seed - self._args.seed * self._args.members
        self._print(f"member {member + 1} of {self._args.members}")
        self._before = member * self._args.epochs * self._args.steps

    def step(self, epoch: int, step: int, loss: float) -> None:  # noqa: ARG002  shown per epoch
        """Move the bar; after a resumption by all earlier steps at once."""
        done = self._before + epoch * self._args.steps + step + 1
        # Absolute positions: a resumed run skips steps, an early stop skips epochs.
        self._advance(done - self._done)
        self._done = done

    def epoch_ended(self, epoch: "Epoch") -> None:
        """Print a line for an epoch."""
        losses = f"loss {epoch.training_loss:.5f}, validation {epoch.validation_loss:.5f}"
        self._print(f"epoch {epoch.epoch + 1}: {losses}")

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False)


def _remove(checkpoints: Path) -> None:
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
    """Without the path of the traces, which differs between machines."""
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
        # Columns of a curve: epoch, training loss, validation loss.
        best = min(curve, key=lambda epoch: epoch[2])
        early = "" if len(curve) >= epochs else ", stopped early"
        console.print(
            f"member {number}: {len(curve)} epochs{early}, best {best[0] + 1} "
            f"(validation {best[2]:.5f})",
            highlight=False,
        )
    console.print(
        f"{card.model}: {card.parameters:,} parameters; ONNX within {card.parity:.1e}; "
        f"{card.minutes:.0f} minutes\nwritten: {out}\n"
        f"next: hirl bench forecast --series FILE --artefact {out}",
        highlight=False,
        soft_wrap=True,
    )


def _pair(text: str) -> tuple[str, Path]:
    about, _, calendar = text.partition("=")
    if not calendar:
        raise InputError(f"--calendar {text}: expected FILE=FILE, the series and its calendar")
    return Path(about).name, Path(calendar)


def _stretch(series: Series, share: float) -> tuple[Series, int, int]:
    """The last half of the usable part: older traffic is less representative."""
    end = int(series.rps.size * share)
    return series, max(DAY_MINUTES, end // 2), end


def _show_corrector(console: Console, made: Made, path: Path) -> None:
    rows = [
        (
            name,
            f"{gain.raw:,.4g}",
            f"{gain.corrected:,.4g}",
            f"{gain.corrected / gain.raw - 1:+.1%}",
        )
        for name, gain in made.gains.items()
        if gain.raw > 0
    ]
    title = "RMSE of the median, where it was not fitted"
    console.print(table(title, ("series", "raw", "corrected", "change"), rows))
    verdict = "is used" if made.corrector.used else "does not help and is not used"
    console.print(f"{path}: fitted to {made.corrector.moments:,} moments; it {verdict}")
