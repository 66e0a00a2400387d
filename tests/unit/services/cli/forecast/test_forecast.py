"""`hirl bench forecast` and `hirl forecast` on files as users have them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.forecaster.learned.artefact import SHIPPED
from models.forecaster.score.peers import boosted, catalogue
from models.inputs.errors import InputError
from services.cli.main import EXIT_BAD_INPUT, run
from tests.unit.models.forecaster.traffic_files import FixedSession, daily, written

Capture = pytest.CaptureFixture[str]
ROW = {
    "series", "model", "horizon_min", "q_risk_p50", "q_risk_p90", "mase", "coverage_80",
    "width_80", "interval_score", "windows",
}  # fmt: skip


class Artefact:
    session = FixedSession()


@pytest.fixture(autouse=True)
def _a_model_is_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(folder: Path = SHIPPED) -> type[Artefact]:
        assert folder == SHIPPED
        return Artefact

    monkeypatch.setattr(catalogue, "load_artefact", load)


def not_shipped(folder: Path) -> None:
    raise InputError(f"{folder.name}: holds no card.json")


def benched(file: Path, *options: str, code: int = 0) -> dict[str, Any]:
    out = file.parent / "out.json"
    arguments = ["bench", "forecast", "--series", str(file), "--model", "tft,linear"]
    assert run([*arguments, "--json", str(out), *options]) == code
    result: dict[str, Any] = json.loads(out.read_text())
    return result


def refused(capsys: Capture, *arguments: str) -> str:
    assert run(list(arguments)) == EXIT_BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_rows_have_the_documented_keys_and_every_series_a_serving_model(tmp_path: Path) -> None:
    columns = {"shop": daily(2000), "search": daily(2000, seed=1)}
    result = benched(written(tmp_path / "two.csv", columns))
    assert all(row.keys() == ROW for row in result["rows"])
    assert {row["model"] for row in result["rows"]} == {"tft", "last", "mean5", "mean15", "linear"}
    assert result["served"].keys() == {"shop", "search"}
    assert set(result["served"].values()) <= {"tft", "last", "mean5", "mean15"}
    assert {each["model"] for each in result["headline"]} == {
        row["model"] for row in result["rows"]
    }


def test_series_of_one_file_are_scored_like_separate_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A few trees are enough to compare two runs.
    monkeypatch.setattr(boosted, "_ROUNDS", 5)
    columns = {name: daily(1500, seed=seed) for seed, name in enumerate(("a", "b", "c"))}
    models = ("--model", "tft,lightgbm")
    together = benched(written(tmp_path / "all.csv", columns), *models)
    alone = [
        row | {"series": name}
        for name, values in columns.items()
        for row in benched(written(tmp_path / "one.csv", {name: values}), *models)["rows"]
    ]
    assert together["rows"] == alone
    assert any(row["model"] == "lightgbm" for row in alone)


def test_a_day_has_no_seasonal_peers_and_the_notes_say_why(tmp_path: Path) -> None:
    result = benched(written(tmp_path / "day.csv", {"rps": daily(1440)}))
    assert not {"day", "week"} & {row["model"] for row in result["rows"]}
    assert any("day: absent" in note for note in result["notes"])


def test_scoring_begins_at_test_from(tmp_path: Path) -> None:
    file = written(tmp_path / "x.csv", {"rps": daily(2000)})
    early = benched(file, "--test-from", "2024-05-01T12:00")
    late = benched(file, "--test-from", "2024-05-02T00:00")
    assert early["rows"][0]["windows"] == late["rows"][0]["windows"] + 720


def test_the_table_shows_models_ratios_and_the_serving_model(
    tmp_path: Path, capsys: Capture
) -> None:
    result = benched(written(tmp_path / "x.csv", {"rps": daily(2000)}))
    out = capsys.readouterr().out
    assert "x: tft serves" in out
    (line,) = (line for line in out.splitlines() if line.startswith(" mean5"))
    cell = next(each for each in result["ratios"] if each["model"] == "mean5")
    assert f"({cell['ratio']:.2f})" in line


def test_many_series_are_summarised_by_means_and_extremes(tmp_path: Path, capsys: Capture) -> None:
    columns = {f"app{index}": daily(600, seed=index) for index in range(9)}
    result = benched(written(tmp_path / "many.csv", columns))
    out = capsys.readouterr().out
    assert "geometric mean" in out
    assert "app0: tft serves" not in out
    assert len(result["rows"]) == 9 * 5 * 3


def test_gaps_are_not_scored_and_only_the_learned_model_serves_new_series(tmp_path: Path) -> None:
    whole, gaps, young = daily(1000), daily(1000), np.full(1000, np.nan)
    gaps[850:900] = np.nan
    young[-100:] = 5.0
    columns = {"whole": whole, "gaps": gaps, "young": young}
    result = benched(written(tmp_path / "gaps.csv", columns))
    windows = {(row["series"], row["model"]): row["windows"] for row in result["rows"]}
    assert windows["gaps", "last"] == windows["whole", "last"] - 50 - 30
    assert {model for series, model in windows if series == "young"} == {"tft"}


def test_a_series_that_no_model_can_forecast_is_skipped_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "load_artefact", not_shipped)
    young = np.full(1000, np.nan)
    young[-100:] = 5.0
    result = benched(written(tmp_path / "x.csv", {"whole": daily(1000), "young": young}))
    assert "no values before the test" in result["skipped"]["young"]
    assert result["served"].keys() == {"whole"}


def test_a_constant_series_has_a_note_instead_of_ratios(tmp_path: Path) -> None:
    result = benched(written(tmp_path / "flat.csv", {"rps": np.full(1000, 5.0)}))
    assert result["ratios"] == []
    assert len([note for note in result["notes"] if "no MASE" in note]) == 1


def test_gaps_are_one_note_per_file(tmp_path: Path) -> None:
    patchy, sparse = daily(1000), daily(1000, seed=1)
    patchy[100:110], sparse[200:300] = np.nan, np.nan
    columns = {"whole": daily(1000), "patchy": patchy, "sparse": sparse}
    (note,) = (n for n in benched(written(tmp_path / "x.csv", columns))["notes"] if "gaps" in n)
    assert "2 of 3 series have gaps, at most 10.0% of the minutes (sparse)" in note


def test_with_a_calendar_doublings_are_scored(tmp_path: Path, capsys: Capture) -> None:
    values = daily(2000)
    values[1800:1860] *= 4
    calendar = tmp_path / "calendar.csv"
    calendar.write_text("starts_at,length_minutes,kind\n2024-05-02T06:00,60,sale\n")
    file = written(tmp_path / "x.csv", {"rps": values})
    result = benched(file, "--calendar", str(calendar))
    assert {score["announced"] for score in result["spikes"]} == {1}
    assert "Doublings" in capsys.readouterr().out


def test_the_report_is_self_contained(tmp_path: Path) -> None:
    file = written(tmp_path / "a & b.csv", {"rps": daily(900)})
    benched(file, "--report", str(tmp_path / "report"))
    page = (tmp_path / "report" / "forecast.html").read_text()
    assert page.count("<svg") == 3
    assert "a &amp; b" in page
    assert "src=" not in page


def test_the_tweet_archive_is_recognised_by_its_columns(tmp_path: Path) -> None:
    file = tmp_path / "tweets.csv"
    rows = [f"{m},0,{m},{int(value)},0" for m, value in enumerate(daily(900))]
    file.write_text("\n".join(["minute,day,minute_of_day,tweets,missing", *rows]) + "\n")
    assert any(":02 and :32" in note for note in benched(file)["notes"])


def test_a_missing_model_is_noted_and_the_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "load_artefact", not_shipped)
    result = benched(written(tmp_path / "x.csv", {"rps": daily(900)}))
    assert "tft: absent, shipped: holds no card.json" in result["notes"]
    assert result["served"]["x"] in {"last", "mean5", "mean15"}


def test_a_folder_without_a_model_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.undo()
    file = written(tmp_path / "x.csv", {"rps": daily(900)})
    options = ("--series", str(file), "--artefact", str(tmp_path))
    assert "hirl train forecaster" in refused(capsys, "bench", "forecast", *options)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.concatenate([daily(900), [-5.0]]), "row 902"),
        (daily(100), "80 minutes before the test"),
        (np.full(900, np.nan), ""),
    ],
    ids=["negative", "short", "nothing"],
)
def test_bad_values_are_refused_in_one_line(
    values: Any, expected: str, tmp_path: Path, capsys: Capture
) -> None:
    file = written(tmp_path / "bad.csv", {"rps": values})
    line = refused(capsys, "bench", "forecast", "--series", str(file))
    assert expected in line


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--model", "oracle"), "no model 'oracle'"),
        (("--model", ","), "at least one"),
        (("--test-from", "2031-01-01"), "must begin within 2024-05-01 00:00 .. 2024-05-01 14:59"),
        (("--test-from", "yesterday"), "is not a time"),
        (("--calendar", "nowhere.csv"), "nowhere.csv"),
        (("--series", "nowhere.csv"), "nowhere.csv"),
    ],
)
def test_bad_options_are_refused_in_one_line(
    options: tuple[str, str], expected: str, tmp_path: Path, capsys: Capture
) -> None:
    file = written(tmp_path / "x.csv", {"rps": daily(900)})
    assert expected in refused(capsys, "bench", "forecast", "--series", str(file), *options)


def test_a_file_without_times_needs_its_step(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "bare.csv"
    file.write_text("rps\n" + "\n".join(f"{value:g}" for value in daily(900)) + "\n")
    line = refused(capsys, "bench", "forecast", "--series", str(file))
    assert "name it `timestamp` or pass --step-min" in line
    result = benched(file, "--step-min", "5", "--start", "2024-05-01")
    assert result["rows"][0]["windows"] < 300


def test_a_folder_of_traffic_is_refused_as_a_folder(tmp_path: Path, capsys: Capture) -> None:
    line = refused(capsys, "forecast", "--series", str(tmp_path))
    assert line.endswith(f"{tmp_path}: is a folder, expected a file .csv, .csv.gz or .parquet")


def test_a_binary_file_is_refused_in_printable_characters(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "bin.csv"
    file.write_bytes(b"a,b\n\x1b[31m\x07\x00" + bytes(range(1, 9)) * 100 + b",1,2\n")
    line = refused(capsys, "forecast", "--series", str(file))
    assert line.isprintable()
    assert len(line) < 300


def test_the_table_says_which_minute_a_horizon_is(tmp_path: Path, capsys: Capture) -> None:
    file = written(tmp_path / "x.csv", {"rps": daily(2000)})
    assert run(["forecast", "--series", str(file)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "as of 2024-05-02 09:20" in text
    assert "5 min 2024-05-02 09:24" in text
    assert "in 5 min is the minute that ends then, shown by its start" in text


def test_a_forecast_names_its_model_and_has_ascending_quantiles(
    tmp_path: Path, capsys: Capture
) -> None:
    file, out = written(tmp_path / "x.csv", {"rps": daily(2000)}), tmp_path / "out.json"
    assert run(["forecast", "--series", str(file), "--json", str(out)]) == 0
    rows = json.loads(out.read_text())["forecasts"]
    assert [row["horizon_min"] for row in rows] == [5, 15, 30]
    assert rows[0]["made_at"] == "2024-05-02 09:20"
    for row in rows:
        assert row["p10"] <= row["p50"] <= row["p90"] <= row["peak_p90"]
    assert "tft serves" in capsys.readouterr().out


def test_announcements_that_the_serving_rule_ignores_are_noted(
    tmp_path: Path, capsys: Capture
) -> None:
    file = written(tmp_path / "x.csv", {"rps": np.linspace(1, 2000, 2000)})
    for start, expected in (("2024-05-02 09:30", True), ("2024-05-02 11:30", False)):
        events = tmp_path / "events.csv"
        events.write_text(f"starts_at,kind,factor\n{start},sale,3\n")
        assert run(["forecast", "--series", str(file), "--calendar", str(events)]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert ("sale is announced for 2024-05-02 09:30" in text) == expected
        assert ("ignores" in text) == expected


def test_a_forecast_as_of_a_time_ignores_later_data(tmp_path: Path) -> None:
    values, out = daily(2000), tmp_path / "out.json"
    results = []
    for after in (values[1500:], np.full(500, 9.0)):
        file = written(tmp_path / "x.csv", {"rps": np.concatenate([values[:1500], after])})
        options = ["--at", "2024-05-02T01:00", "--json", str(out)]
        assert run(["forecast", "--series", str(file), *options]) == 0
        results.append(json.loads(out.read_text()))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("minutes", "options", "expected"),
    [(100, (), "100 minutes of history"), (900, ("--at", "2030-01-01"), "within 2024-05-01")],
)
def test_a_forecast_without_enough_history_is_refused(
    minutes: int, options: tuple[str, ...], expected: str, tmp_path: Path, capsys: Capture
) -> None:
    file = written(tmp_path / "x.csv", {"rps": daily(minutes)})
    assert expected in refused(capsys, "forecast", "--series", str(file), *options)


def forecasts(file: Path) -> dict[str, Any]:
    out = file.parent / "out.json"
    assert run(["forecast", "--series", str(file), "--json", str(out)]) == 0
    result: dict[str, Any] = json.loads(out.read_text())
    return result


def test_a_series_without_recent_values_is_not_forecast(tmp_path: Path) -> None:
    dead, pausing = daily(1000), daily(1000, seed=1)
    dead[900:], pausing[990:] = np.nan, np.nan
    columns = {"alive": daily(1000, seed=2), "dead": dead, "pausing": pausing}
    result = forecasts(written(tmp_path / "x.csv", columns))
    assert {row["series"] for row in result["forecasts"]} == {"alive", "pausing"}
    assert any("dead: no value in the 100 minutes before" in n for n in result["notes"])
    assert any("pausing: the last value is 10 minutes old" in n for n in result["notes"])
    assert not any(note.startswith("alive") for note in result["notes"])


def test_steps_that_are_too_coarse_are_noted_or_refused(tmp_path: Path, capsys: Capture) -> None:
    result = forecasts(written(tmp_path / "x.csv", {"rps": daily(300)}, step_min=10))
    assert [row["horizon_min"] for row in result["forecasts"]] == [15, 30]
    assert any("steps of 10 min are too coarse for 5 min" in note for note in result["notes"])
    hourly = written(tmp_path / "y.csv", {"rps": daily(300)}, step_min=60)
    line = refused(capsys, "forecast", "--series", str(hourly))
    assert "a step of 60 minutes is longer than every horizon" in line


def test_the_peak_never_falls_with_the_horizon(tmp_path: Path) -> None:
    # Equal days, so `day` serves. After the last minute demand is high in 5 minutes, low in 30.
    day = np.random.default_rng(0).uniform(100.0, 200.0, 1440)
    day[5], day[15], day[30] = 900.0, 150.0, 100.0
    rows = forecasts(written(tmp_path / "x.csv", {"rps": np.append(np.tile(day, 4), day[0])}))
    forecast_rows = rows["forecasts"]
    assert {row["model"] for row in forecast_rows} == {"day"}
    assert forecast_rows[2]["p50"] < forecast_rows[0]["p50"]
    assert (
        forecast_rows[0]["peak_p90"] <= forecast_rows[1]["peak_p90"] <= forecast_rows[2]["peak_p90"]
    )
