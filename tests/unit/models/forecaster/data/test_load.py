import gzip
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.forecaster.data.axes import axis_of, minute_of, on_axis
from models.forecaster.data.calendars import announced, read_calendar
from models.forecaster.data.load import load
from models.forecaster.series import ALWAYS, Announced, Series
from models.inputs.errors import InputError

pyarrow = pytest.importorskip("pyarrow", reason="reading tables needs the extra 'fit'")

BESIDE = Path(__file__).parents[6] / "shared" / "traces"
MONDAY = int(np.datetime64("2021-08-02", "m").astype(np.int64))


@pytest.fixture(scope="module")
def dev() -> Path:
    folder = Path(os.environ.get("HIRL_TRACES", BESIDE)) / "dev"
    if not folder.is_dir():
        pytest.skip("the real traces are not here: set HIRL_TRACES to their folder")
    return folder


def written(folder: Path, text: str, name: str = "web.csv") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def minute(time: str) -> int:
    return int(np.datetime64(time, "m").astype(np.int64))


def test_a_long_table_of_one_series_is_named_after_its_file(tmp_path: Path) -> None:
    text = "timestamp,requests,missing\n2024-05-01 10:00,4,0\n2024-05-01 10:01,0,1\n"
    file = tmp_path / "web.csv.gz"
    file.write_bytes(gzip.compress((text + "2024-05-01 10:02,6,0\n").encode()))
    (series,) = load(file)
    assert series.name == "web"
    assert series.origin_min == minute("2024-05-01T10:00")
    np.testing.assert_array_equal(series.rps, [4, np.nan, 6])


def test_five_minute_values_are_repeated_and_gaps_are_missing(tmp_path: Path) -> None:
    rows = "2024-05-01 10:00,4\n2024-05-01 10:05,5\n2024-05-01 10:10,6\n2024-05-01 10:20,7\n"
    (series,) = load(written(tmp_path, "time,value\n" + rows))
    assert series.step_min == 5
    np.testing.assert_array_equal(series.rps, np.repeat([4, 5, 6, np.nan, 7], 5))


def test_a_series_column_separates_series_and_label_columns_are_ignored(tmp_path: Path) -> None:
    rows = [f"{name},2024-05-01 10:0{i},{i},1" for i in range(3) for name in ("b", "a")]
    found = load(written(tmp_path, "series,timestamp,value,anomaly\n" + "\n".join(rows)))
    assert [series.name for series in found] == ["a", "b"]
    np.testing.assert_array_equal(found[0].rps, [0, 1, 2])


def test_the_only_text_column_separates_series_whatever_its_name(tmp_path: Path) -> None:
    rows = [f"{name},2024-05-01 10:0{i},{i}" for i in range(3) for name in ("x1", "x2")]
    found = load(written(tmp_path, "host,timestamp,hits\n" + "\n".join(rows)))
    assert [series.name for series in found] == ["x1", "x2"]


def test_a_wide_table_has_a_series_per_column(tmp_path: Path) -> None:
    file = written(tmp_path, "date,a,b\n2024-05-01 10:00,1,2\n2024-05-01 11:00,3,\n")
    a, b = load(file)
    assert (a.name, a.step_min, a.rps.size) == ("a", 60, 120)
    assert b.missing.sum() == 60
    assert [series.name for series in load(file, columns=("b",))] == ["web"]


def test_a_table_without_times_needs_a_step(tmp_path: Path) -> None:
    file = written(tmp_path, "773869,767541\n1,2\n3,4\n")
    with pytest.raises(InputError, match="no column of times"):
        load(file)
    first, _ = load(file, step_min=5, start="2012-03-01")
    assert first.name == "773869"
    assert first.origin_min == minute("2012-03-01T00:00")
    np.testing.assert_array_equal(first.rps, np.repeat([1, 3], 5))


