"""What is served for each row: the network's calibrated forecast, or that of the simple model.

The network is queried once for all rows. Its answer is corrected by its recent errors, calibrated
by its recent outcomes, and replaced by the simple model's forecast where it is unusable or where
the simple model has been better for long enough.
"""

import logging
from typing import Final, NamedTuple, Protocol

import numpy as np

from models.cluster.arrays import F64, I32, Mask
from models.forecaster.learned import choice, conformal
from models.forecaster.learned.corrector import Corrector, correct
from models.forecaster.learned.inputs import NetworkInputs
from models.forecaster.learned.memory import ForecastMemory, Settings, coverage, skill
from models.forecaster.learned.record import Record
from models.forecaster.port import (
    HIGH,
    HORIZONS_MIN,
    LEAST_HISTORY_MIN,
    LOW,
    MEDIAN,
    QUANTILES,
    Serving,
    Texts,
)
from models.registry.drift import Reference

log = logging.getLogger(__name__)

FAILED, UNSEEN, SHORT, NO_NUMBER = "model-failed", "nothing-seen", "short-history", "no-number"
"""Why the network's answer is not used."""
_LEAST: Final = 1e-9


class Origin(NamedTuple):
    """The network that some of the rows come from. B rows, H horizons, d hidden."""

    rows: Mask
    """[B]."""
    hidden: F64
    """[B, H, d] of this network: another one's is of another width, and means something else."""
    corrector: Corrector | None
    """Fitted on this network's hidden state."""


class NetworkOutput(NamedTuple):
    """B rows, H horizons, Q quantiles, d hidden."""

    values: F64
    """[B, H, Q]; NaN where the last day has no value."""
    peak: F64
    """[B, H] .9 quantile of the highest minute until then."""
    hidden: F64
    """[B, H, d] hidden state that the values are read from, for the corrector."""
    others: tuple[Origin, ...] = ()
    """Rows that other networks answered."""


class Network(Protocol):
    """Inputs in, quantiles out; one call for all rows."""

    def predict(self, inputs: NetworkInputs) -> NetworkOutput:
        """Forecast from each origin."""
        ...


class Model(NamedTuple):
    """A trained model as it is served."""

    name: str
    """Name with its version."""
    trained_until: str
    network: Network
    corrector: Corrector | None = None
    reference: Reference | None = None
    """Its features in training, if they were recorded."""


class ModelForecast(NamedTuple):
    """What a model forecasts. R rows, H horizons, Q quantiles."""

    values: F64
    """[R, H, Q]."""
    peak: F64
    """[R, H]."""


class NetworkForecast(NamedTuple):
    """What the network forecasts, NaN where it is unusable. R rows, H horizons, Q quantiles."""

    raw: F64
    """[R, H] median before any correction."""
    values: F64
    """[R, H, Q]."""
    peak: F64
    """[R, H]."""
    reason: Texts
    """[R] why it is unusable; usually empty."""
    hidden: F64
    """[R, H, d]."""
    refused: F64
    """[R, H] size of a correction that was refused as too large; else 0."""
    others: tuple[Origin, ...] = ()
    """Rows that other networks answered."""

    @property
    def usable(self) -> Mask:
        """[R]."""
        usable: Mask = self.reason == ""
        return usable

    def rows(self, rows: slice) -> "NetworkForecast":
        """Only these rows of one network's answer."""
        return NetworkForecast._make((*(part[rows] for part in self[:-1]), ()))


class Served(NamedTuple):
    """R rows, H horizons, Q quantiles."""

    values: F64
    """[R, H, Q]."""
    peak: F64
    """[R, H]."""
    width: F64
    """[R, H] width of the served interval over the model's own."""
    reason: Texts
    """[R] why the simple model serves; empty where the network does."""


def query(model: Model, inputs: NetworkInputs, history_min: I32) -> NetworkForecast:
    """Query the network once for all rows; `history_min` [R] is the length of their history."""
    try:
        output = model.network.predict(inputs)
    except Exception as error:  # noqa: BLE001  whatever went wrong, the simple model can still serve
        log.warning("the network failed, the simple model serves: %r", error)
        return _failed(inputs.scale.size)
    finite = np.isfinite(output.values).all(axis=(1, 2)) & np.isfinite(output.peak).all(axis=1)
    # The first reason that applies is reported: without any traffic the others follow from it.
    unusable = [np.isnan(inputs.scale), history_min < LEAST_HISTORY_MIN, ~finite]
    reason = np.select(unusable, [UNSEEN, SHORT, NO_NUMBER], default="")
    usable = (reason == "")[:, None]
    values = np.where(usable[..., None], output.values, np.nan)
    peak = np.where(usable, output.peak, np.nan)
    refused = np.zeros(peak.shape)
    raw, hidden = values[..., MEDIAN], output.hidden
    return NetworkForecast(raw, values, peak, reason, hidden, refused, output.others)


