"""The traffic forecast of a domain for the next 5, 15 and 30 minutes."""

from typing import Annotated

from schemas.fields import Count, Name, PerSecond, Share, Tick, TickEvent, about


class DemandForecast(TickEvent, frozen=True, kw_only=True):
    """Traffic by horizon: the mean of the minute that ends at the horizon, and the peak until it.

    Calibration keys end in the horizon in minutes: `width_5` is the factor on the model's interval
    width, `shift_5` the shift of the median, `coverage_5` the share of recent outcomes inside the
    interval. `skill` is the share by which the model errs less than the simpler one.
    """

    domain: Annotated[Name, about("Domain whose traffic is forecast.")]
    model: Annotated[str, about("Name and version of the model that made the forecast.")]
    valid_until_tick: Annotated[Tick, about("Last tick at which the forecast may be used.")]
    horizons_minutes: Annotated[list[Count], about("Horizons in minutes.", "min")]
    quantiles: Annotated[list[Share], about("Forecast quantiles in ascending order.")]
    rps: Annotated[list[list[PerSecond]], about("Requests per second, by horizon and quantile.")]
    peak_rps: Annotated[
        list[PerSecond],
        about("By horizon, the 0.9 quantile of the busiest minute until then, in requests/s."),
    ]
    apps: Annotated[
        list[Name], about("Apps with a forecast of their own in the `app_` columns.")
    ] = []
    app_rps: Annotated[
        list[list[list[PerSecond]]], about("Requests per second, by app, horizon and quantile.")
    ] = []
    app_peak_rps: Annotated[
        list[list[PerSecond]], about("Like `peak_rps`, by app and horizon.")
    ] = []
    trained_until: Annotated[
        str, about("Time of the newest training data; empty if the model isn't trained.")
    ] = ""
    calibration: Annotated[
        dict[str, float], about("How the model's intervals were adjusted; see the event.")
    ] = {}
    fallback_reason: Annotated[
        str, about("Why a simpler model serves; empty if the configured model does.")
    ] = ""
    review_reason: Annotated[
        str, about("Why an operator should check this forecast; empty if there is no need.")
    ] = ""
    drift: Annotated[
        dict[str, float],
        about(
            "How far each feature of the promoted model is from its training, beyond the distance "
            "of any run of training, over the last window and all domains; 0: no drift. While "
            "another one is tried beside it, the larger one of both. Empty where none is watched, "
            "or not for a whole window."
        ),
    ] = {}
