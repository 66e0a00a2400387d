"""What is served of what both models say: the network calibrated, or the simple one as it is."""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64
from models.forecaster.learned import choice, conformal
from models.forecaster.learned.answer import Answer, Model, review
from models.forecaster.learned.memory import Memory, Settings, coverage, skill
from models.forecaster.learned.record import Record
from models.forecaster.port import HIGH, LOW, MEDIAN, Serving, Texts

_LEAST: Final = 1e-9


class Said(NamedTuple):
    """What a model says. R rows, H horizons, Q quantiles."""

    values: F64
    """[R, H, Q]."""
    peak: F64
    """[R, H]."""


class Served(NamedTuple):
    """R rows, H horizons, Q quantiles."""

    values: F64
    """[R, H, Q]."""
    peak: F64
    """[R, H]."""
    width: F64
    """[R, H] of the interval, over the one that was said."""
    reason: Texts
    """[R] why the simple model serves; empty where the network does."""


def serve(said: Answer, simple: Said, record: Record, memory: Memory, settings: Settings) -> Served:
    """Calibrate what the network says by what came in the newest minute, and choose."""
    fit = said.fit[:, None]
    values = np.where(fit[..., None], said.values, simple.values)
    peak = np.where(fit, said.peak, simple.peak)
    came = record.rps[:, -1].astype(np.float64)
    found = calibrated(memory, Said(values, peak), came, record.newest, settings)
    reason = _reason(said.reason, memory.choosing)
    chosen = (reason == "")[:, None]
    return Served(
        values=np.where(chosen[..., None], found.values, simple.values),
        peak=np.where(chosen, found.peak, simple.peak),
        width=np.where(chosen, _width(found.values) / _width(values), 1.0),
        reason=reason,
    )


def calibrated(memory: Memory, said: Said, came: F64, minute: int, settings: Settings) -> Said:
    """Learn from what came [R] in a minute, and adjust what is said at its end."""
    found, _ = conformal.step(
        memory.calibration, said.values, said.peak, came, minute, settings.calibration
    )
    # The highest minute until then is not below that of an earlier horizon.
    return Said(found.values, np.maximum.accumulate(found.peak, axis=1))


def account(
    model: Model, simple: str, said: Answer, served: Served, memory: Memory, shape: tuple[int, int]
) -> Serving:
    """How it came about, by environment and domain."""
    chosen = served.reason == ""
    return Serving(
        model=np.where(chosen, model.name, simple).reshape(shape),
        reason=served.reason.reshape(shape),
        review=review(said.refused).reshape(shape),
        trained_until=model.trained_until,
        width=served.width.reshape(*shape, -1),
        shift=np.where(chosen[:, None], _shift(said), 0.0).reshape(*shape, -1),
        coverage=coverage(memory).reshape(*shape, -1),
        skill=skill(memory).reshape(shape),
    )


def _reason(unfit: Texts, state: choice.State) -> Texts:
    """[R] why the simple model serves."""
    names = np.array([reason.name.lower().replace("_", "-") for reason in choice.Reason])
    chosen = np.where(state.serving == choice.LEARNED, "", names[state.reason])
    return np.where(unfit == "", chosen, unfit)


def _shift(said: Answer) -> F64:
    """[R, H] share of the median by which it was corrected."""
    ratio = np.ones(said.raw.shape)
    np.divide(said.values[..., MEDIAN], said.raw, out=ratio, where=said.raw > 0)
    return ratio - 1.0


def _width(values: F64) -> F64:
    """[R, H] of intervals; next to nothing where there is none, as it is divided by."""
    return np.maximum(values[..., HIGH] - values[..., LOW], _LEAST)
