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
    told: dict[str, Any] = json.loads(out.read_text())
    return told


def refused(capsys: Capture, *arguments: str) -> str:
    assert run(list(arguments)) == EXIT_BAD_INPUT
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_rows_have_what_was_agreed_and_every_series_a_model_that_serves(tmp_path: Path) -> None:
    columns = {"shop": daily(2000), "search": daily(2000, seed=1)}
    told = benched(written(tmp_path / "two.csv", columns))
    assert all(row.keys() == ROW for row in told["rows"])
    assert {row["model"] for row in told["rows"]} == {"tft", "last", "mean5", "mean15", "linear"}
    assert told["served"].keys() == {"shop", "search"}
    assert set(told["served"].values()) <= {"tft", "last", "mean5", "mean15"}
    assert {each["model"] for each in told["headline"]} == {row["model"] for row in told["rows"]}


def test_series_of_one_file_are_scored_as_each_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    told = benched(written(tmp_path / "day.csv", {"rps": daily(1440)}))
    assert not {"day", "week"} & {row["model"] for row in told["rows"]}
    assert any("day: absent" in note for note in told["notes"])


def test_scoring_begins_where_it_is_said_to(tmp_path: Path) -> None:
    file = written(tmp_path / "x.csv", {"rps": daily(2000)})
    early = benched(file, "--test-from", "2024-05-01T12:00")
    late = benched(file, "--test-from", "2024-05-02T00:00")
    assert early["rows"][0]["windows"] == late["rows"][0]["windows"] + 720


def test_the_table_has_the_models_their_ratios_and_what_serves(
    tmp_path: Path, capsys: Capture
) -> None:
    told = benched(written(tmp_path / "x.csv", {"rps": daily(2000)}))
    out = capsys.readouterr().out
    assert "x: tft serves" in out
    (line,) = (line for line in out.splitlines() if line.startswith(" mean5"))
    cell = next(each for each in told["ratios"] if each["model"] == "mean5")
    assert f"({cell['ratio']:.2f})" in line


def test_many_series_are_told_by_their_means_and_extremes(tmp_path: Path, capsys: Capture) -> None:
    columns = {f"app{place}": daily(600, seed=place) for place in range(9)}
    told = benched(written(tmp_path / "many.csv", columns))
    out = capsys.readouterr().out
    assert "geometric mean" in out
    assert "app0: tft serves" not in out
    assert len(told["rows"]) == 9 * 5 * 3


def test_gaps_are_not_scored_and_what_has_no_past_is_the_learned_model_s(tmp_path: Path) -> None:
    whole, gaps, young = daily(1000), daily(1000), np.full(1000, np.nan)
    gaps[850:900] = np.nan
    young[-100:] = 5.0
    columns = {"whole": whole, "gaps": gaps, "young": young}
    told = benched(written(tmp_path / "gaps.csv", columns))
    windows = {(row["series"], row["model"]): row["windows"] for row in told["rows"]}
    assert windows["gaps", "last"] == windows["whole", "last"] - 50 - 30
    assert {model for series, model in windows if series == "young"} == {"tft"}


def test_what_nobody_can_forecast_is_skipped_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "load_artefact", not_shipped)
    young = np.full(1000, np.nan)
    young[-100:] = 5.0
    told = benched(written(tmp_path / "x.csv", {"whole": daily(1000), "young": young}))
    assert "no values before the test" in told["skipped"]["young"]
    assert told["served"].keys() == {"whole"}


def test_a_constant_series_has_notes_instead_of_made_up_ratios(tmp_path: Path) -> None:
    told = benched(written(tmp_path / "flat.csv", {"rps": np.full(1000, 5.0)}))
    assert told["ratios"] == []
    assert len([note for note in told["notes"] if "no MASE" in note]) == 1


def test_gaps_are_said_once_for_a_file(tmp_path: Path) -> None:
    holed, torn = daily(1000), daily(1000, seed=1)
    holed[100:110], torn[200:300] = np.nan, np.nan
    columns = {"whole": daily(1000), "holed": holed, "torn": torn}
    (note,) = (n for n in benched(written(tmp_path / "x.csv", columns))["notes"] if "gaps" in n)
    assert "2 of 3 series have gaps, at most 10.0% of the minutes (torn)" in note


def test_a_calendar_brings_the_table_of_doublings(tmp_path: Path, capsys: Capture) -> None:
    values = daily(2000)
    values[1800:1860] *= 4
    calendar = tmp_path / "calendar.csv"
    calendar.write_text("starts_at,length_minutes,kind\n2024-05-02T06:00,60,sale\n")
    file = written(tmp_path / "x.csv", {"rps": values})
    told = benched(file, "--calendar", str(calendar))
    assert {score["announced"] for score in told["spikes"]} == {1}
    assert "Doublings" in capsys.readouterr().out


def test_the_report_needs_nothing_but_itself(tmp_path: Path) -> None:
    file = written(tmp_path / "a & b.csv", {"rps": daily(900)})
    benched(file, "--report", str(tmp_path / "report"))
    page = (tmp_path / "report" / "forecast.html").read_text()
    assert page.count("<svg") == 3
    assert "a &amp; b" in page
    assert "src=" not in page


