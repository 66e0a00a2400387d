"""Exporters that break are no growth."""

import pytest

from models.cluster import rows
from models.control.budget import Directive
from tests.unit.models.control.control_helpers import (
    PER_MINUTE,
    forecast_of,
    settled,
)


def _fading(shown: tuple[float, ...]) -> Directive:
    """The last directive while exporters show these shares of unchanged requests, tick by tick."""
    plant, controller, state = settled()
    same = forecast_of(plant, 1.0, until=plant.tick + 1000)
    for share in shown:
        observation = plant.observe()
        for row in (rows.RPS, rows.THROUGHPUT):
            observation.measured[:, row] *= share
        for row in (rows.P50, rows.P99):
            observation.measured[:, row] *= 1.0 if share > 0.0 else 0.0
        plan, state = controller.step(observation, same, state)
        plant.apply(plan)
    return state.decision.directive


@pytest.mark.parametrize("shown", [(0.0,), (5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6, 0.0)])
def test_requests_that_exporters_stop_showing_are_no_growth(shown: tuple[float, ...]) -> None:
    directive = _fading(shown + (0.0,) * 2 * PER_MINUTE)
    assert directive.growth.max() < 1.3


def test_requests_that_are_forecast_are_growth() -> None:
    plant, controller, state = settled()
    _, state = plant.run(controller, state, 1, forecast_of(plant, 1.8))
    assert state.decision.directive.growth.max() == pytest.approx(1.8, rel=0.05)
