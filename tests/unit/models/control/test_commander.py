"""Growth and headroom that the Commander derives from a forecast."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.cluster.arrays import F64
from models.control.commander import Commander, Outlook, affordable, look_ahead
from models.control.parameters import Parameters
from models.control.report import Report
from models.features.pools import PoolReadings
from models.forecaster.port import HORIZONS_MIN, QUANTILES, Forecast
from tests.unit.models.control.control_helpers import DOMAINS, INVENTORY, Plant

NOW: F64 = np.array([[100.0]])
TICK = np.zeros(1, np.int32)


def outlook(low: float, median: float, high: float) -> Outlook:
    values = np.array([low, median, high], np.float32)
    shape = (1, 1, len(HORIZONS_MIN), len(QUANTILES))
    forecast = Forecast(
        model="by hand",
        made_tick=TICK,
        valid_until_tick=TICK + 6,
        domain=np.broadcast_to(values, shape),
        domain_peak=np.full(shape[:3], high, np.float32),
    )
    return look_ahead(TICK, NOW, forecast)


@given(st.floats(0.0, 1e6), st.floats(0.0, 1e6))
def test_growth_and_headroom_of_a_forecast_are_bounded(median: float, more: float) -> None:
    found = outlook(0.0, median, median + more)
    assert 1.0 <= found.soon[0, 0] <= 4.0
    assert 0.0 <= found.headroom[0, 0] <= 0.1


def test_headroom_is_the_relative_width_of_the_forecast_up_to_a_tenth() -> None:
    assert outlook(95.0, 100.0, 105.0).headroom[0, 0] == pytest.approx(0.05, rel=1e-3)
    assert outlook(50.0, 100.0, 200.0).headroom[0, 0] == 0.1


def test_without_a_forecast_there_is_no_growth_and_no_headroom() -> None:
    found = look_ahead(TICK, NOW, None)
    assert (found.soon[0, 0], found.headroom[0, 0]) == (1.0, 0.0)


def headroom(of: list[float], spare: float) -> list[float]:
    """Of domains with 100 cores of work each."""
    unsure = Outlook(np.ones((1, len(of))), np.array([of]))
    work = np.full((1, len(of)), 100.0)
    found: list[float] = affordable(unsure, work, np.array([spare])).headroom[0].tolist()
    return found


def test_headroom_is_cut_to_the_spare_cores() -> None:
    assert headroom([0.1, 0.05], 15.0) == [0.1, 0.05]
    assert headroom([0.1, 0.05], 3.0) == pytest.approx([0.02, 0.01])
    assert headroom([0.0, 0.0], 3.0) == [0.0, 0.0]


@pytest.mark.parametrize("spare", [0.0, -50.0])
def test_there_is_no_headroom_without_spare_cores(spare: float) -> None:
    assert headroom([0.1, 0.05], spare) == [0.0, 0.0]


def released(by: int, lacking: int) -> float:
    """Cores that a domain releases while another lacks many, and all hold twice their work."""

    def each(cores: float) -> F64:
        return np.full((1, DOMAINS), cores)

    distress = each(0.0)
    distress[0, lacking] = 500.0
    report = Report(
        work=each(100.0), essential=each(118.0), kept=each(150.0), wanted=each(200.0),
        held=each(200.0), held_memory_gib=each(200.0), pending=each(0.0), distress=distress,
        rps=each(1.0), at_risk=each(0.0), apps=each(8.0),
    )  # fmt: skip
    plant = Plant(nodes=1)
    pools = PoolReadings(plant.pool, INVENTORY)
    decision = Commander(INVENTORY, Parameters()).decide(TICK, pools, report, None, TICK)
    return float(decision.directive.release[0, by])


def test_the_highest_priority_gives_way_to_its_equals_but_not_to_its_callers() -> None:
    caller, callee = np.flatnonzero(INVENTORY.priority == 0)[:2]
    assert INVENTORY.calls[caller, callee] > 0.0
    assert released(by=caller, lacking=callee) > 0.0
    # The surge of a caller reaches those that it calls next.
    assert released(by=callee, lacking=caller) == 0.0
