"""A correction of the median by the network's hidden state and its recent errors.

A ridge regression per horizon predicts the remaining log error; the correction shifts all
quantiles by the same factor. A correction that is implausibly large is refused, and a corrector
that does not help on data it was not fitted on is not used. `models.forecaster.training.corrector`
fits it.
"""

import json
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple
from zipfile import BadZipFile, ZipFile

import numpy as np

from models.cluster.arrays import F64, Mask
from models.inputs.errors import InputError, input_error

ERRORS: Final = 12
"""Number of recent errors that are inputs, the newest first."""
LARGEST: Final = 1.0
"""Limit of log errors; larger ones are outages and events, and would dominate the fit."""
VERSION: Final = 1
_LARGEST_BYTES: Final = 64 * 2**20
_UNREADABLE: Final = "no corrector can be read: fit it anew"
_ARRAYS: Final = ("mean", "spread", "weights", "rmse")


class Corrector(NamedTuple):
    """A fitted corrector. H horizons, F features."""

    mean: F64
    """[H, F] of the features."""
    spread: F64
    """[H, F] standard deviation of the features."""
    weights: F64
    """[H, F + 1], the last is the constant."""
    most_rate: float
    """Largest correction that is applied, as a share of the raw forecast."""
    trained_on: str
    """Names of the data."""
    until_min: int
    """Minutes since 1970-01-01 of the newest data."""
    moments: int
    """Number of moments it was fitted on."""
    rmse: F64
    """[2] of the raw and of the corrected median on data it was not fitted on; NaN before."""

    @property
    def used(self) -> bool:
        """Whether it was shown to help."""
        return bool(self.rmse[1] < self.rmse[0])


class Corrected(NamedTuple):
    """R rows, H horizons, Q quantiles."""

    values: F64
    """[R, H, Q] to be served."""
    rate: F64
    """[R, H] correction as a share of the raw forecast, refused ones included."""
    refused: Mask
    """[R, H] where the correction was too large and the raw forecast is served."""


def correct(corrector: Corrector, hidden: F64, errors: F64, forecast: F64) -> Corrected:
    """Correct forecasts [R, H, Q], if the corrector was shown to help."""
    if not corrector.used:
        nothing = np.zeros(forecast.shape[:2])
        return Corrected(forecast, nothing, np.zeros(nothing.shape, np.bool_))
    return apply(corrector, hidden, errors, forecast)


def apply(corrector: Corrector, hidden: F64, errors: F64, forecast: F64) -> Corrected:
    """Correct forecasts [R, H, Q], whether or not the corrector was shown to help."""
    scaled = (features(hidden, errors) - corrector.mean) / corrector.spread
    log = np.einsum("rhf,hf->rh", scaled, corrector.weights[:, :-1]) + corrector.weights[:, -1]
    factor = np.exp(np.clip(log, -LARGEST, LARGEST))
    rate: F64 = np.abs(factor - 1.0)
    # The comparison is false for NaN, so a rate that is not a number is refused too.
    accepted = rate <= corrector.most_rate
    return Corrected(forecast * np.where(accepted, factor, 1.0)[..., None], rate, ~accepted)


def features(hidden: F64, errors: F64) -> F64:
    """[N, H, d + 24]: hidden state, recent errors, and which of them are missing."""
    # 0 is also the error of a perfect forecast, so missing ones are marked.
    missing = np.isnan(errors)
    recent = np.where(missing, 0.0, np.clip(errors, -LARGEST, LARGEST))
    return np.concatenate([hidden, recent, missing.astype(np.float64)], axis=2)


def log_error(actual: F64, forecast: F64) -> F64:
    """Logarithm of actual over forecast; NaN where one is unknown or zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        error: F64 = np.log(actual) - np.log(forecast)
    return np.where(np.isfinite(error), error, np.nan)


def save(corrector: Corrector, file: Path) -> None:
    """Write an .npz file with the arrays and what it was trained on."""
    arrays: dict[str, Any] = {name: getattr(corrector, name) for name in _ARRAYS}
    plain = {name: value for name, value in corrector._asdict().items() if name not in _ARRAYS}
    # np.savez appends .npz to other file names, but not to an open file.
    with file.open("wb") as out:
        np.savez(out, card=np.array(json.dumps({"version": VERSION, **plain})), **arrays)


def load(file: Path) -> Corrector:
    """Read what `save` wrote; raises InputError if the file is unreadable or of another version."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise input_error(file, "", _UNREADABLE) from error
    return read(data, file)


def read(data: bytes, where: Path | str) -> Corrector:
    """The corrector in the content of a file."""
    try:
        # A few bytes of a zip file may stand for gigabytes.
        with ZipFile(BytesIO(data)) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > _LARGEST_BYTES:
            raise input_error(where, "", f"expected at most {_LARGEST_BYTES >> 20} MiB inflated")
        # Without pickles, because loading one can run any code.
        with np.load(BytesIO(data), allow_pickle=False) as found:
            card: dict[str, Any] = json.loads(str(found["card"]))
            arrays = {name: found[name] for name in _ARRAYS}
    except (OSError, ValueError, KeyError, BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise input_error(where, "", _UNREADABLE) from error
    if card.pop("version", None) != VERSION:
        raise input_error(where, "version", f"expected {VERSION}: fit the corrector anew")
    return Corrector(**arrays, **card)
