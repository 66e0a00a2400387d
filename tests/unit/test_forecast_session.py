"""The shipped network: what it says of a row is a matter of that row alone."""

import numpy as np
import pytest

from models.forecaster.learned.artefact import NETWORK, SHIPPED, load_artefact
from models.forecaster.learned.encode import encode
from models.forecaster.learned.inputs import Inputs
from tests.unit.test_forecast_encode import days, series

pytestmark = pytest.mark.skipif(not (SHIPPED / NETWORK).exists(), reason="no model is shipped")


@pytest.mark.parametrize("rows", [1, 5, 31, 33])
def test_an_answer_is_the_same_bits_alone_and_among_others(rows: int) -> None:
    session = load_artefact().session
    inputs = encode(series(days(9)), np.arange(11_000, 11_100))
    together = session.say(inputs)
    some = session.say(Inputs._make(part[40 : 40 + rows] for part in inputs))
    np.testing.assert_array_equal(some.values, together.values[40 : 40 + rows])
    np.testing.assert_array_equal(some.hidden, together.hidden[40 : 40 + rows])


def test_nothing_asked_is_nothing_said() -> None:
    inputs = encode(series(days(2)), np.arange(0))
    assert load_artefact().session.say(inputs).values.shape == (0, 3, 3)
