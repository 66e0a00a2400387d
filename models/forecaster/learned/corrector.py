"""A correction of the median by what the network saw and how wrong it was lately.

A ridge regression, one for each horizon, of the remaining log error on the network's hidden state
and the last twelve errors. It shifts all quantiles alike. A correction that is too large to be
believed is refused, and a corrector that does not help on data it was not fitted on is not used.
"""

import json
from pathlib import Path
from typing import Any, Final, NamedTuple
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from models.cluster.arrays import F64
from models.forecaster.port import HORIZONS_MIN, MEDIAN
from models.forecaster.series import Mask
from models.inputs.errors import InputError, input_error

ERRORS: Final = 12
"""Last errors that are looked at, the newest first."""
VERSION: Final = 1
_LARGEST: Final = 1.0
"""Log errors beyond this are outages and events: they would be all that is learnt."""
_ARRAYS: Final = ("mean", "spread", "weights", "rmse")


class Settings(NamedTuple):
    """What a corrector is fitted on, and how far it may go."""

    recent_min: float = 240.0
    """Age up to which data is recent."""
    recent_share: float = 0.3
    """Of the sample; the rest is old, so that the corrector does not forget it."""
    sample: int = 20_000
    """Most moments to fit on."""
    ridge: float = 3.0
    """Weight of the penalty, on features of spread 1, per moment."""
    seed: int = 0
    most_rate: float = 0.15
    """Largest share of the raw forecast that a correction may be."""


class Artefact(NamedTuple):
    """A fitted corrector. H horizons, F features."""

    mean: F64
    """[H, F] of the features."""
    spread: F64
    """[H, F]."""
    weights: F64
    """[H, F + 1], the last is the constant."""
    most_rate: float
    trained_on: str
    """Names of the data."""
    until_min: int
    """Minutes since 1970-01-01 of the newest data."""
    moments: int
    """How many it was fitted on."""
    rmse: F64
    """[2] of the raw and of the corrected median on data it was not fitted on; NaN before."""

    @property
    def used(self) -> bool:
        """Only a corrector that was shown to help corrects anything."""
        return bool(self.rmse[1] < self.rmse[0])


class Corrected(NamedTuple):
    """R rows, H horizons, Q quantiles."""

    values: F64
    """[R, H, Q] to be served."""
    rate: F64
    """[R, H] size of the correction over the raw forecast, refused ones included."""
    refused: Mask
    """[R, H] where the raw forecast is served because the correction was too large."""


class Gain(NamedTuple):
    """Root mean square error of the median, without and with correction."""

    raw: float
    corrected: float


DEFAULTS: Final = Settings()


def fit(
    hidden: F64,
    errors: F64,
    target: F64,
    age_min: F64,
    trained_on: str,
    until_min: int,
    settings: Settings = DEFAULTS,
) -> Artefact:
    """Fit to N moments: hidden [N, H, d], errors [N, H, 12], target [N, H], age [N].

    Errors and targets are logs of what came over the median that was said, NaN where unknown. The
    result is not used before it was judged.
    """
    chosen = _sample(age_min, settings)
    features, wanted = _features(hidden[chosen], errors[chosen]), target[chosen]
    parts = [_ridge(features[:, at], wanted[:, at], settings.ridge) for at in range(_H)]
    mean, spread, weights = (np.stack(part) for part in zip(*parts, strict=True))
    unknown = np.full(2, np.nan)
    limit = settings.most_rate
    return Artefact(mean, spread, weights, limit, trained_on, until_min, int(chosen.size), unknown)


_H: Final = len(HORIZONS_MIN)


def judged(artefact: Artefact, gain: Gain) -> Artefact:
    """With what it was worth on data it was not fitted on, by which it is used or not."""
    return artefact._replace(rmse=np.array(gain))


def correct(artefact: Artefact, hidden: F64, errors: F64, said: F64) -> Corrected:
    """Correct what is said [R, H, Q] where the corrector is used and believable."""
    if not artefact.used:
        nothing = np.zeros(said.shape[:2])
        return Corrected(said, nothing, np.zeros(nothing.shape, np.bool_))
    return _applied(artefact, hidden, errors, said)


