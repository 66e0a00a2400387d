"""A correction helps, is small and is reported; else the raw forecast is served."""

from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.cluster.arrays import F64
from models.forecaster.learned.corrector import ERRORS, Corrector, correct, load, save
from models.forecaster.port import MEDIAN
from models.forecaster.training.corrector import Gain, Settings, evaluated, fit, gain
from models.inputs.errors import InputError

WIDTH: Final = 8


class Moments(NamedTuple):
    hidden: F64
    errors: F64
    target: F64
    age_min: F64
    predicted: F64
    actual: F64


def moments(seed: int, count: int = 3000, *, learnable: bool = True) -> Moments:
    """Log errors that follow the last ones and the hidden state, with heavy tails and gaps."""
    draw = np.random.default_rng(seed)
    hidden = draw.standard_normal((count, 3, WIDTH))
    bias = draw.standard_normal((count, 3, 1)) * 0.05
    errors = bias + draw.standard_normal((count, 3, ERRORS)) * 0.05
    errors[draw.random(errors.shape) < 0.2] = np.nan
    target = draw.standard_t(3, (count, 3)) * 0.03
    if learnable:
        target += bias[..., 0] + 0.02 * hidden[..., 0]
    median = np.exp(draw.normal(5.0, 1.0, (count, 3)))
    predicted = median[..., None] * np.array([0.8, 1.0, 1.3])
    return Moments(
        hidden,
        errors,
        target,
        np.linspace(0.5 * count, 0.5, count),
        predicted,
        median * np.exp(target),
    )


def fitted(seed: int = 0, *, learnable: bool = True, limit: float = 0.15) -> Corrector:
    past, later = moments(seed, learnable=learnable), moments(seed + 1, learnable=learnable)
    found = fit(*past[:4], "two domains", 1234, Settings(most_rate=limit))
    return evaluated(found, gain(found, later.hidden, later.errors, later.predicted, later.actual))


def test_predictable_errors_are_corrected() -> None:
    artefact, fresh = fitted(), moments(7)
    found = gain(artefact, fresh.hidden, fresh.errors, fresh.predicted, fresh.actual)
    assert artefact.used
    assert found.corrected < 0.85 * found.raw


def test_a_corrector_that_does_not_help_is_not_used() -> None:
    fresh = moments(7)
    for useless in (
        evaluated(fitted(), Gain(1.0, 1.0)),
        fit(*moments(0)[:4], "not judged", 0),
    ):
        found = correct(useless, fresh.hidden, fresh.errors, fresh.predicted)
        assert not useless.used
        np.testing.assert_array_equal(found.values, fresh.predicted)
        assert not found.rate.any()
        assert not found.refused.any()


@pytest.mark.parametrize("seed", [0, 10, 20])
def test_a_corrector_fitted_on_noise_is_not_used(seed: int) -> None:
    assert not fitted(seed, learnable=False).used


def test_a_correction_shifts_all_quantiles_by_the_same_factor() -> None:
    fresh = moments(7)
    found = correct(fitted(), fresh.hidden, fresh.errors, fresh.predicted)
    ratio = found.values / fresh.predicted
    np.testing.assert_allclose(ratio, np.repeat(ratio[..., :1], 3, axis=-1))
    assert np.abs(ratio - 1.0).max() > 0.05


def test_a_too_large_correction_is_refused_and_the_raw_forecast_is_served() -> None:
    fresh = moments(7)
    found = correct(fitted(limit=0.03), fresh.hidden, fresh.errors, fresh.predicted)
    np.testing.assert_array_equal(found.refused, found.rate > 0.03)
    assert 0.1 < found.refused.mean() < 0.9
    np.testing.assert_array_equal(found.values[found.refused], fresh.predicted[found.refused])
    assert (found.values[~found.refused] != fresh.predicted[~found.refused]).any()


