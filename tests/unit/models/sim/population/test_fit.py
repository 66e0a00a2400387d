import os
from pathlib import Path

import numpy as np
import pytest

from models.cluster.arrays import F64
from models.inputs.errors import InputError
from models.sim.population.fitted import FITTED, Fitted, load_fitted

pytest.importorskip("pyarrow", reason="fitting needs the extra 'fit'")
pytest.importorskip("scipy", reason="fitting needs the extra 'fit'")

from models.sim.population import fit
from models.sim.population.fit_series import octave_weights
from models.sim.population.fit_tables import IBM, Table

BESIDE = Path(__file__).parents[6] / "shared" / "traces"


@pytest.fixture(scope="module")
def traces() -> Path:
    folder = Path(os.environ.get("HIRL_TRACES", BESIDE))
    if not (folder / "sim").is_dir():
        pytest.skip("the real tables are not here: set HIRL_TRACES to their folder")
    return folder


@pytest.fixture(scope="module")
def refitted(traces: Path) -> Fitted:
    return fit.fit(traces)


def test_refitting_gives_the_shipped_parameters(refitted: Fitted) -> None:
    assert refitted == load_fitted()


def test_writing_and_reading_gives_the_same_parameters(tmp_path: Path) -> None:
    fit.write(load_fitted(), tmp_path / "fitted.yaml")
    assert load_fitted(tmp_path / "fitted.yaml") == load_fitted()


def test_writing_gives_the_shipped_file(tmp_path: Path) -> None:
    fit.write(load_fitted(), tmp_path / "fitted.yaml")
    assert (tmp_path / "fitted.yaml").read_text() == FITTED.read_text()


def test_the_shipped_file_is_small_and_says_how_to_reproduce_it() -> None:
    assert FITTED.stat().st_size < 60_000
    assert fit.COMMAND in FITTED.read_text()


def test_every_section_names_its_tables_and_their_licences() -> None:
    fitted = load_fitted()
    for name in fitted.__struct_fields__:
        if name != "command":
            for source in getattr(fitted, name).sources:
                assert source.licence
                assert source.rows > 0


def test_an_absent_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ibm_code_engine_app_configs.*cannot be read"):
        fit.fit(tmp_path)


def test_daily_shapes_are_positive_with_mean_one_and_swing() -> None:
    profiles = load_fitted().profiles
    curves = profiles.curves()
    assert curves.shape == (len(profiles.shapes), 1440)
    # Profiles are damped to a minimum of 0.05; rounding the harmonics costs a little.
    assert curves.min() > 0.03
    np.testing.assert_allclose(curves.mean(axis=1), 1, rtol=1e-6)
    weight = np.array([shape.weight for shape in profiles.shapes])
    assert weight.sum() == pytest.approx(1, abs=1e-3)
    assert 1.5 < float(weight @ curves.max(axis=1)) < 3


def test_distributions_sum_to_one() -> None:
    fitted = load_fitted()
    calls = fitted.calls
    for shares in (fitted.pod_sizes.share, fitted.min_replicas.share, calls.fan_out_share):
        assert sum(shares) == pytest.approx(1, abs=2e-3)
    assert sum(calls.depth_share) == pytest.approx(1, abs=2e-3)


def test_quantiles_never_fall() -> None:
    fitted = load_fitted()
    for quantiles in (
        fitted.traffic.over_median,
        fitted.noise.app_std,
        fitted.bursts.per_day,
        fitted.bursts.size,
        fitted.memory.growth,
        fitted.calls.calls_per_request,
    ):
        assert (np.diff(quantiles) >= 0).all()


def test_noise_octaves_reproduce_the_correlation_they_were_fitted_to() -> None:
    noise = load_fitted().noise
    series = _joined_knots(noise.weights, noise.periods_minutes)
    assert series.std() == pytest.approx(1, abs=0.03)
    measured = np.mean([trace.correlation for trace in noise.traces], axis=0)
    for lag, wanted in zip(noise.traces[0].lags_minutes, measured, strict=True):
        found = np.mean(series[lag:] * series[:-lag])
        assert found == pytest.approx(wanted, abs=0.07)


def _joined_knots(weights: tuple[float, ...], periods: tuple[float, ...]) -> F64:
    rng = np.random.default_rng(5)
    minute = np.arange(400_000)
    total = np.zeros(len(minute))
    for weight, period in zip(weights, periods, strict=True):
        knots = rng.normal(size=int(len(minute) / period) + 2)
        total += weight * np.interp(minute / period, np.arange(len(knots)), knots)
    return total


def test_white_noise_is_all_in_the_fastest_octave() -> None:
    assert octave_weights(np.zeros(3)) == pytest.approx((1, 0, 0), abs=1e-3)


def test_boots_slow_each_other_down_along_a_saturating_curve() -> None:
    boot = load_fitted().boot
    others = np.array(boot.concurrent) - 1.0
    curve = 1 + boot.limit * others / (others + boot.half)
    np.testing.assert_allclose(curve, boot.slow_down, rtol=0.03)


def test_pod_sizes_keep_the_mean_of_the_table(traces: Path) -> None:
    sizes = fit.fit_pod_sizes(traces)
    mean = float(np.dot(sizes.cpu_cores, sizes.share))
    assert mean == pytest.approx(Table(traces, IBM).numbers("cpu_vcpu").mean(), rel=0.03)
