"""Simulated traffic as files, and a corrector fitted to recorded traffic."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from models.forecaster.data.axes import stamp
from models.forecaster.data.load import load
from models.forecaster.learned import corrector
from models.forecaster.learned.artefact import CORRECTOR, NETWORK, SHIPPED, load_artefact
from models.forecaster.learned.inputs import NetworkInputs, to_log
from models.forecaster.learned.serving import NetworkOutput
from models.forecaster.training import corrector as correcting
from models.inputs.errors import InputError
from services.cli.main import run
from tests.unit.models.forecaster.synthetic_series import days, series


def test_simulated_months_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    out = tmp_path / "months.csv"
    args = ["world", "months", "--out", str(out), "--days", "10", "--apps", "60"]
    assert run(args) == 0
    read = load(out, out.with_suffix(".calendar.csv"))
    assert len(read) == 5
    assert {each.rps.size for each in read} == {10 * 1440}
    assert all(each.step_min == 1 for each in read)


def test_months_of_several_seeds_and_apps_begin_on_the_same_day(tmp_path: Path) -> None:
    out = tmp_path / "months.csv"
    args = ["world", "months", "--out", str(out), "--days", "3", "--apps", "60"]
    assert run([*args, "--seeds", "2", "--singles", "1"]) == 0
    read = load(out)
    assert len(read) == 2 * (5 + 1)
    assert {stamp(each.origin_min * 60)[:10] for each in read} == {"2024-01-01"}
    assert sum("-app-" in each.name for each in read) == 2


class Biased:
    """Always predicts a tenth below the recent level, and shows it in its hidden state."""

    def predict(self, inputs: NetworkInputs) -> NetworkOutput:
        values = np.repeat(0.9 * inputs.scale[:, None, None], 9, axis=1).reshape(-1, 3, 3)
        hidden = np.repeat(to_log(inputs, inputs.scale)[:, None, None], 3, axis=1)
        return NetworkOutput(values, values[..., 2], hidden)


def test_a_corrector_removes_a_bias() -> None:
    made = correcting.make(Biased(), [(series(days(4)), 1440, 4 * 1440)], "synthetic", 0)
    assert made.corrector.used
    (gain,) = made.gains.values()
    assert gain.corrected < 0.8 * gain.raw


def test_a_moment_uses_only_errors_that_were_known_by_then() -> None:
    one = series(days(3))
    found = correcting.moments(Biased(), one, 2000, 2100)
    cut = correcting.moments(Biased(), one._replace(rps=one.rps[:2050]), 2000, 2050)
    np.testing.assert_array_equal(found.errors[:50], cut.errors)


def test_a_corrector_needs_steps_of_a_minute() -> None:
    coarse = series(days(4))._replace(step_min=5)
    with pytest.raises(InputError, match="minutes"):
        correcting.moments(Biased(), coarse, 0, 100)


@pytest.mark.skipif(not (SHIPPED / NETWORK).exists(), reason="no model is shipped")
def test_the_command_writes_a_corrector_beside_the_model(tmp_path: Path) -> None:
    model = shutil.copytree(SHIPPED, tmp_path / "model")
    file = tmp_path / "traffic.csv"
    stamps = np.datetime64("2024-01-01T00:00") + np.arange(4 * 1440)
    lines = [f"{stamp},{value:.3f}" for stamp, value in zip(stamps, days(4), strict=True)]
    file.write_text("\n".join(["timestamp,requests", *lines]) + "\n")
    args = ["train", "corrector", "--series", str(file), "--artefact", str(model)]
    assert run(args) == 0
    assert load_artefact(model).corrector is not None
    assert corrector.load(model / CORRECTOR).trained_on == "traffic"