def test_the_archive_of_tweets_is_known_by_its_columns(tmp_path: Path) -> None:
    file = tmp_path / "tweets.csv"
    rows = [f"{m},0,{m},{int(value)},0" for m, value in enumerate(daily(900))]
    file.write_text("\n".join(["minute,day,minute_of_day,tweets,missing", *rows]) + "\n")
    assert any(":02 and :32" in note for note in benched(file)["notes"])


def test_a_model_that_is_not_shipped_is_said_and_the_others_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "load_artefact", not_shipped)
    told = benched(written(tmp_path / "x.csv", {"rps": daily(900)}))
    assert "tft: absent, shipped: holds no card.json" in told["notes"]
    assert told["served"]["x"] in {"last", "mean5", "mean15"}


def test_a_folder_without_a_model_is_one_line(
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
def test_bad_values_are_one_line(
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
def test_bad_options_are_one_line(
    options: tuple[str, str], expected: str, tmp_path: Path, capsys: Capture
) -> None:
    file = written(tmp_path / "x.csv", {"rps": daily(900)})
    assert expected in refused(capsys, "bench", "forecast", "--series", str(file), *options)


def test_a_file_without_times_needs_its_step(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "bare.csv"
    file.write_text("rps\n" + "\n".join(f"{value:g}" for value in daily(900)) + "\n")
    assert "timestamp" in refused(capsys, "bench", "forecast", "--series", str(file))
    told = benched(file, "--step-min", "5", "--start", "2024-05-01")
    assert told["rows"][0]["windows"] < 300


def test_one_forecast_names_its_model_and_rises_from_low_to_peak(
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


def test_a_rule_that_serves_does_not_know_of_what_is_announced_and_that_is_said(
    tmp_path: Path, capsys: Capture
) -> None:
    file = written(tmp_path / "x.csv", {"rps": np.linspace(1, 2000, 2000)})
    for start, said in (("2024-05-02 09:30", True), ("2024-05-02 11:30", False)):
        events = tmp_path / "events.csv"
        events.write_text(f"starts_at,kind,factor\n{start},sale,3\n")
        assert run(["forecast", "--series", str(file), "--calendar", str(events)]) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert ("sale is announced for 2024-05-02 09:30" in told) == said
        assert ("ignores" in told) == said


def test_one_forecast_as_of_a_time_does_not_see_what_came(tmp_path: Path) -> None:
    values, out = daily(2000), tmp_path / "out.json"
    said = []
    for after in (values[1500:], np.full(500, 9.0)):
        file = written(tmp_path / "x.csv", {"rps": np.concatenate([values[:1500], after])})
        options = ["--at", "2024-05-02T01:00", "--json", str(out)]
        assert run(["forecast", "--series", str(file), *options]) == 0
        said.append(json.loads(out.read_text()))
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("minutes", "options", "expected"),
    [(100, (), "100 minutes of history"), (900, ("--at", "2030-01-01"), "within 2024-05-01")],
)
def test_one_forecast_of_too_little_is_refused(
    minutes: int, options: tuple[str, ...], expected: str, tmp_path: Path, capsys: Capture
) -> None:
    file = written(tmp_path / "x.csv", {"rps": daily(minutes)})
    assert expected in refused(capsys, "forecast", "--series", str(file), *options)


def forecasts(file: Path) -> dict[str, Any]:
    out = file.parent / "out.json"
    assert run(["forecast", "--series", str(file), "--json", str(out)]) == 0
    told: dict[str, Any] = json.loads(out.read_text())
    return told


def test_a_series_that_fell_silent_is_not_forecast_from_long_ago(tmp_path: Path) -> None:
    dead, pausing = daily(1000), daily(1000, seed=1)
    dead[900:], pausing[990:] = np.nan, np.nan
    columns = {"alive": daily(1000, seed=2), "dead": dead, "pausing": pausing}
    told = forecasts(written(tmp_path / "x.csv", columns))
    assert {row["series"] for row in told["forecasts"]} == {"alive", "pausing"}
    assert any("dead: no value in the 100 minutes before" in n for n in told["notes"])
    assert any("pausing: the last value is 10 minutes old" in n for n in told["notes"])
    assert not any(note.startswith("alive") for note in told["notes"])


def test_a_step_that_is_too_coarse_is_said_or_refused(tmp_path: Path, capsys: Capture) -> None:
    told = forecasts(written(tmp_path / "x.csv", {"rps": daily(300)}, step_min=10))
    assert [row["horizon_min"] for row in told["forecasts"]] == [15, 30]
    assert any("steps of 10 min are too coarse for 5 min" in note for note in told["notes"])
    hourly = written(tmp_path / "y.csv", {"rps": daily(300)}, step_min=60)
    line = refused(capsys, "forecast", "--series", str(hourly))
    assert "a step of 60 minutes is longer than every horizon" in line


def test_a_peak_does_not_fall_with_the_horizon_whoever_serves(tmp_path: Path) -> None:
    # The same every day, and after the last minute much in five minutes and little in thirty.
    day = np.random.default_rng(0).uniform(100.0, 200.0, 1440)
    day[5], day[15], day[30] = 900.0, 150.0, 100.0
    rows = forecasts(written(tmp_path / "x.csv", {"rps": np.append(np.tile(day, 4), day[0])}))
    said = rows["forecasts"]
    assert {row["model"] for row in said} == {"day"}
    assert said[2]["p50"] < said[0]["p50"]
    assert said[0]["peak_p90"] <= said[1]["peak_p90"] <= said[2]["peak_p90"]