@pytest.mark.parametrize(
    ("header", "start"),
    [
        ("m0480,m0481,m0482", 480),
        ("m1200,m1201,m1202", 1200),
        ("minute_1,minute_2,minute_3", 0),
        ("1,2,3", 0),
    ],
)
def test_a_row_per_series_has_a_column_per_minute(tmp_path: Path, header: str, start: int) -> None:
    found = load(written(tmp_path, f"app,fn,{header}\nx,f,1,2,3\nx,g,4,5,6\n"))
    assert [series.name for series in found] == ["f", "g"]
    assert {series.origin_min for series in found} == {MONDAY + start}
    np.testing.assert_array_equal(found[1].rps, [4, 5, 6])


def test_a_parquet_file_may_hold_lists(tmp_path: Path) -> None:
    from pyarrow import parquet

    table = pyarrow.table({"fn": ["f", "g"], "counts": [[1, 2], [3, 4]]})
    parquet.write_table(table, tmp_path / "p.parquet")
    found = load(tmp_path / "p.parquet")
    assert [series.name for series in found] == ["f", "g"]
    np.testing.assert_array_equal(found[1].rps, [3, 4])


def test_files_that_only_count_minutes_start_on_a_monday(tmp_path: Path) -> None:
    text = "minute,day,minute_of_day,tweets,missing\n0,0,0,5,0\n1,0,1,6,0\n3,0,3,7,0\n"
    (series,) = load(written(tmp_path, text))
    assert series.origin_min == MONDAY
    np.testing.assert_array_equal(series.rps, [5, 6, np.nan, 7])


def test_metrics_of_a_service_become_one_series_with_errors_and_latency(tmp_path: Path) -> None:
    rows = [
        f"{1693922400 + 300 * i},shop,{metric},{statistic},{value}"
        for i in range(2)
        for metric, statistic, value in (
            ("requests", "Sum", 10 + i),
            ("availability", "Average", 75),
            ("latency", "Average", 0.5),
            ("latency", "p99", 9),
        )
    ]
    header = "unix_timestamp,service,metric,statistic,value\n"
    (series,) = load(written(tmp_path, header + "\n".join(rows)))
    assert (series.name, series.step_min) == ("shop", 5)
    np.testing.assert_array_equal(series.rps, np.repeat([10, 11], 5))
    assert series.errors is not None
    assert series.latency is not None
    np.testing.assert_array_equal(series.errors, np.full(10, 0.25))
    np.testing.assert_array_equal(series.latency, np.full(10, 0.5))


def test_values_that_share_a_step_are_averaged_with_a_note(tmp_path: Path) -> None:
    notes: list[str] = []
    rows = "2024-05-01 10:00,4\n2024-05-01 10:01,5\n2024-05-01 10:01,7\n2024-05-01 10:02,1\n"
    (series,) = load(written(tmp_path, "time,value\n" + rows), note=notes.append)
    np.testing.assert_array_equal(series.rps, [4, 6, 1])
    assert "1 values share a step" in notes[0]


@pytest.mark.parametrize("value", ["-3", "inf", "many"])
def test_an_invalid_value_is_reported_with_its_row(tmp_path: Path, value: str) -> None:
    text = f"timestamp,requests\n2024-05-01 10:00,4\n2024-05-01 10:01,{value}\n"
    with pytest.raises(InputError, match=r"web\.csv: row 3: requests is .*leave the cell empty"):
        load(written(tmp_path, text))


def test_an_invalid_value_marked_as_missing_is_missing(tmp_path: Path) -> None:
    text = "timestamp,requests,missing\n2024-05-01 10:00,4,0\n2024-05-01 10:01,error,1\n"
    (series,) = load(written(tmp_path, text))
    np.testing.assert_array_equal(series.rps, [4, np.nan])


