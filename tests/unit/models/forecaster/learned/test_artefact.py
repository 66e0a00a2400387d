"""The shipped network: the forecast of a row depends on that row alone."""

import numpy as np
import pytest

from models.forecaster.learned.artefact import NETWORK, SHIPPED, load_artefact
from models.forecaster.learned.encode import encode
from models.forecaster.learned.inputs import NetworkInputs
from models.forecaster.series import Announced
from tests.unit.models.forecaster.synthetic_series import days, series

pytestmark = pytest.mark.skipif(not (SHIPPED / NETWORK).exists(), reason="no model is shipped")


@pytest.mark.parametrize("first", [40, 43])
@pytest.mark.parametrize("rows", [1, 5, 31, 33])
def test_a_forecast_is_bit_identical_alone_and_in_a_batch(rows: int, first: int) -> None:
    session = load_artefact().session
    sales = [Announced(start, start + 40, 2.0, "sale") for start in (9000, 10_000, 11_060)]
    inputs = encode(series(days(9), *sales), np.arange(11_000, 11_100))
    together, chosen = session.predict(inputs), slice(first, first + rows)
    some = session.predict(NetworkInputs._make(part[chosen] for part in inputs))
    np.testing.assert_array_equal(some.values, together.values[chosen])
    np.testing.assert_array_equal(some.hidden, together.hidden[chosen])


def test_no_origins_give_no_forecasts() -> None:
    inputs = encode(series(days(2)), np.arange(0))
    assert load_artefact().session.predict(inputs).values.shape == (0, 3, 3)