def gain(artefact: Artefact, hidden: F64, errors: F64, said: F64, came: F64) -> Gain:
    """What it would be worth on N moments of which came [N, H] is known, or NaN."""
    found = _applied(artefact, hidden, errors, said)
    if not np.isfinite(came).any():
        raise InputError("a corrector can only be judged by outcomes: give moments that have some")
    medians = said[..., MEDIAN], found.values[..., MEDIAN]
    return Gain(*(float(np.sqrt(np.nanmean((came - median) ** 2))) for median in medians))


def _applied(artefact: Artefact, hidden: F64, errors: F64, said: F64) -> Corrected:
    scaled = (_features(hidden, errors) - artefact.mean) / artefact.spread
    log = np.einsum("rhf,hf->rh", scaled, artefact.weights[:, :-1]) + artefact.weights[:, -1]
    factor = np.exp(np.clip(log, -_LARGEST, _LARGEST))
    rate: F64 = np.abs(factor - 1.0)
    # Written so that a rate that is no number is refused too.
    believed = rate <= artefact.most_rate
    return Corrected(said * np.where(believed, factor, 1.0)[..., None], rate, ~believed)


def _features(hidden: F64, errors: F64) -> F64:
    """[N, H, d + 24]: hidden state, last errors, and which of them are unknown."""
    missing = np.isnan(errors)
    recent = np.where(missing, 0.0, np.clip(errors, -_LARGEST, _LARGEST))
    return np.concatenate([hidden, recent, missing.astype(np.float64)], axis=2)


def _sample(age_min: F64, settings: Settings) -> NDArray[np.int64]:
    """Moments to fit on, old and recent in the share that is asked for."""
    recent, old = (np.flatnonzero(side) for side in _by_age(age_min, settings.recent_min))
    share = settings.recent_share
    most = min(settings.sample, recent.size / share, old.size / (1.0 - share))
    if most * min(share, 1.0 - share) < 1.0:
        raise InputError(
            f"{recent.size} recent and {old.size} old moments: a corrector is fitted on both"
        )
    draw = np.random.default_rng(settings.seed)
    few = draw.choice(recent, round(most * share), replace=False)
    many = draw.choice(old, round(most * (1.0 - share)), replace=False)
    return np.concatenate([few, many])


def _by_age(age_min: F64, recent_min: float) -> tuple[Mask, Mask]:
    return age_min <= recent_min, age_min > recent_min


def _ridge(features: F64, target: F64, ridge: float) -> tuple[F64, F64, F64]:
    """Mean, spread and weights in closed form; what never varied gets no weight."""
    known = np.isfinite(target) & np.isfinite(features).all(axis=1)
    if not known.any():
        raise InputError("no moment has both a forecast and its outcome: fit on a longer past")
    chosen, wanted = features[known], np.clip(target[known], -_LARGEST, _LARGEST)
    mean, spread = chosen.mean(axis=0), chosen.std(axis=0)
    spread = np.where(spread > 1e-9, spread, 1.0)
    scaled, centre = (chosen - mean) / spread, wanted.mean()
    penalty = ridge * known.sum() * np.eye(mean.size)
    weights = np.linalg.solve(scaled.T @ scaled + penalty, scaled.T @ (wanted - centre))
    return mean, spread, np.append(weights, centre)


def save(artefact: Artefact, file: Path) -> None:
    """As an .npz, with what it was trained on."""
    arrays: dict[str, Any] = {name: getattr(artefact, name) for name in _ARRAYS}
    plain = {name: value for name, value in artefact._asdict().items() if name not in _ARRAYS}
    with file.open("wb") as out:
        np.savez(out, card=np.array(json.dumps({"version": VERSION, **plain})), **arrays)


def load(file: Path) -> Artefact:
    """The reverse."""
    try:
        with file.open("rb") as data, np.load(data, allow_pickle=False) as found:
            card: dict[str, Any] = json.loads(str(found["card"]))
            arrays = {name: found[name] for name in _ARRAYS}
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        raise input_error(file, "", "no corrector can be read: fit it anew") from error
    if card.pop("version", None) != VERSION:
        raise input_error(file, "version", f"expected {VERSION}: fit the corrector anew")
    return Artefact(**arrays, **card)
