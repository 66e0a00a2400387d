import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from models.cluster.arrays import F64
from models.forecaster.port import HORIZONS_MIN
from models.forecaster.score.comparison import (
    Cell,
    block_length,
    block_ratio,
    cells,
    compared,
    geometric_mean,
    headlines,
)
from models.forecaster.score.evaluation import Evaluation
from models.forecaster.score.metrics import (
    coverage,
    interval_score,
    mase_scale,
    q_risk,
    relative_width,
    score,
)
from models.forecaster.score.windows import Windows
from models.forecaster.series import Series

TARGET = np.array([10.0, 20.0, 0.0, 10.0])
LOW = np.array([8.0, 22.0, 0.0, 4.0])
HIGH = np.array([12.0, 26.0, 0.0, 6.0])
RATES = st.one_of(st.just(0.0), st.floats(1e-6, 1e6))
VALUES = arrays(np.float64, 12, elements=RATES)


def predicted(points: F64) -> F64:
    """[B, 3, 3] the same at all horizons, half to one and a half of the point."""
    return np.repeat((points[:, None] * [0.5, 1.0, 1.5])[:, None], 3, axis=1)


def scored(target: F64, **forecasts: F64) -> Evaluation:
    at = np.arange(target.size) + 300
    windows = Windows(300, at, np.repeat(target[:, None], 3, axis=1))
    series = Series("x", 0, 1, np.arange(400.0) % 3)
    return Evaluation(series, windows, forecasts, {})


def test_q_risk_is_twice_the_quantile_loss_over_the_sum() -> None:
    # Losses at .9: 2 below by .9, 2 above by .1, none, 4 below by .9.
    forecast = np.array([8.0, 22.0, 0.0, 6.0])
    assert q_risk(TARGET, forecast, 0.9) == pytest.approx(2 * (1.8 + 0.2 + 3.6) / 40)
    assert q_risk(TARGET, forecast, 0.5) == pytest.approx(8 / 40)


@given(VALUES, VALUES)
def test_at_the_median_q_risk_is_the_absolute_error_over_the_sum(
    target: F64, predicted: F64
) -> None:
    if target.sum() > 0:
        expected = np.abs(target - predicted).sum() / target.sum()
        assert q_risk(target, predicted, 0.5) == pytest.approx(expected)


def test_intervals_are_scored_by_coverage_width_and_winkler_score() -> None:
    assert coverage(TARGET, LOW, HIGH) == 0.5
    assert relative_width(TARGET, LOW, HIGH) == pytest.approx(10 / 40)
    # Outside by 2 and by 4, each times 2 / .2.
    assert interval_score(TARGET, LOW, HIGH) == pytest.approx((10 + 60) / 40)


@given(VALUES, VALUES, st.floats(0.01, 100))
def test_scores_do_not_depend_on_the_unit(target: F64, predicted: F64, scale: float) -> None:
    low, high = np.minimum(target, predicted) * 0.5, predicted
    if target.sum() > 1:
        assert q_risk(target * scale, predicted * scale, 0.9) == pytest.approx(
            q_risk(target, predicted, 0.9)
        )
        assert interval_score(target * scale, low * scale, high * scale) == pytest.approx(
            interval_score(target, low, high)
        )


def test_mase_divides_by_the_error_of_yesterday_or_of_the_last_value() -> None:
    day = np.tile([1.0, 2.0], 720)
    series = Series("x", 0, 1, np.concatenate([day, day + 3, day + 6]))
    assert mase_scale(series, 2 * 1440) == (3.0, "day")
    assert mase_scale(series, 1440) == (1.0, "last")
    stepped = Series("x", 0, 5, np.repeat([1.0, 3.0, 5.0], 5))
    assert mase_scale(stepped, 15) == (2.0, "last")


def test_missing_minutes_do_not_count_in_the_mase_scale() -> None:
    series = Series("x", 0, 1, np.array([1.0, 2.0, np.nan, 9.0, 10.0]))
    assert mase_scale(series, 5) == (1.0, "last")


def test_a_row_has_the_fields_that_readers_of_the_json_expect() -> None:
    target = np.array([2.0, 4.0])
    row = scored(target, m=predicted(np.array([3.0, 3.0]))).scores().rows[0]
    assert msgspec.to_builtins(row) == {
        "series": "x",
        "model": "m",
        "horizon_min": 5,
        "q_risk_p50": pytest.approx(2 / 6),
        "q_risk_p90": pytest.approx(2 * 0.1 * (2.5 + 0.5) / 6),
        # Before the test the values go 0, 1, 2, 0, ...: a change is 4/3 on average.
        "mase": pytest.approx(1 / (4 / 3), rel=0.01),
        "coverage_80": 1.0,
        "width_80": pytest.approx(1.0),
        "interval_score": pytest.approx(1.0),
        "windows": 2,
    }


