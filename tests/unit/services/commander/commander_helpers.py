"""Forecasts for the Commander."""

from schemas.demand_forecast import DemandForecast
from tests.service_helpers import time_of


def forecast(domain: str, tick: int, growth: float = 1.0) -> DemandForecast:
    rps = 1000.0 * growth
    return DemandForecast(
        tick=tick,
        time=time_of(tick),
        domain=domain,
        model="test/1",
        valid_until_tick=tick + 30,
        horizons_minutes=[5, 15, 30],
        quantiles=[0.1, 0.5, 0.9],
        rps=[[rps] * 3] * 3,
        peak_rps=[rps] * 3,
    )
