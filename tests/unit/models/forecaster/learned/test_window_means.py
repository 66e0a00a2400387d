"""The skill of simple rules, as an input."""

import numpy as np
import pytest

from models.cluster.arrays import F64
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.learned.encode import encode, encode_last
from models.forecaster.learned.inputs import STATIC
from models.forecaster.series import Series

HOURLY = np.where(np.arange(60) < 20, 300.0, 100.0)


def skills(rps: F64, step_min: int = 1) -> dict[str, float]:
    series = Series("made up", 0, step_min, rps)
    static = encode(series, np.array([rps.size - 1])).static[0]
    return {name: float(static[STATIC.index(f"{name}_skill")]) for name in ("last", "hour", "day")}


def test_a_rule_with_smaller_errors_than_the_mean_has_positive_skill() -> None:
    found = skills(np.tile(HOURLY, 48))
    assert found["hour"] > 1.0
    assert found["day"] > 1.0
    assert found["last"] < 1.0


def test_the_skill_of_a_rule_with_few_comparisons_is_small() -> None:
    shortly_after_a_day = np.tile(HOURLY, 25)[: DAY_MINUTES + 12]
    found = skills(shortly_after_a_day)
    assert found["hour"] > 1.0
    assert 0.0 < found["day"] < 0.2
    assert skills(shortly_after_a_day[: DAY_MINUTES - 1])["day"] == 0.0


def test_rules_are_compared_over_the_same_minutes() -> None:
    # Volatile for long and calm for the last minutes, the only ones with a value a day before.
    wild = np.random.default_rng(0).uniform(0.0, 1000.0, DAY_MINUTES - 30)
    calm = np.full(60, 500.0)
    rps = np.concatenate([np.full(30, np.nan), wild, calm])
    rps[: DAY_MINUTES - 300] = np.nan
    rps[30:60] = 500.0
    assert skills(rps)["day"] == pytest.approx(0.0, abs=1e-6)


def test_a_repeated_value_of_a_step_is_not_compared_with_itself() -> None:
    of_half_hours = np.repeat(np.random.default_rng(1).uniform(50.0, 150.0, 96), 30)
    assert skills(of_half_hours)["last"] > 0.3
    assert skills(of_half_hours, step_min=30)["last"] < 0.0


def test_skills_do_not_depend_on_the_other_series_of_a_batch() -> None:
    noise = np.random.default_rng(4)
    several = [
        Series("hourly", 0, 1, np.tile(HOURLY, 40)),
        Series("wild", 0, 1, noise.gamma(9.0, 10.0, 2400)),
        Series("coarse", 0, 30, np.repeat(noise.uniform(50.0, 150.0, 80), 30)),
    ]
    together = encode_last(several).static
    for index, one in enumerate(several):
        np.testing.assert_array_equal(together[index], encode_last([one]).static[0])


def test_skills_are_the_same_for_one_origin_and_for_many() -> None:
    rps = np.random.default_rng(2).gamma(9.0, 10.0, 4000)
    rps[3700:3720] = np.nan
    series = Series("made up", 0, 1, rps)
    among = encode(series, np.arange(3000, 4000)).static[-1]
    np.testing.assert_allclose(encode_last([series]).static[0], among, rtol=1e-5, atol=1e-6)
