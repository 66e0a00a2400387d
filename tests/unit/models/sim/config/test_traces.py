"""Traces: regular series load, everything else is refused with one clear line."""

import gzip
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from models.cluster.calendar import HISTORY_MINUTES
from models.inputs.errors import InputError
from models.sim.config.events import Replay, Target
from models.sim.config.timeline import timeline
from models.sim.config.traces import load_trace, replay_series

DEV_TRACES = Path(__file__).parents[6] / "shared" / "traces" / "dev"
TIMES = timeline("Tue 10:00", warmup_minutes=20, length_minutes=60, tick_seconds=10)


def written(folder: Path, *lines: str) -> Path:
    file = folder / "trace.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def stamped(values: list[float], step_minutes: int) -> list[str]:
    start = datetime(2024, 1, 1)  # noqa: DTZ001 - traces without zone are what is tested
    return [
        f"{start + timedelta(minutes=step_minutes * row)},{value}"
        for row, value in enumerate(values)
    ]


def days(folder: Path, count: int) -> Path:
    """Minutes counted through, so that a value tells its minute."""
    rows = (f"{minute},{minute + 1}" for minute in range(count * 1440))
    return written(folder, "minute,requests", *rows)


def entry(file: Path, start_minute: int | None = None) -> Replay:
    return Replay(file=str(file), start_minute=start_minute, target=Target(apps=(0,)))


def test_a_trace_by_minute_is_read_unchanged(tmp_path: Path) -> None:
    trace = load_trace(written(tmp_path, "minute,requests", "5,1", "6,2.5", "7,0"))
    assert trace.column == "requests"
    assert trace.values.tolist() == [1, 2.5, 0]
    assert trace.values.dtype == np.float32
    assert not trace.missing.any()


