"""Each row is corrected by the corrector of the network that answered it, and by no other."""

import numpy as np

from models.cluster.arrays import F64
from models.forecaster.learned.corrector import ERRORS, Corrector
from models.forecaster.learned.serving import NetworkForecast, Origin, apply_corrector
from models.forecaster.port import HORIZONS_MIN, MEDIAN, QUANTILES

H = len(HORIZONS_MIN)


def shifting(factor: float, hidden: int) -> Corrector:
    """Multiplies every forecast of a network with so many hidden values."""
    features = hidden + 2 * ERRORS
    weights = np.zeros((H, features + 1))
    weights[:, -1] = np.log(factor)
    return Corrector(
        np.zeros((H, features)), np.ones((H, features)), weights, 1.0, "a test", 0, 1,
        np.array([1.0, 0.5]),
    )  # fmt: skip


def forecast(rows: int, hidden: int) -> NetworkForecast:
    values = np.full((rows, H, len(QUANTILES)), 100.0)
    return NetworkForecast(
        values[..., MEDIAN], values, np.full((rows, H), 110.0), np.full(rows, ""),
        np.zeros((rows, H, hidden)), np.zeros((rows, H)),
    )  # fmt: skip


def medians(found: NetworkForecast) -> F64:
    return found.values[:, 0, MEDIAN]


def test_rows_of_another_network_have_its_corrector_and_its_hidden_state() -> None:
    rows, errors = np.array([False, True, False]), np.zeros((3, H, ERRORS))
    other = Origin(rows, np.zeros((3, H, 7)), shifting(1.5, 7))
    found = apply_corrector(forecast(3, 2)._replace(others=(other,)), shifting(1.1, 2), errors)
    np.testing.assert_allclose(medians(found), [110.0, 150.0, 110.0])
    np.testing.assert_allclose(found.peak[:, 0], [121.0, 165.0, 121.0])


def test_rows_of_a_network_without_a_corrector_are_left_alone() -> None:
    rows, errors = np.array([False, True]), np.zeros((2, H, ERRORS))
    other = Origin(rows, np.zeros((2, H, 7)), None)
    found = apply_corrector(forecast(2, 2)._replace(others=(other,)), shifting(1.1, 2), errors)
    np.testing.assert_allclose(medians(found), [110.0, 100.0])
