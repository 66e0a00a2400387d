"""Produces a model folder from a corpus: pools, training, export, card and curves."""

from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import msgspec
import numpy as np
import onnx
import onnxruntime as ort
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from models.forecaster.data.axes import stamp
from models.forecaster.learned.artefact import (
    CARD,
    CURVES,
    NETWORK,
    Card,
    TrainedPart,
    expected_inputs,
    identity,
    seal,
)
from models.forecaster.learned.inputs import AHEAD_MIN, FUTURE, PAST, PAST_WINDOWS, STATIC
from models.forecaster.training.args import Args
from models.forecaster.training.corpus import KEPT_OUT, Part
from models.forecaster.training.network import Ensemble
from models.forecaster.training.pool import Pool, pools
from models.forecaster.training.seen import distributions
from models.forecaster.training.train import Trained, TrainingWatch, settings_of, train
from models.inputs.errors import InputError
from models.registry.drift import FEATURES, write_features

INPUTS: Final = ("past", "future", "static")
OUTPUTS: Final = ("quantiles", "hidden", "attention")
TOLERANCE: Final = 1e-4
"""Largest relative difference of values between the network and its export."""
SIMULATED: Final = "nothing recorded"
_RESUMED: Final = "went on from a checkpoint: the minutes are those after it"
Clock = Callable[[], float]
"""Seconds since an arbitrary time."""


class Watch(TrainingWatch, Protocol):
    """Receives progress, from loading the data on."""

    def part(self, part: Part) -> None:
        """A part of the corpus is loaded."""
        ...


class TrainingJob(NamedTuple):
    """What to produce, and where."""

    args: Args
    folder: Path
    checkpoints: Path
    """Folder of the checkpoints, a file per member."""
    command: str
    """The command that reproduces it; part of the card."""


def produce(parts: Iterable[Part], job: TrainingJob, watch: Watch, clock: Clock) -> Card:
    """Train on the parts and write network, card and curves into the folder."""
    _check_resumable(job)
    resumed = any(checkpoint.exists() for _, checkpoint in _members(job))
    began, loaded = clock(), list[Part]()
    training, validation = pools(_noted(parts, loaded, watch), job.args.seed)
    members = [
        train(args, training, validation, checkpoint, watch) for args, checkpoint in _members(job)
    ]
    job.folder.mkdir(parents=True, exist_ok=True)
    network = Ensemble([member.network for member in members]).eval()
    parity = export(network, job.folder / NETWORK)
    # Before the card, which carries the hash of the final file.
    strip(job.folder / NETWORK)
    card = _card(job, members, _trained_parts(loaded, training), parity, (clock() - began) / 60)
    notes = [_RESUMED] if resumed else []
    card = msgspec.structs.replace(card, trained_until=_until(loaded), notes=notes)
    (job.folder / CARD).write_bytes(msgspec.json.format(msgspec.json.encode(card)) + b"\n")
    _draw(members, job.folder / CURVES)
    # Of an earlier run, it would say what another network was trained on.
    (job.folder / FEATURES).unlink(missing_ok=True)
    if seen := distributions(loaded, job.args.seed):
        (job.folder / FEATURES).write_bytes(write_features(seen))
    # Last: the manifest has the digests of all other files.
    seal(job.folder, version("hirl-scale"))
    return card


def strip(network: Path) -> None:
    """Remove metadata such as source paths, so that the same weights give the same file."""
    model = onnx.load(network)
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.initializer, *graph.value_info):
        del part.metadata_props[:]
        part.doc_string = ""
    onnx.save(model, network)