def test_a_correction_from_a_nan_hidden_state_is_refused() -> None:
    fresh = moments(7, 4)
    fresh.hidden[1, 2, 3] = np.nan
    found = correct(fitted(), fresh.hidden, fresh.errors, fresh.predicted)
    assert found.refused[1, 2]
    np.testing.assert_array_equal(found.values[1, 2], fresh.predicted[1, 2])


@given(st.lists(st.one_of(st.just(float("nan")), st.floats(-50, 50)), min_size=12, max_size=12))
def test_no_past_error_moves_a_forecast_by_more_than_the_limit(errors: list[float]) -> None:
    fresh = moments(7, 1)
    given_errors = np.tile(np.array(errors), (1, 3, 1))
    found = correct(_ARTEFACT, fresh.hidden, given_errors, fresh.predicted)
    assert (np.abs(found.values / fresh.predicted - 1.0) <= 0.15 + 1e-9).all()


_ARTEFACT: Final = fitted()


def test_thirty_percent_of_the_fitted_sample_are_recent() -> None:
    past = moments(0)
    recent = past.age_min <= 240.0
    marked = past._replace(target=np.repeat(recent[:, None] * 1.0, 3, axis=1))
    found = fit(*marked[:4], "", 0, Settings(sample=1000))
    assert found.moments == 1000
    np.testing.assert_allclose(found.weights[:, -1], 0.3)


def test_scarce_recent_data_shrinks_the_sample_and_keeps_its_share() -> None:
    past = moments(0)
    found = fit(*past[:4], "", 0, Settings(recent_min=30.0))
    assert found.moments == 200


def test_the_same_seed_gives_the_same_corrector() -> None:
    past = moments(0)
    one, same, other = (fit(*past[:4], "", 0, Settings(seed=seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.weights, same.weights)
    assert (one.weights != other.weights).any()


def test_a_saved_corrector_gives_bit_identical_corrections(tmp_path: Path) -> None:
    fresh, artefact = moments(7), fitted()
    save(artefact, tmp_path / "corrector.npz")
    loaded = load(tmp_path / "corrector.npz")
    assert (loaded.trained_on, loaded.until_min) == ("two domains", 1234)
    for one, other in zip(
        correct(artefact, *_given(fresh)), correct(loaded, *_given(fresh)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_a_file_that_is_not_a_corrector_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "corrector.npz"
    with pytest.raises(InputError, match="fit it anew"):
        load(file)
    file.write_bytes(b"PK\x03\x04 broken")
    with pytest.raises(InputError, match="fit it anew"):
        load(file)
    nothing = np.zeros(1)
    card = np.array('{"version": 0}')
    np.savez(file, card=card, mean=nothing, spread=nothing, weights=nothing, rmse=nothing)
    with pytest.raises(InputError, match="expected 1"):
        load(file)


def test_unusable_data_for_a_corrector_is_refused() -> None:
    past = moments(0, 100)
    with pytest.raises(InputError, match="recent and 0 old"):
        fit(*past[:3], np.zeros(100), "", 0)
    with pytest.raises(InputError, match="longer past"):
        fit(*past[:2], np.full((100, 3), np.nan), np.linspace(0, 999, 100), "", 0)
    with pytest.raises(InputError, match="outcomes"):
        gain(_ARTEFACT, *_given(past), np.full((100, 3), np.nan))


def test_the_gain_counts_known_outcomes_only() -> None:
    fresh = moments(7, 50)
    actual = fresh.actual.copy()
    actual[25:] = np.nan
    first = Moments._make(part[:25] for part in fresh)
    half = gain(_ARTEFACT, *_given(first), first.actual)
    assert gain(_ARTEFACT, *_given(fresh), actual) == pytest.approx(half)
    error = (fresh.actual - fresh.predicted[..., MEDIAN])[:25]
    assert half.raw == pytest.approx(float(np.sqrt(np.mean(error**2))))


def _given(some: Moments) -> tuple[F64, F64, F64]:
    return some.hidden, some.errors, some.predicted