def test_negative_values_are_allowed_in_signed_files(tmp_path: Path) -> None:
    file = written(tmp_path, "date,OT\n2024-05-01 10:00,-1\n2024-05-01 11:00,2\n")
    (series,) = load(file, signed=True)
    assert series.rps[0] == -1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("timestamp,v\n2024-05-01 10:00:00,1\n2024-05-01 10:00:30,1\n", "0.5 minutes apart"),
        ("timestamp,v\n2024-05-01 10:00:00,1\n2024-05-01 10:01:30,1\n", "1.5 minutes apart"),
        ("timestamp,v\n2024-05-01,1\n2024-05-02,1\n", "1440 minutes apart"),
        ("timestamp,v\n2024-05-01 10:00,1\n", "two different times"),
        ("timestamp,v\n2024-05-01 10:00,1\nyesterday,2\n", "row 3: timestamp: 'yesterday'"),
        ("timestamp,v\n1924-05-01 10:00,1\n2024-05-01 10:00,1\n2024-05-01 10:01,1\n", "20 years"),
        ("minute,v\n0,1\n,2\n", "row 3: minute is empty"),
        ("timestamp,v\n", "no rows"),
        ("timestamp,v,v\n2024-05-01 10:00,1,1\n", "two columns"),
        ("timestamp\n2024-05-01 10:00\n2024-05-01 10:01\n", "no column with values"),
        (
            "series,timestamp,a,b\nx,2024-05-01 10:00,1,1\n",
            "which column holds the values. choose one of a, b",
        ),
        ("timestamp,v\n2024-05-01 10:00,1,7\n", "not a table"),
    ],
)
def test_an_unreadable_file_is_refused_with_one_line(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(InputError, match=message) as refused:
        load(written(tmp_path, text))
    assert "\n" not in str(refused.value)


def test_a_missing_file_or_column_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv: no such file"):
        load(tmp_path / "none.csv")
    with pytest.raises(InputError, match="is a folder"):
        load(tmp_path)
    with pytest.raises(InputError, match="no such column"):
        load(written(tmp_path, "timestamp,v\n2024-05-01 10:00,1\n"), columns=("w",))


def test_without_pyarrow_the_message_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"pip install 'hirl-scale\[fit\]'"):
        load(tmp_path / "web.csv")


@given(
    st.lists(st.integers(0, 500), min_size=2, max_size=60, unique=True),
    st.integers(1, 60),
    st.integers(0, 3599),
)
def test_every_timestamp_has_its_value_on_the_axis(
    steps: list[int], step: int, offset: int
) -> None:
    slots = np.array(steps, np.int64)
    seconds = offset + slots * step * 60
    values = slots.astype(np.float64)
    axis = axis_of(seconds, "x", step)
    rps, shared = on_axis(axis, seconds, values)
    assert shared == 0
    assert rps.size == (slots.max() - slots.min() + 1) * step
    np.testing.assert_array_equal(rps[(slots - slots.min()) * step], values)
    assert np.isfinite(rps).sum() == slots.size * step


def test_jittering_timestamps_do_not_share_a_step() -> None:
    seconds = 300 * np.arange(50) + np.array([0, 0, 20, -20, 0] * 10)
    rps, shared = on_axis(axis_of(seconds, "x"), seconds, np.arange(50.0))
    assert shared == 0
    np.testing.assert_array_equal(rps[::5], np.arange(50.0))


def test_a_late_or_early_first_timestamp_does_not_shift_the_axis() -> None:
    for late in (20, -20):
        seconds = 6000 + 300 * np.arange(50)
        seconds[0] += late
        axis = axis_of(seconds, "x")
        assert (axis.origin_min, axis.steps) == (100, 50)
        np.testing.assert_array_equal(on_axis(axis, seconds, np.arange(50.0))[0][:6], [0] * 5 + [1])


def test_a_time_is_converted_to_a_minute_of_the_series() -> None:
    series = Series("x", minute("2024-05-01T00:00"), 1, np.zeros(9))
    assert minute_of(series, "2024-05-01 01:30") == 90
    assert minute_of(series, "2024-05-01T01:30Z") == 90
    with pytest.raises(InputError, match="not a time"):
        minute_of(series, "noon")


