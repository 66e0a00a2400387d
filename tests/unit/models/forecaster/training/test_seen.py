"""The distributions that an artefact carries are those of hours of the corpus, part by part."""

import numpy as np
import pytest

from models.forecaster.learned.encode import encode
from models.forecaster.learned.features import FEATURE_NAMES, network_features
from models.forecaster.series import Series
from models.forecaster.training.corpus import Part
from models.forecaster.training.seen import distributions
from models.registry.drift import Distribution, Reference
from tests.unit.models.forecaster.synthetic_series import days, series

PARTS = [
    Part("known", [series(days(4, seed))._replace(priority=0) for seed in range(3)], 0.75),
    Part("unknown", [series(days(4, seed)) for seed in range(3, 6)], 0.25),
    Part("too short", [series(days(0.1))], 10.0),
]


@pytest.fixture(scope="module")
def found() -> dict[str, Distribution]:
    return distributions(PARTS, seed=0, runs=40)


def test_every_feature_has_a_distribution_and_parts_count_by_their_share(
    found: dict[str, Distribution],
) -> None:
    assert {*found} == {*FEATURE_NAMES}
    known = found["static.priority_0"]
    below = dict(zip(known.values, known.shares, strict=True))
    # The share of zeros is that of the part in which no priority is given.
    assert below[0.0] == pytest.approx(0.25, abs=0.15)


def drift_of(found: dict[str, Distribution], one: Series) -> float:
    values = network_features(encode(one, np.arange(one.rps.size - 60, one.rps.size)))
    return Reference("v", found).drift_of(values)["static.roughness"]


def test_hours_like_those_of_training_have_not_drifted_and_others_have(
    found: dict[str, Distribution],
) -> None:
    assert drift_of(found, series(days(4, 1))) < 0.2
    assert drift_of(found, series(np.random.default_rng(0).gamma(1.0, 100.0, 4 * 1440))) > 0.4