def apply_corrector(
    network: NetworkForecast, corrector: Corrector | None, errors: F64
) -> NetworkForecast:
    """Correct by the last errors [R, H, 12], each row as its own network's corrector says."""
    if not network.usable.any():
        return network
    ours = np.ones(network.usable.shape, np.bool_)
    for other in network.others:
        ours &= ~other.rows
    for origin in (Origin(ours, network.hidden, corrector), *network.others):
        # One that is not known to help is not used.
        if origin.corrector is not None and origin.corrector.used:
            network = _corrected(network, origin, origin.corrector, errors)
    return network


def _corrected(
    network: NetworkForecast, origin: Origin, corrector: Corrector, errors: F64
) -> NetworkForecast:
    rows = origin.rows[:, None]
    found = correct(corrector, origin.hidden, errors, network.values)
    # The peak is shifted by the same factor as the median; a median of zero stays as it is.
    factor = np.ones(network.raw.shape)
    np.divide(found.values[..., MEDIAN], network.raw, out=factor, where=rows & (network.raw > 0))
    refused = found.refused & network.usable[:, None]
    return network._replace(
        values=np.where(rows[..., None], found.values, network.values),
        peak=network.peak * factor,
        refused=np.where(rows, np.where(refused, found.rate, 0.0), network.refused),
    )


def serve(
    network: NetworkForecast,
    simple: ModelForecast,
    record: Record,
    memory: ForecastMemory,
    settings: Settings,
) -> Served:
    """Calibrate the network's forecast by the newest minute, and choose between both models."""
    usable = network.usable[:, None]
    # The calibration needs a finite forecast for every row; unusable rows are scored by the simple
    # model and served uncalibrated below.
    values = np.where(usable[..., None], network.values, simple.values)
    peak = np.where(usable, network.peak, simple.peak)
    actual = record.rps[:, -1].astype(np.float64)
    found = calibrated(memory, ModelForecast(values, peak), actual, record.newest, settings)
    reason = _reason(network.reason, memory.choosing)
    chosen = (reason == "")[:, None]
    return Served(
        values=np.where(chosen[..., None], found.values, simple.values),
        peak=np.where(chosen, found.peak, simple.peak),
        width=np.where(chosen, _width(found.values) / _width(values), 1.0),
        reason=reason,
    )


def calibrated(
    memory: ForecastMemory, forecast: ModelForecast, actual: F64, minute: int, settings: Settings
) -> ModelForecast:
    """Update the calibration with a minute's traffic [R] and adjust the forecast of its end."""
    found, _ = conformal.step(
        memory.calibration, forecast.values, forecast.peak, actual, minute, settings.calibration
    )
    # The highest minute until a horizon is at least that until an earlier one.
    return ModelForecast(found.values, np.maximum.accumulate(found.peak, axis=1))


def describe_serving(
    model: Model,
    simple: str,
    network: NetworkForecast,
    served: Served,
    memory: ForecastMemory,
    shape: tuple[int, int],
) -> Serving:
    """How the forecast was made; `shape` is environments by domains."""
    chosen = served.reason == ""
    return Serving(
        model=np.where(chosen, model.name, simple).reshape(shape),
        reason=served.reason.reshape(shape),
        review=review_notes(network.refused).reshape(shape),
        trained_until=model.trained_until,
        width=served.width.reshape(*shape, -1),
        shift=np.where(chosen[:, None], _shift(network), 0.0).reshape(*shape, -1),
        coverage=coverage(memory).reshape(*shape, -1),
        skill=skill(memory).reshape(shape),
    )


def review_notes(refused: F64) -> Texts:
    """[R] what an operator should look at, from the refused corrections [R, H]."""
    return np.array([_review_note(row.tolist()) for row in refused], np.str_)


def _review_note(refused: list[float]) -> str:
    by_horizon = zip(HORIZONS_MIN, refused, strict=True)
    return "; ".join(
        f"a correction by {rate:.0%} for {minutes} min ahead was refused"
        for minutes, rate in by_horizon
        if rate != 0.0
    )


def _failed(rows: int) -> NetworkForecast:
    horizons, quantiles = len(HORIZONS_MIN), len(QUANTILES)
    unknown = np.full((rows, horizons), np.nan)
    values, hidden = np.full((rows, horizons, quantiles), np.nan), np.zeros((rows, horizons, 0))
    reason = np.full(rows, FAILED)
    return NetworkForecast(unknown, values, unknown, reason, hidden, np.zeros(unknown.shape))


def _reason(unusable: Texts, state: choice.State) -> Texts:
    """[R] why the simple model serves."""
    names = np.array([reason.name.lower().replace("_", "-") for reason in choice.Reason])
    # An unusable network overrides the choice.
    chosen = np.where(state.serving == choice.LEARNED, "", names[state.reason])
    return np.where(unusable == "", chosen, unusable)


def _shift(network: NetworkForecast) -> F64:
    """[R, H] correction as a share of the median."""
    ratio = np.ones(network.raw.shape)
    np.divide(network.values[..., MEDIAN], network.raw, out=ratio, where=network.raw > 0)
    return ratio - 1.0


def _width(values: F64) -> F64:
    """[R, H] width of the interval; at least _LEAST because it is a divisor."""
    return np.maximum(values[..., HIGH] - values[..., LOW], _LEAST)
