"""The record of a served model has the right minutes, and all that its inputs need."""

import msgspec
import numpy as np

from models.cluster.arrays import F32
from models.cluster.calendar import Announcement
from models.cluster.description import load_cluster
from models.forecaster.learned.encode import encode
from models.forecaster.learned.record import (
    WIDTH,
    Record,
    Row,
    history_minutes,
    minutes_read,
    record_of,
    rows_of,
    series_of,
    with_minute,
)
from models.forecaster.series import UNKNOWN, Announced
from tests.unit.models.forecaster.observations import CLUSTER

BEFORE_MIN, LAST_MIN = 60, 45
TUESDAY_TEN = 1440 + 600
CALENDAR = (
    Announced(-3000, -2940, 2.0, "sale"),
    Announced(-200, -170, 2.0, "sale"),
    Announced(20, 50, 2.0, "sale"),
)


def traffic(minutes: int) -> F32:
    noise = np.random.default_rng(0).uniform(0.5, 1.5, (1, minutes))
    return (1e6 * noise).astype(np.float32)


def test_inputs_never_read_minutes_that_a_world_does_not_record() -> None:
    rows = (Row(priority=0, domain=0, calendar=CALENDAR),)
    whole = traffic(WIDTH + LAST_MIN)
    kept = minutes_read(rows, BEFORE_MIN, LAST_MIN)
    assert kept.size < 0.4 * WIDTH
    cut = np.full((1, WIDTH), np.nan, np.float32)
    cut[:, kept] = whole[:, :WIDTH][:, kept]
    full, partly = record_of(whole[:, :WIDTH], 0), record_of(cut, 0)
    for age in (0, 1, 30, BEFORE_MIN - 1):
        _same_inputs(full, partly, rows, age)
    for minute in range(1, LAST_MIN + 1):
        actual = whole[:, WIDTH + minute - 1].astype(np.float64)
        full, partly = with_minute(full, minute, actual), with_minute(partly, minute, actual)
        if minute % 11 == 1 or minute == LAST_MIN:
            _same_inputs(full, partly, rows, age=0)


def _same_inputs(full: Record, partly: Record, rows: tuple[Row, ...], age: int) -> None:
    """Bit for bit: services have the whole record, a world computes only the minutes it reads."""
    both = [
        encode(series, np.array([series.rps.size - 1 - age]))
        for record in (full, partly)
        for series in series_of(record, rows, 0, TUESDAY_TEN)
    ]
    for whole, cut in zip(*both, strict=True):
        np.testing.assert_array_equal(whole, cut)


def test_a_series_ends_at_the_newest_minute_and_has_the_right_weekday() -> None:
    record = with_minute(record_of(traffic(500), 100), 103, np.array([7.0]))
    rows = (Row(0, 0, (Announced(10, 40, 2.0, "sale"),)),)
    (series,) = series_of(record, rows, first=100, minute_of_week=TUESDAY_TEN)
    assert series.rps.size == 503
    assert np.isnan(series.rps[-3:]).tolist() == [True, True, False]
    # Minute 103 begins 2 minutes after tick 0; Thursday is where weeks since 1970 begin.
    assert series.origin_min + series.rps.size - 1 == TUESDAY_TEN + 2 - 3 * 1440
    assert series.calendar[0].start_min == series.rps.size - 1 + 8


def test_history_starts_at_the_first_valid_minute() -> None:
    history = np.full((3, 50), np.nan, np.float32)
    history[0, 10:] = 5.0
    history[1, [20, 30]] = -1.0, np.inf
    record = record_of(history, 0)
    assert history_minutes(record).tolist() == [40, 0, 0]
    rows = (Row(0, 0, ()),)
    assert [s.rps.size for s in series_of(record, rows, 0, 0)] == [40, 1, 1]


def test_after_a_long_pause_only_the_new_minute_remains() -> None:
    record = with_minute(record_of(traffic(WIDTH), 0), 10**6, np.array([3.0]))
    assert np.isfinite(record.rps).sum() == 1
    assert record.newest == 10**6


def test_announcements_are_given_per_domain_in_minutes_and_kinds_ignore_digits() -> None:
    announcements = (
        Announcement("flash-sale-12", (0, 2), 61, 130, 2.5),
        Announcement("standstill", (2,), 600, 660, 0.0),
    )
    rows = rows_of(CLUSTER, announcements, 6)
    assert [len(row.calendar) for row in rows] == [1, 0, 2, 0, 0]
    sale, standstill = rows[2].calendar
    assert (sale.start_min, sale.end_min, sale.factor, sale.kind) == (10, 22, 2.5, "flash-sale")
    assert standstill.factor == 0.0
    assert [row.priority for row in rows] == [0, 0, 1, 2, 3]


def test_a_domain_that_the_model_was_not_trained_on_is_unknown() -> None:
    cluster = load_cluster()
    renamed = msgspec.structs.replace(cluster.domains[0], name="lending")
    domains = (renamed, *cluster.domains[1:])
    other = msgspec.structs.replace(cluster, domains=domains, calls=())
    assert [row.domain for row in rows_of(other, (), 6)] == [UNKNOWN, 1, 2, 3, 4]
