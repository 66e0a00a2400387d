"""`hirl train forecaster` writes a model that serves, and the same one each time."""

import inspect
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from models.forecaster.learned.artefact import CURVES, load_artefact
from models.forecaster.learned.encode import encode
from models.forecaster.series import Series
from models.forecaster.training.corpus import Part
from models.inputs.errors import InputError
from services.cli.forecast import train
from services.cli.main import EXIT_BAD_INPUT, run
from tests.unit.models.forecaster.traffic_files import daily

if TYPE_CHECKING:
    from models.forecaster.training.args import Args
    from models.forecaster.training.train import Epoch

Capture = pytest.CaptureFixture[str]
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch: make train-env")


class RecordingWatch:
    """Records every call."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.seeds: list[int] = []
        self.steps: list[tuple[int, int]] = []
        self.epochs: list[int] = []

    def part(self, part: Part) -> None:
        self.parts.append(part.name)

    def begun(self, seed: int) -> None:
        self.seeds.append(seed)

    def step(self, epoch: int, step: int, loss: float) -> None:
        assert np.isfinite(loss)
        self.steps.append((epoch, step))

    def epoch_ended(self, epoch: "Epoch") -> None:
        self.epochs.append(epoch.epoch)


def parts() -> list[Part]:
    return [
        Part("simulated", [Series("a", 0, 1, daily(4000))], 0.5, learned=1.0),
        Part("recorded", [Series("b", 1440, 1, daily(4000, seed=1))], 0.5),
    ]


def few(epochs: int = 2) -> "Args":
    from models.forecaster.training.args import Args

    return Args(members=2, epochs=epochs, steps=2, batch=16, hidden=8, heads=2, threads=1)


@needs_torch
@pytest.mark.filterwarnings("ignore")
def test_a_short_run_writes_a_model_with_its_card_and_resumes(tmp_path: Path) -> None:
    from models.forecaster.training.produce import TrainingJob, produce

    job = TrainingJob(few(), tmp_path / "model", tmp_path / "checkpoints", "hirl train forecaster")
    watch = RecordingWatch()
    card = produce(parts(), job, watch, time.monotonic)
    assert watch.parts == ["simulated", "recorded"]
    assert watch.seeds == [0, 1]
    assert watch.steps == [(0, 0), (0, 1), (1, 0), (1, 1)] * 2
    assert watch.epochs == [0, 1, 0, 1]
    assert [len(curve) for curve in card.curves] == [2, 2]
    assert [each.windows for each in card.learned] == [_learned(4000), _learned(3200)]
    assert card.trained_until == "1970-01-04 05:20"
    artefact = load_artefact(tmp_path / "model")
    assert artefact.card == card
    assert (tmp_path / "model" / CURVES).stat().st_size > 0
    predicted = artefact.session.predict(encode(parts()[0].series[0], np.array([1400])))
    assert np.isfinite(predicted.values).all()
    again = RecordingWatch()
    assert produce(parts(), job, again, time.monotonic).model == card.model
    assert again.steps == []
    other_seed = RecordingWatch()
    produce(
        parts(),
        job._replace(args=few()._replace(seed=1), checkpoints=tmp_path / "1"),
        other_seed,
        time.monotonic,
    )
    assert other_seed.seeds == [2, 3]
    other = job._replace(args=few(epochs=3))
    with pytest.raises(InputError, match="--fresh"):
        produce(parts(), other, RecordingWatch(), time.monotonic)


def _learned(minutes: int) -> int:
    """Windows after three hours, without those of the tenth block of six hours and near it."""
    at = np.arange(180, minutes - 30)
    near = [(at + margin) // 360 % 10 == 9 for margin in (-60, 0, 60)]
    return int((~np.any(near, axis=0)).sum())


def test_the_command_has_the_defaults_of_the_training_arguments() -> None:
    from models.forecaster.training.args import Args

    given = inspect.signature(train.forecaster).parameters
    assert (Args().epochs, Args().threads) == (given["epochs"].default, given["threads"].default)


def test_without_torch_the_error_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(train, "find_spec", lambda _: None)
    assert run(["train", "forecaster"]) == EXIT_BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert "make train-env" in line


def test_a_folder_without_traces_is_refused_in_one_line(tmp_path: Path, capsys: Capture) -> None:
    assert run(["train", "forecaster", "--traces", str(tmp_path)]) == EXIT_BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert "worldcup98_1min.csv.gz" in line