def test_a_calendar_has_times_factors_kinds_and_announcement_times(tmp_path: Path) -> None:
    text = (
        "starts_at,length_minutes,expected_factor,kind,announced_at,domain\n"
        "2024-05-01T02:00,30,2.5,sale,2024-05-01T01:00,\n"
        "2024-05-01T01:00,,,,,shop\n"
        "2024-05-01T00:30,,,,,other\n"
    )
    found = announced(read_calendar(written(tmp_path, text)), minute("2024-05-01T00:00"), "shop")
    assert found == (
        Announced(60, 180, 1.0, "", ALWAYS),
        Announced(120, 150, 2.5, "sale", 60),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("what\nx\n", "starts_at"),
        # Traffic that was given as its own calendar.
        ("time,rps\n2024-05-01 00:10,7\n", "no column `starts_at`"),
        ("starts_at,ends_at\n2024-05-01 00:10,2024-05-01 00:10\n", "row 2: the event ends before"),
        ("starts_at\nsoon\n", "row 2: starts_at: 'soon'"),
        ("starts_at,factor\n2024-05-01 00:10,-2\n", "row 2: factor is -2"),
    ],
)
def test_an_invalid_calendar_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_calendar(written(tmp_path, text))


def test_a_misspelt_series_in_a_calendar_gets_a_suggestion(
    tmp_path: Path,
) -> None:
    file = written(tmp_path, "timestamp,api,web\n2024-05-01 10:00,1,1\n2024-05-01 10:01,1,1\n")
    strange = written(tmp_path, "start,series\n2024-05-01 10:00,wbe\n", "strange.csv")
    with pytest.raises(InputError, match="no series is named 'wbe'; did you mean 'web'"):
        load(file, strange)


def test_entries_for_unknown_series_are_refused_and_unused_calendars_noted(
    tmp_path: Path,
) -> None:
    file = written(tmp_path, "timestamp,v\n2024-05-01 10:00,1\n2024-05-01 10:01,1\n")
    strange = written(tmp_path, "start,series\n2024-05-01 10:00,other\n", "strange.csv")
    with pytest.raises(InputError, match="no series is named 'other'"):
        load(file, strange)
    notes: list[str] = []
    late = written(tmp_path, "start\n2025-05-01 10:00\n", "late.csv")
    load(file, late, note=notes.append)
    assert "no event is announced" in notes[0]
    notes.clear()
    load(file, written(tmp_path, "start\n2024-05-01 10:31\n", "soon.csv"), note=notes.append)
    assert not notes


@pytest.mark.parametrize(
    ("name", "count", "step", "minutes", "missing"),
    [
        ("nasa95_1min.csv.gz", 1, 1, 69_120, 7_210),
        ("twitterstream2021_1min.csv.gz", 1, 1, 21_600, 437),
        ("appserver_2015_2020_1h.csv.gz", 1, 60, 35_194 * 60, 18 * 60),
        ("azure2019_fn_1day_1min.csv.gz", 599, 1, 1_440, 0),
        ("nab_real.csv.gz", 37, 5, 14_110, 0),
        ("petshop_high_traffic_5min.csv.gz", 39, 5, 589 * 5, 0),
    ],
)
def test_the_recorded_traces_load_with_their_known_sizes(
    dev: Path, name: str, count: int, step: int, minutes: int, missing: int
) -> None:
    found = load(dev / name)
    first = found[0]
    assert len(found) == count
    assert (first.step_min, first.rps.size, first.missing.sum()) == (step, minutes, missing)


def test_the_kick_offs_of_1998_have_their_true_times(dev: Path) -> None:
    (series,) = load(dev / "worldcup98_1min.csv.gz", dev / "worldcup98_calendar.csv")
    assert len(series.calendar) == 64
    first = series.calendar[0]
    assert first.kind == "group"
    assert series.origin_min + first.start_min == minute("1998-06-10T15:30")
