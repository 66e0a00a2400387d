"""What a domain's traffic will be in 5, 15 and 30 minutes."""

from typing import Annotated

from schemas.fields import Count, Name, PerSecond, Share, Tick, TickEvent, about


class DemandForecast(TickEvent, frozen=True, kw_only=True):
    """A value is the mean of the minute that ends a horizon from now; a peak the highest until."""

    domain: Annotated[Name, about("whose traffic it is")]
    model: Annotated[str, about("name and version of the model that served")]
    valid_until_tick: Annotated[Tick, about("the last tick at which it may be used")]
    horizons_min: Annotated[list[Count], about("how far ahead", "min")]
    quantiles: Annotated[list[Share], about("that are forecast, rising")]
    rps: Annotated[list[list[PerSecond]], about("by horizon and quantile")]
    peak_rps: Annotated[list[PerSecond], about("by horizon: .9 quantile of the highest minute")]
    apps: Annotated[list[Name], about("for which the app_ columns hold; mostly none")] = []
    app_rps: Annotated[list[list[list[PerSecond]]], about("by app, horizon and quantile")] = []
    app_peak_rps: Annotated[list[list[PerSecond]], about("by app and horizon")] = []
    trained_until: Annotated[str, about("the last data the model learned from; empty: none")] = ""
    calibration: Annotated[
        dict[str, float],
        about(
            "by horizon in minutes: width_H of the interval over what the model said, shift_H of "
            "the median, coverage_H of the last intervals; and skill against the simpler model"
        ),
    ] = {}
    fallback_reason: Annotated[
        str, about("why a simpler model serves; empty when the chosen one does")
    ] = ""
    review: Annotated[str, about("what somebody should look at; mostly empty")] = ""
