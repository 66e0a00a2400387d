"""Which network answers: the incumbent, and beside it a candidate for nobody or for some domains.

An answer of the candidate that cannot be used is never used, not even for one forecast: the
incumbent has answered already.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, Mask
from models.forecaster.learned.inputs import NetworkInputs
from models.forecaster.learned.serving import Model, Network, NetworkOutput
from models.forecaster.port import MEDIAN

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
    """A network for the forecaster, made of two; the service sets them before each tick."""

    def __init__(self, now: Callable[[], float], most_s: float) -> None:
        """`most_s` bounds the time of a candidate's answer, by the clock `now`."""
        self._now, self._most_s = now, most_s
        self._incumbent: Network | None = None
        self._spare: Network | None = None
        self._candidate: Network | None = None
        self._applied: Mask = np.zeros(0, np.bool_)
        self.asked: Asked | None = None
        """The last answers of both; None if no candidate was asked."""
        self.problem = ""
        """Why the incumbent could not answer, so that the spare did; empty: it could."""

    def set(self, incumbent: Model, spare: Model, candidate: Model | None, applied: Mask) -> None:
        """Before a tick. `applied` [D] are the domains that the candidate answers for."""
        self._incumbent, self._spare = incumbent.network, spare.network
        self._candidate = None if candidate is None else candidate.network
        self._applied, self.asked, self.problem = applied, None, ""

    def predict(self, inputs: NetworkInputs) -> NetworkOutput:
        """Forecast from each origin."""
        output = self._of_incumbent(inputs)
        # Warming up asks for many minutes at once: that is no decision.
        if self._candidate is None or inputs.scale.size != self._applied.size:
            return output
        began = self._now()
        try:
            answer = self._candidate.predict(inputs)
            fault = problem_of(answer, inputs)
        except Exception as error:  # noqa: BLE001  whatever went wrong, the incumbent has answered
            answer, fault = output, f"failed: {' '.join(repr(error).split())[:200]}"
        seconds = self._now() - began
        if not fault and seconds > self._most_s:
            fault = f"took {seconds:.3f} s, over {self._most_s:g} s"
        ours, theirs = output.values[:, 0, MEDIAN], answer.values[:, 0, MEDIAN]
        self.asked = Asked(fault, ours, np.full_like(ours, np.nan) if fault else theirs)
        if fault or not self._applied.any():
            return output
        return NetworkOutput(
            np.where(self._applied[:, None, None], answer.values, output.values),
            np.where(self._applied[:, None], answer.peak, output.peak),
            np.where(self._applied[:, None, None], answer.hidden, output.hidden),
        )

    def _of_incumbent(self, inputs: NetworkInputs) -> NetworkOutput:
        assert self._incumbent is not None  # noqa: S101  set before each tick
        assert self._spare is not None  # noqa: S101  as above
        if self._incumbent is self._spare:
            return self._incumbent.predict(inputs)
        try:
            output = self._incumbent.predict(inputs)
            self.problem = problem_of(output, inputs)
        except Exception as error:  # noqa: BLE001  the spare still answers
            self.problem = f"failed: {' '.join(repr(error).split())[:200]}"
        return self._spare.predict(inputs) if self.problem else output


def problem_of(output: NetworkOutput, inputs: NetworkInputs) -> str:
    """Why an answer cannot be used; rows without any traffic have none."""
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