def test_scores_of_all_zero_targets_are_null_with_a_note() -> None:
    found = scored(np.zeros(4), m=predicted(np.ones(4))).scores()
    assert found.rows[0].q_risk_p50 is None
    assert b'"q_risk_p50":null' in msgspec.json.encode(found.rows[0])
    assert "all values are zero" in found.notes[0]


def test_a_note_about_zeros_names_the_series_or_the_affected_model() -> None:
    some = predicted(np.array([1.0, np.nan]))
    zeros = scored(np.zeros(2), m=some, other=some).scores().notes
    assert len(zeros) == len(HORIZONS_MIN)
    assert zeros[0].startswith("x: 5 min: all values are zero")
    (first, *_) = scored(np.array([0.0, 7.0]), whole=predicted(np.ones(2)), m=some).scores().notes
    assert first.startswith("x: m: 5 min: all values are zero")


def test_a_constant_series_has_no_mase_and_a_note() -> None:
    windows = Windows(300, np.array([300]), np.full((1, 3), 5.0))
    found = score(Series("x", 0, 1, np.full(400, 5.0)), "m", windows, predicted(np.array([5.0])))
    assert found.rows[0].mase is None
    assert "never wrong" in found.notes[0]


def test_windows_that_a_model_did_not_forecast_are_not_scored() -> None:
    forecast = predicted(np.array([3.0, 3.0, 3.0]))
    forecast[1] = np.nan
    rows = scored(np.array([3.0, 100.0, 3.0]), m=forecast).scores().rows
    assert {(row.windows, row.q_risk_p50) for row in rows} == {(2, 0.0)}


def test_a_model_is_compared_with_the_best_rule_on_its_own_windows() -> None:
    target = np.array([10.0, 10.0, 10.0])
    sampled = predicted(np.array([11.0, 11.0, 11.0]))
    sampled[2] = np.nan
    evaluation = scored(
        target,
        last=predicted(np.array([12.0, 12.0, 10.0])),
        mean5=predicted(np.array([14.0, 14.0, 10.0])),
        m=sampled,
    )
    mine = next(cell for cell in cells(evaluation).cells if cell.model == "m")
    assert mine.ratio == pytest.approx(0.5)
    assert (mine.horizon_min, mine.floor, mine.windows) == (5, "last", 2)


def test_cells_without_a_ratio_are_left_out_with_a_note() -> None:
    perfect = scored(
        np.array([10.0]), last=predicted(np.array([10.0])), m=predicted(np.array([11.0]))
    )
    assert cells(perfect).cells == ()
    assert "x: last, m: 5 min: no ratio, last is never wrong" in cells(perfect).left_out
    zeros = scored(np.zeros(1), last=predicted(np.zeros(1)))
    assert "all values are zero" in cells(zeros).left_out[0]
    alone = scored(np.ones(1), m=predicted(np.ones(1)))
    assert "none of the simple rules" in cells(alone).left_out[0]


def test_the_headline_is_a_geometric_mean_over_series() -> None:
    found = headlines([Cell("a", "m", 5, 0.5, "last", 9), Cell("b", "m", 5, 2.0, "day", 9)])
    assert [(head.model, head.horizon_min, head.series) for head in found] == [("m", 5, 2)]
    assert found[0].ratio == pytest.approx(1)
    assert geometric_mean([0.0, 1.0]) > 0


def test_a_block_is_a_day_or_an_eighth_of_the_windows() -> None:
    assert block_length(np.arange(100_000)) == 1440
    assert block_length(np.arange(0, 100_000, 5)) == 288
    assert block_length(np.arange(800)) == 100
    assert block_length(np.array([7])) == 1


def test_a_model_that_is_better_in_every_block_is_significantly_better() -> None:
    theirs = np.random.default_rng(0).uniform(1, 2, 800)
    found = block_ratio(theirs * 0.9, theirs, 100)
    assert (found.value, found.low, found.high) == pytest.approx((0.9, 0.9, 0.9))


def test_blocks_widen_the_interval_of_correlated_errors() -> None:
    generator = np.random.default_rng(0)
    ours = np.repeat(generator.uniform(0, 2, 16), 50)
    theirs = np.ones(800)
    alone, together = block_ratio(ours, theirs, 1), block_ratio(ours, theirs, 100)
    assert together.low < alone.low < alone.value < alone.high < together.high
    assert together.low < 1 < together.high


def test_significance_uses_only_windows_that_both_models_forecast() -> None:
    target = np.full(40, 10.0)
    ours = predicted(np.full(40, 11.0))
    ours[::2] = np.nan
    evaluation = scored(target, ours=ours, theirs=predicted(np.full(40, 12.0)))
    assert compared(evaluation, "ours", "theirs", 15).value == pytest.approx(0.5)


def test_zero_errors_and_single_windows_have_no_interval() -> None:
    assert np.isnan(block_ratio(np.ones(9), np.zeros(9), 1).value)
    assert np.isnan(block_ratio(np.ones(1), np.ones(1), 1).low)
