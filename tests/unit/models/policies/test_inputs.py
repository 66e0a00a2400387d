"""What the networks see: finite, bounded, and the same in every process."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from models.control.report import Report
from models.features.pools import PoolReadings
from models.policies.contract import (
    CLUSTER_COLUMNS,
    DOMAIN_COLUMNS,
    INPUTS,
    POOL_COLUMNS,
)
from models.policies.inputs import CommanderInputs, commander_inputs
from tests.unit.models.control.control_helpers import (
    DOMAINS,
    INVENTORY,
    POOLS,
    Plant,
    forecast_of,
)

TICK = np.zeros(1, np.int32)


def inputs(value: float, factor: float | None = None) -> CommanderInputs:
    plant = Plant()
    report = Report(*(np.full((1, DOMAINS), value) for _ in Report._fields))
    forecast = None if factor is None else forecast_of(plant, factor)
    return commander_inputs(TICK, PoolReadings(plant.pool, INVENTORY), report, forecast, INVENTORY)


@given(st.sampled_from([np.nan, np.inf, -1e30, 1e30, 0.0, 3.0]))
def test_inputs_are_finite_and_bounded_whatever_was_reported(value: float) -> None:
    with np.errstate(all="ignore"):
        found = inputs(value)
    for values in found:
        assert values.dtype == np.float32
        assert np.isfinite(values).all()
        assert np.abs(values).max() <= 5.0


def test_inputs_have_the_shapes_of_the_contract() -> None:
    sizes = {"rows": 1, "domains": DOMAINS, "pools": POOLS}
    for tensor, values in zip(INPUTS, inputs(10.0, 1.5), strict=True):
        wanted = tuple(sizes[one] if isinstance(one, str) else one for one in tensor.shape)
        assert values.shape == wanted
    assert len(DOMAIN_COLUMNS) == len(set(DOMAIN_COLUMNS))
    assert len(POOL_COLUMNS) + len(CLUSTER_COLUMNS) == 11


def test_without_a_forecast_its_columns_are_zero_and_with_one_they_are_logs_over_now() -> None:
    first = DOMAIN_COLUMNS.index("forecast")
    assert (inputs(10.0).domain[..., first:] == 0.0).all()
    rps = 100.0 * np.bincount(INVENTORY.domain, Plant().work, DOMAINS).astype(np.float64)
    report = Report(*(np.full((1, DOMAINS), 10.0) for _ in Report._fields))._replace(rps=rps[None])
    plant = Plant()
    pools = PoolReadings(plant.pool, INVENTORY)
    found = commander_inputs(TICK, pools, report, forecast_of(plant, 1.5), INVENTORY)
    assert (found.domain[..., first] == 1.0).all()
    mid = DOMAIN_COLUMNS.index("mid_5min")
    np.testing.assert_allclose(found.domain[..., mid], np.log(1.5), rtol=1e-5)