class _Served(nn.Module):
    """The network, reduced to the outputs that are served."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, past: Tensor, future: Tensor, static: Tensor) -> tuple[Tensor, ...]:
        outputs = self.network(past, future, static)
        return outputs.quantiles, outputs.hidden, outputs.attention


def export(network: nn.Module, path: Path) -> float:
    """Write the ONNX file and return its largest relative difference from the network.

    Measured on random inputs with several numbers of rows.
    """
    served = _Served(network).eval()
    # The example has three rows: torch.export would treat a single row as a constant.
    rows = torch.export.Dim("rows", min=1)
    torch.onnx.export(
        served,
        _random(3),
        path,
        input_names=list(INPUTS),
        output_names=list(OUTPUTS),
        dynamic_shapes=({0: rows}, {0: rows}, {0: rows}),
        dynamo=True,
        external_data=False,
        verbose=False,
    )
    # Several numbers of rows, because a service forecasts any number of them.
    worst = max(_difference(served, path, rows) for rows in (1, 5, 64))
    if worst > TOLERANCE:
        raise ValueError(f"{path}: differs from the network by {worst:.1e}, over {TOLERANCE}")
    return worst


def _difference(served: nn.Module, path: Path, rows: int) -> float:
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    given = _random(rows)
    feed = {name: value.numpy() for name, value in zip(INPUTS, given, strict=True)}
    quantiles, hidden, _ = session.run(list(OUTPUTS), feed)
    with torch.no_grad():
        wanted = [value.numpy() for value in served(*given)[:2]]
    # Outputs are logarithms, so this is the relative difference of the values.
    ratios = np.abs(np.expm1(quantiles - wanted[0])).max()
    return float(max(ratios, np.abs(hidden - wanted[1]).max()))


def _random(rows: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(rows)
    shapes = (
        (rows, len(PAST_WINDOWS), len(PAST)),
        (rows, len(AHEAD_MIN), len(FUTURE)),
        (rows, len(STATIC)),
    )
    past, future, static = (torch.randn(shape, generator=generator) for shape in shapes)
    return past, future, static


def _check_resumable(job: TrainingJob) -> None:
    """Check before generating the data, which takes minutes."""
    for args, checkpoint in _members(job):
        if checkpoint.exists() and settings_of(checkpoint) != args:
            raise InputError(
                f"{checkpoint}: of a run with other settings; "
                "give the settings it had, or --fresh to begin anew"
            )


def _noted(parts: Iterable[Part], loaded: list[Part], watch: Watch) -> Iterator[Part]:
    for part in parts:
        loaded.append(part)
        watch.part(part)
        yield part


def _members(job: TrainingJob) -> list[tuple[Args, Path]]:
    """Settings and checkpoint of each member."""
    seed, members = job.args.seed, job.args.members
    return [
        # Seeds and files of members never overlap between runs.
        (job.args._replace(seed=seed * members + number), job.checkpoints / f"{number}.pt")
        for number in range(members)
    ]


def _card(
    job: TrainingJob,
    members: list[Trained],
    learned: list[TrainedPart],
    parity: float,
    minutes: float,
) -> Card:
    return Card(
        model=identity((job.folder / NETWORK).read_bytes()),
        command=job.command,
        trained_until=SIMULATED,
        learned=learned,
        kept_out=sorted(KEPT_OUT),
        args=job.args._asdict(),
        curves=[[(*each,) for each in member.curve] for member in members],
        parity=parity,
        minutes=minutes,
        parameters=sum(each.numel() for member in members for each in member.network.parameters()),
        inputs=expected_inputs(),
    )


def _trained_parts(parts: list[Part], pool: Pool) -> list[TrainedPart]:
    # Shares are relative: a corpus without recorded traces has only some of the parts.
    total = sum(part.share for part in parts)
    return [
        TrainedPart(
            part=part.name,
            series=len(part.series),
            minutes=sum(int(series.rps.size * part.learned) for series in part.series),
            windows=windows,
            share=part.share / total,
        )
        for part, windows in zip(parts, _windows(parts, pool), strict=True)
    ]


def _windows(parts: list[Part], pool: Pool) -> list[int]:
    """Number of windows per part: all windows of a part have the same probability."""
    # A joined pool does not say where its parts begin; each window has the probability share /
    # size.
    sizes, first = [], 0
    for part in parts:
        size = round(part.share / float(pool.share[first])) if first < pool.share.size else 0
        sizes.append(size)
        first += size
    return sizes


def _until(parts: list[Part]) -> str:
    """Time of the newest recorded minute in the training data; simulated parts are used whole."""
    ends = [
        series.origin_min + int(series.rps.size * part.learned)
        for part in parts
        if part.learned < 1.0
        for series in part.series
    ]
    return stamp(60 * max(ends))[:16] if ends else SIMULATED


def _draw(members: list[Trained], path: Path) -> None:
    figure = Figure(figsize=(7, 4), layout="constrained")
    axis = figure.subplots()
    for number, member in enumerate(members, start=1):
        epochs = [each.epoch + 1 for each in member.curve]
        for name in ("training", "validation"):
            losses = [getattr(each, f"{name}_loss") for each in member.curve]
            axis.plot(epochs, losses, "o-", label=f"{name}, member {number}")
    axis.set_xlabel("epoch")
    axis.set_ylabel("quantile loss")
    axis.legend()
    figure.savefig(path, dpi=110)
