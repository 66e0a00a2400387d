"""`hirl bench published` scores by the protocols of the published tables."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.cluster.arrays import F64
from models.forecaster.score.protocols import PROTOCOLS, Data, Tally, load, windows
from models.forecaster.score.published import Repeat, fit_linear
from models.inputs.errors import InputError
from services.cli.forecast import published
from services.cli.main import EXIT_BAD_INPUT, run

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Protocols of a tenth of their size."""
    small = PROTOCOLS["etth1"]._replace(ahead=(24, 48), learned=864, validated=288, tested=288)
    monkeypatch.setitem(PROTOCOLS, "etth1", small)
    loop = PROTOCOLS["losloop"]._replace(learned=161, tested=40)
    monkeypatch.setitem(PROTOCOLS, "losloop", loop)


def walks(rows: int, columns: int = 3) -> F64:
    steps = np.random.default_rng(0).normal(0, 1, (rows, columns))
    values: F64 = 50 + steps.cumsum(axis=0) * 0.1
    return values


def written(file: Path, values: F64, dated: bool) -> Path:
    hours = np.datetime64("2016-07-01T00") + np.arange(values.shape[0])
    names = [f"s{index}" for index in range(values.shape[1])]
    rows = [",".join([*(["date"] if dated else []), *names])]
    for hour, cells in zip(hours, values, strict=True):
        when = [str(hour).replace("T", " ") + ":00:00"] if dated else []
        rows.append(
            ",".join([*when, *("" if np.isnan(cell) else repr(float(cell)) for cell in cells)])
        )
    file.write_text("\n".join(rows) + "\n")
    return file


def ett(tmp_path: Path, rows: int) -> Data:
    return load("etth1", written(tmp_path / "ett.csv", walks(rows), dated=True))


def test_only_validation_rows_are_scored_when_the_test_rows_are_missing(tmp_path: Path) -> None:
    assert ett(tmp_path, 864 + 288).parts == {"validation": range(864, 1152)}
    assert ett(tmp_path, 864 + 2 * 288).parts["test"] == range(1152, 1440)


def test_values_are_scaled_by_the_training_rows(tmp_path: Path) -> None:
    data = ett(tmp_path, 1152)
    np.testing.assert_allclose(data.values[:864].mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(data.values[:864].std(axis=0), 1)
    speeds = walks(161)
    loop = load("losloop", written(tmp_path / "loop.csv", speeds, dated=False))
    np.testing.assert_allclose(loop.values, speeds / speeds.max())


def test_ett_windows_look_back_and_los_loop_windows_stay_in_their_part(
    tmp_path: Path,
) -> None:
    data = ett(tmp_path, 1152)
    rows = np.concatenate([batch.row for batch in windows(data, data.parts["validation"], 24)])
    np.testing.assert_array_equal(rows, np.arange(864, 1152 - 24 + 1))
    loop = load("losloop", written(tmp_path / "loop.csv", walks(201), dated=False))
    rows = np.concatenate([batch.row for batch in windows(loop, loop.parts["test"], 3)])
    np.testing.assert_array_equal(rows, np.arange(161 + 12, 201 - 3))


def test_errors_are_pooled_over_windows_steps_and_variates(tmp_path: Path) -> None:
    speeds = walks(161)
    data = load("losloop", written(tmp_path / "loop.csv", speeds, dated=False))
    tally = Tally(data)
    for batch in windows(data, data.parts["validation"], 6):
        tally.add(batch.ahead, Repeat(6).predict(batch))
    found = tally.scores("repeat-last", "validation", 6)
    starts = range(data.parts["validation"].start + 12, 161 - 6)
    actual = np.array([speeds[start : start + 6] for start in starts])
    gap = actual - np.array([speeds[start - 1] for start in starts])[:, None]
    assert found.windows == len(starts)
    assert found.rmse == pytest.approx(float(np.sqrt(np.square(gap).mean())))
    assert found.mae == pytest.approx(float(np.abs(gap).mean()))
    assert found.accuracy == pytest.approx(1 - np.linalg.norm(gap) / np.linalg.norm(actual))


def test_the_linear_model_learns_a_wave_from_training_rows_only(tmp_path: Path) -> None:
    wave = np.sin(2 * np.pi * np.arange(1152) / 24)[:, None] * [1.0, 2.0]
    data = load("etth1", written(tmp_path / "wave.csv", wave, dated=True))
    other = data._replace(values=np.where(np.arange(1152)[:, None] < 864, data.values, 9.0))
    model = fit_linear(data, 24)
    np.testing.assert_array_equal(model.weights, fit_linear(other, 24).weights)
    batch = next(windows(data, data.parts["validation"], 24))
    assert np.abs(batch.ahead - model.predict(batch)).mean() < 0.05


def test_the_command_names_the_scored_rows_and_the_published_figures(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "find_spec", lambda _: None)
    file, out = written(tmp_path / "loop.csv", walks(161), dated=False), tmp_path / "out.json"
    assert run(["bench", "published", "losloop", "--file", str(file), "--json", str(out)]) == 0
    result: dict[str, Any] = json.loads(out.read_text())
    assert {row["split"] for row in result["rows"]} == {"validation"}
    assert {row["model"] for row in result["rows"]} == {"repeat-last", "dlinear-like"}
    assert result["published"][0]["model"] == "T-GCN"
    text = capsys.readouterr().out
    assert "validation rows" in text
    assert "make train-env" in text


@pytest.mark.parametrize("rows", [100, 900])
def test_a_file_that_is_too_short_is_refused_in_one_line(
    rows: int, tmp_path: Path, capsys: Capture
) -> None:
    file = written(tmp_path / "ett.csv", walks(rows), dated=True)
    assert run(["bench", "published", "etth1", "--file", str(file)]) == EXIT_BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{rows} rows" in line


def test_empty_cells_are_refused(tmp_path: Path) -> None:
    values = walks(1152)
    values[5, 1] = np.nan
    with pytest.raises(InputError, match="empty cells"):
        load("etth1", written(tmp_path / "ett.csv", values, dated=True))


@pytest.mark.skipif(find_spec("torch") is None, reason="torch: make train-env")
@pytest.mark.filterwarnings("ignore")
def test_the_network_beats_the_linear_model_and_depends_only_on_its_seed(tmp_path: Path) -> None:
    from models.forecaster.training.published import Args, fit_tft

    # Business hours: no line through the last four days separates Fridays from Sundays.
    hours = np.arange(1152)
    busy = (hours % 24 // 8 == 1) & (hours // 24 % 7 < 5)
    values = np.where(busy, 10.0, 1.0)[:, None] * [1.0, 2.0]
    data = load("etth1", written(tmp_path / "ett.csv", values, dated=True))
    args = Args(epochs=2, steps=40, batch=32, learning_rate=1e-2, hidden=8, dropout=0.0, threads=1)
    done: list[int] = []
    batch = next(windows(data, data.parts["validation"], 24))
    fits = [fit_tft(data, args, done.append) for _ in range(2)]
    predicted, linear = [fit.predict(batch) for fit in fits], fits[0].linear.predict(batch)[:, :24]
    np.testing.assert_array_equal(
        fits[0].linear.weights, fit_linear(data, fits[0].steps).weights, "fitted on all rows"
    )
    assert predicted[0].shape == batch.ahead.shape
    np.testing.assert_array_equal(predicted[0], predicted[1])
    assert (
        np.square(predicted[0] - batch.ahead).mean() < 0.9 * np.square(linear - batch.ahead).mean()
    )
    assert sum(done) == 160