def test_gzip_and_a_byte_order_mark_are_understood(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv.gz"
    # As a spreadsheet exports it.
    file.write_bytes(gzip.compress(b"\xef\xbb\xbfminute,requests\n0,1\n1,2\n"))
    assert load_trace(file, time_column="minute").values.tolist() == [1, 2]


@pytest.mark.parametrize("step", [1, 2, 5, 15, 60])
def test_any_regular_step_becomes_minutes(tmp_path: Path, step: int) -> None:
    file = written(tmp_path, "timestamp,requests", *stamped([0, 10, 20], step))
    trace = load_trace(file)
    assert len(trace.values) == 3 * step
    np.testing.assert_allclose(
        trace.values[: 2 * step + 1], np.linspace(0, 20, 2 * step + 1), rtol=1e-6
    )


def test_a_marked_gap_is_interpolated_and_flagged(tmp_path: Path) -> None:
    lines = ("minute,requests,missing", "0,10,0", "1,,1", "2,0,1", "3,40,0", "4,nan,1")
    trace = load_trace(written(tmp_path, *lines))
    assert trace.values.tolist() == [10, 20, 30, 40, 40]
    assert trace.missing.tolist() == [False, True, True, False, True]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["minute,requests", "0,1", "1,1", "5,1", "6,1"], "line 4: unmarked gap of 4 min.*missing"),
        (["minute,requests", "0,1", "1,1", "1,1", "2,1"], "line 4: 0 min after the row before"),
        (["minute,requests", "0,1", "1,-2"], 'line 3: expected a number of at least 0, got "-2"'),
        (["minute,requests", "0,1", "1,nan"], "line 3: expected a number.*missing"),
        (["minute,requests", "0,1", "1,inf"], "line 3: expected a number"),
        (["minute,requests", "0,1", "1,many"], 'line 3: expected a number.*"many"'),
        (["minute,requests", "0,", "1,1"], "line 2: expected a number"),
        (["minute,requests", "noon,1", "1,1"], "line 2: expected a timestamp or a whole minute"),
        (["minute,requests", "0,1", "1,1,1"], "line 3: expected 2 cells, got 3"),
        (["minute,requests", "0,1"], "expected a header and at least two rows"),
        (["minute,requests", "0,1", "90,1"], "expected a step of 1 to 60 minutes, got 5400 s"),
        (["minute,requests,missing", "0,1,no", "1,1,0"], "line 2: expected 0 or 1 in `missing`"),
        (["minute,requests,missing", "0,1,1", "1,1,1"], "expected at least one sample"),
        (["minute,a,b", "0,1,1", "1,1,1"], "column: choose one of a, b"),
    ],
)
def test_a_bad_trace_gets_one_line_with_file_line_and_what_to_do(
    tmp_path: Path, lines: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load_trace(written(tmp_path, *lines))
    assert "trace.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unreadable_trace_gets_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_trace(tmp_path / "absent.csv")
    for content in (b"no gzip at all", gzip.compress(b"minute,requests\n0,1\n1,2\n")[:-9]):
        file = tmp_path / "trace.csv.gz"
        file.write_bytes(content)
        with pytest.raises(InputError, match="cannot be read"):
            load_trace(file)


def test_an_unknown_column_is_refused_with_the_allowed_names(tmp_path: Path) -> None:
    file = written(tmp_path, "minute,requests", "0,1", "1,1")
    with pytest.raises(InputError, match="expected one of minute, requests, got rps"):
        load_trace(file, column="rps")


def test_a_long_trace_is_cut_at_its_start_minute(tmp_path: Path) -> None:
    # 14 days and the warm-up, then 700 minutes of the trace are left out.
    start = HISTORY_MINUTES + 20 + 700
    series = replay_series(entry(days(tmp_path, 16), start), TIMES)
    # The value of a minute is its number + 1, up to the mean.
    assert series[HISTORY_MINUTES + 20] / series[0] == pytest.approx((start + 1) / 701)


@pytest.mark.parametrize("start", [600, HISTORY_MINUTES + 19, 16 * 1440 - 60])
def test_a_long_trace_never_wraps_its_future_into_its_history(tmp_path: Path, start: int) -> None:
    with pytest.raises(InputError, match=r"start_minute: expected from 20180 .*to 22979"):
        replay_series(entry(days(tmp_path, 16), start), TIMES)


def test_a_short_trace_is_repeated_by_whole_days(tmp_path: Path) -> None:
    series = replay_series(entry(days(tmp_path, 2), 600), TIMES)
    np.testing.assert_array_equal(series[:2880], series[2880:5760])
    assert series[HISTORY_MINUTES + 20] / series.min() == pytest.approx(601)
    assert series.mean() == pytest.approx(1, abs=1e-3)


def test_a_trace_below_a_day_or_without_traffic_is_refused(tmp_path: Path) -> None:
    short = written(tmp_path, "minute,requests", *(f"{m},1" for m in range(1439)))
    with pytest.raises(InputError, match="at least one whole day, got 1439 minutes"):
        replay_series(entry(short), TIMES)
    idle = written(tmp_path, "minute,requests", *(f"{m},0" for m in range(1440)))
    with pytest.raises(InputError, match="expected some traffic"):
        replay_series(entry(idle), TIMES)


@pytest.mark.skipif(not DEV_TRACES.exists(), reason="the real traces are not beside this checkout")
@pytest.mark.parametrize(
    ("name", "column", "minutes", "missing"),
    [
        ("worldcup98_1min", None, 95_190, 10),
        ("nasa95_1min", None, 69_120, 7_210),
        ("twitterstream2021_1min", "tweets", 21_600, 437),
        ("appserver_2015_2020_1h", None, 35_194 * 60, 18 * 60),
    ],
)
def test_real_traces_load(name: str, column: str | None, minutes: int, missing: int) -> None:
    file = DEV_TRACES / f"{name}.csv.gz"
    trace = load_trace(file, column)
    assert len(trace.values) == minutes
    assert trace.missing.sum() == missing
    series = replay_series(Replay(file=str(file), column=column, target=Target(apps=(0,))), TIMES)
    assert series.mean() == pytest.approx(1, abs=1e-3)
