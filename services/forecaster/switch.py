"""Which network answers: the incumbent, and beside it a candidate for nobody or for some domains.

An answer of the candidate that cannot be used is never used, not even for one forecast: the
incumbent has answered already.
"""

from collections.abc import Callable
from math import inf
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, Mask
from models.forecaster.learned.inputs import NetworkInputs
from models.forecaster.learned.serving import Model, NetworkOutput, Origin
from models.forecaster.port import HORIZONS_MIN, MEDIAN, QUANTILES
from services._kit.answering import timed

_NOTICEABLE: Final = 0.01
"""Relative difference of medians that counts as different."""


class Asked(NamedTuple):
    """What came of asking a candidate. D domains."""

    fault: str
    """Why its answer is not used; empty: it is."""
    incumbent: F64
    """[D] medians at the shortest horizon."""
    candidate: F64
    """[D]; NaN after a fault."""

    @property
    def differs(self) -> float:
        """Share of the domains whose forecasts differ noticeably."""
        with np.errstate(divide="ignore", invalid="ignore"):
            apart = np.abs(self.candidate / self.incumbent - 1.0) > _NOTICEABLE
        return float(np.mean(apart))


class Switch:
    """A network for the forecaster, made of several; the service sets them before each tick."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` is the clock of the answers."""
        self._now, self._most_s = now, inf
        self._incumbent: Model | None = None
        self._spare: Model | None = None
        self._candidate: Model | None = None
        self._applied: Mask = np.zeros(0, np.bool_)
        self.asked: Asked | None = None
        """The last answers of both; None if no candidate was asked."""
        self.problem = ""
        """Why the incumbent could not answer, so that the spare did; empty: it could."""
        self.inputs: NetworkInputs | None = None
        """What both were asked; None if there was nothing to forecast from."""

    def set(
        self,
        incumbent: Model,
        spare: Model,
        candidate: Model | None,
        applied: Mask,
        most_s: float,
    ) -> None:
        """Before a tick. `applied` [D] are the domains that the candidate answers for.

        `most_s` bounds the time of a promoted network's answer.

        The incumbent's corrector is that of the model that this switch is a part of.
        """
        self._incumbent, self._spare, self._candidate = incumbent, spare, candidate
        self._applied, self.asked, self.problem = applied, None, ""
        self._most_s, self.inputs = most_s, None

    def predict(self, inputs: NetworkInputs) -> NetworkOutput:
        """Forecast from each origin."""
        # Warming up asks for many minutes at once: that is no decision, and takes its time.
        deciding = inputs.scale.size == self._applied.size
        if deciding and not np.isnan(inputs.scale).all():
            self.inputs = inputs
        output = self._of_incumbent(inputs, self._most_s if deciding else inf)
        if self._candidate is None or not deciding:
            return output
        answer, fault = self._answer(self._candidate, inputs, self._most_s)
        ours = output.values[:, 0, MEDIAN]
        theirs = np.full_like(ours, np.nan) if answer is None else answer.values[:, 0, MEDIAN]
        self.asked = Asked(fault, ours, theirs)
        if answer is None or not self._applied.any():
            return output
        return _mixed(output, answer, self._candidate, self._applied)

    def _of_incumbent(self, inputs: NetworkInputs, most_s: float) -> NetworkOutput:
        assert self._incumbent is not None  # noqa: S101  set before each tick
        assert self._spare is not None  # noqa: S101  as above
        if self._incumbent is self._spare:
            return self._incumbent.network.predict(inputs)
        output, self.problem = self._answer(self._incumbent, inputs, most_s)
        if output is not None:
            return output
        every = np.ones(inputs.scale.size, np.bool_)
        answer = self._spare.network.predict(inputs)
        return _mixed(answer, answer, self._spare, every)

    def _answer(
        self, model: Model, inputs: NetworkInputs, most_s: float
    ) -> tuple[NetworkOutput | None, str]:
        """What a promoted network answers, or why it cannot be used."""
        try:
            answer, fault = timed(lambda: model.network.predict(inputs), self._now, most_s)
            fault = problem_of(answer, inputs) or fault
        except Exception as error:  # noqa: BLE001  whatever went wrong, another one answers
            return None, f"failed: {' '.join(repr(error).split())[:200]}"
        return (None, fault) if fault else (answer, "")


def _mixed(ours: NetworkOutput, theirs: NetworkOutput, model: Model, rows: Mask) -> NetworkOutput:
    """Another model's answer in some rows, with its own hidden state and corrector."""
    return ours._replace(
        values=np.where(rows[:, None, None], theirs.values, ours.values),
        peak=np.where(rows[:, None], theirs.peak, ours.peak),
        others=(
            *(one._replace(rows=one.rows & ~rows) for one in ours.others),
            Origin(rows, theirs.hidden, model.corrector),
        ),
    )


def problem_of(output: NetworkOutput, inputs: NetworkInputs) -> str:
    """Why an answer cannot be used; rows without any traffic have none."""
    expected = inputs.scale.size, len(HORIZONS_MIN), len(QUANTILES)
    shapes = output.values.shape, output.peak.shape, output.hidden.shape[:2]
    if shapes != (expected, expected[:2], expected[:2]):
        return f"quantiles: expected the shape {list(expected)}, got {list(output.values.shape)}"
    seen = ~np.isnan(inputs.scale)
    values, peak = output.values[seen], output.peak[seen]
    if not (np.isfinite(values).all() and np.isfinite(peak).all()):
        return "quantiles: no number"
    if (values < 0).any() or (np.diff(values, axis=-1) < 0).any():
        return "quantiles: negative or out of order"
    most = MOST_TIMES * np.maximum(inputs.scale[seen], _LEAST_RPS)
    if (values > most[:, None, None]).any() or (peak > most[:, None]).any():
        return f"quantiles: over {MOST_TIMES:g} times the recent level"
    return ""


MOST_TIMES: Final = 50.0
"""Largest forecast over the recent level that is believed of any network."""
_LEAST_RPS: Final = 1.0
