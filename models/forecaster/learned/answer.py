"""What the network says about each row now, corrected, and where it had better say nothing."""

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from models.cluster.arrays import F64, I32
from models.forecaster.learned.corrector import Artefact as Corrector
from models.forecaster.learned.corrector import correct
from models.forecaster.learned.inputs import Inputs
from models.forecaster.port import HORIZONS_MIN, LEAST_HISTORY_MIN, MEDIAN, QUANTILES, Texts
from models.forecaster.series import Mask

if TYPE_CHECKING:
    # It loads onnxruntime, which only those who serve the model need.
    from models.forecaster.learned.session import Said

FAILED, UNSEEN, SHORT, NO_NUMBER = "model-failed", "nothing-seen", "short-history", "no-number"
"""Why the network's answer is not used."""


class Network(Protocol):
    """Inputs in, quantiles out; one call for all rows."""

    def predict(self, inputs: Inputs) -> "Said":
        """What is to come at each origin."""
        ...


class Model(NamedTuple):
    """A trained model as it is served."""

    name: str
    """With its version."""
    trained_until: str
    network: Network
    corrector: Corrector | None = None


class Answer(NamedTuple):
    """R rows, H horizons, Q quantiles."""

    raw: F64
    """[R, H] median before any correction; NaN where the network has nothing to say."""
    values: F64
    """[R, H, Q] NaN where the network has nothing to say."""
    peak: F64
    """[R, H]."""
    reason: Texts
    """[R] why it has nothing to say; mostly empty."""
    hidden: F64
    """[R, H, d] what it was read from."""
    refused: F64
    """[R, H] size of a correction that was too large to be believed; else 0."""

    @property
    def fit(self) -> Mask:
        """[R] where it has something to say."""
        fit: Mask = self.reason == ""
        return fit

    def some(self, rows: slice) -> "Answer":
        """Of these rows only."""
        return Answer._make(part[rows] for part in self)


def ask(model: Model, inputs: Inputs, known_min: I32) -> Answer:
    """Ask the network once for all rows; `known_min` [R] is how long each has been known."""
    try:
        said = model.network.predict(inputs)
    except Exception:  # noqa: BLE001  whatever it was, somebody else has to forecast
        return _nothing(inputs.scale.size)
    sound = np.isfinite(said.values).all(axis=(1, 2)) & np.isfinite(said.peak).all(axis=1)
    unfit = [np.isnan(inputs.scale), known_min < LEAST_HISTORY_MIN, ~sound]
    reason = np.select(unfit, [UNSEEN, SHORT, NO_NUMBER], default="")
    fit = (reason == "")[:, None]
    values = np.where(fit[..., None], said.values, np.nan)
    peak = np.where(fit, said.peak, np.nan)
    return Answer(values[..., MEDIAN], values, peak, reason, said.hidden, np.zeros(peak.shape))


def corrected(found: Answer, by: Corrector | None, errors: F64) -> Answer:
    """By the last errors [R, H, 12], where there is a corrector that helps."""
    if by is None or not by.used or not found.fit.any():
        return found
    done = correct(by, found.hidden, errors, found.values)
    factor = np.ones(found.raw.shape)
    np.divide(done.values[..., MEDIAN], found.raw, out=factor, where=found.raw > 0)
    refused = np.where(done.refused & found.fit[:, None], done.rate, 0.0)
    return found._replace(values=done.values, peak=found.peak * factor, refused=refused)


def review(refused: F64) -> Texts:
    """[R] what is to be looked at where corrections [R, H] were refused."""
    return np.array([_review(row.tolist()) for row in refused], np.str_)


def _review(refused: list[float]) -> str:
    by_horizon = zip(HORIZONS_MIN, refused, strict=True)
    return "; ".join(
        f"a correction by {rate:.0%} for {minutes} min ahead was refused"
        for minutes, rate in by_horizon
        if rate != 0.0
    )


def _nothing(rows: int) -> Answer:
    horizons, quantiles = len(HORIZONS_MIN), len(QUANTILES)
    unknown = np.full((rows, horizons), np.nan)
    values, hidden = np.full((rows, horizons, quantiles), np.nan), np.zeros((rows, horizons, 0))
    reason = np.full(rows, FAILED)
    return Answer(unknown, values, unknown, reason, hidden, np.zeros(unknown.shape))
