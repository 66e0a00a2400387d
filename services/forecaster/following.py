"""The forecaster's part of a rollout: which networks are open, which answer, and how they do."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64
from models.forecaster.learned.serving import Model
from models.forecaster.port import HORIZONS_MIN
from models.forecaster.series import Mask
from models.registry.rollout import (
    Change,
    Ref,
    Rollout,
    Rules,
    Sample,
    Stage,
    chosen,
    failed,
    loaded,
    observed,
    ordered,
    share_of,
)
from schemas.model_judged import ModelJudged
from schemas.model_promoted import ModelPromoted
from services._kit.models import LoadedModel, LoadModel, judged, order_of
from services.forecaster.switch import Asked

MODEL: Final = "forecaster"
"""Key of its promotions."""
_SCOPE: Final = "cluster"
_AHEAD_MIN: Final = HORIZONS_MIN[0]


@dataclass(frozen=True)
class Trial:
    """Forecasts of both networks that wait for their outcome."""

    minutes: tuple[int, ...] = ()
    incumbent: tuple[tuple[float, ...], ...] = ()
    """Per minute, the median of each domain at the shortest horizon."""
    candidate: tuple[tuple[float, ...], ...] = ()


class Serving(NamedTuple):
    """Which networks answer in a tick."""

    incumbent: Model
    spare: Model
    """Answers where the incumbent cannot."""
    candidate: Model | None
    applied: Mask
    """[D] domains that the candidate answers for."""


class Follower:
    """Follows promotions. Open networks belong to the process, the rollout to the state."""

    def __init__(self, shipped: Model | None, configured: str, rules: Rules) -> None:
        """`shipped` is the configured network; None if a rule is configured."""
        self._shipped, self._configured, self._rules = shipped, configured, rules
        self._wanted: ModelPromoted | None = None
        self._open: dict[str, Model] = {}
        self._unopened: set[str] = set()
        """Versions that are only kept as a spare, and could not be opened."""

    def learn(self, event: ModelPromoted) -> None:
        """Take in an order; those about other models are for other services."""
        order_of(event)
        if event.model == MODEL:
            self._wanted = event

    def follow(
        self, rollout: Rollout, tick: int
    ) -> tuple[Rollout, list[ModelJudged], LoadModel | None]:
        """Obey the newest order, and say which version has to be opened next."""
        wanted = self._wanted
        if wanted is None:
            return rollout, [], self._missing(rollout, tick)
        rollout, change = self._ordered(rollout, wanted, tick)
        return rollout, self._events(change, rollout, tick), self._missing(rollout, tick)

    def opened(
        self, result: LoadedModel, rollout: Rollout, tick: int
    ) -> tuple[Rollout, list[ModelJudged]]:
        """Take in a version that was opened, or why it could not be."""
        if result.problem:
            self._unopened.add(result.ref.sha256)
        else:
            needed = {ref.sha256 for ref in rollout.needed()}
            self._open = {v: model for v, model in self._open.items() if v in needed}
            self._open[result.ref.sha256] = result.model
        rollout, change = loaded(rollout, result.ref.sha256, result.problem, tick, self._rules)
        return rollout, self._events(change, rollout, tick)

    def serving(self, rollout: Rollout, domains: Sequence[str]) -> Serving | None:
        """Which networks answer; None if a rule is configured."""
        if self._shipped is None:
            return None
        spare = self._of(rollout.previous) or self._shipped
        candidate, share = None, 0.0
        if rollout.stage in (Stage.SHADOW, Stage.CANARY):
            candidate, share = self._of(rollout.candidate), share_of(rollout, self._rules)
        version = "" if rollout.candidate is None else rollout.candidate.sha256
        applied = chosen(domains, version, share if candidate is not None else 0.0)
        return Serving(self._of(rollout.incumbent) or spare, spare, candidate, applied)

    def judge(
        self, rollout: Rollout, sample: Sample | None, problem: str, tick: int, time: str
    ) -> tuple[Rollout, list[ModelJudged]]:
        """Judge a tick: the incumbent's problem, or a sample of the candidate beside it."""
        change = None
        if problem:
            rollout, change = failed(rollout, problem, tick, self._rules)
        elif sample is not None:
            rollout, change = observed(rollout, sample, tick, self._rules)
        return rollout, self._events(change, rollout, tick, time)

    def _ordered(
        self, rollout: Rollout, wanted: ModelPromoted, tick: int
    ) -> tuple[Rollout, Change | None]:
        order = order_of(wanted)
        if self._shipped is not None:
            return ordered(rollout, order, tick)
        if order.id == rollout.order:
            return rollout, None
        reason = f"HIRL_FORECASTER_MODEL is {self._configured}, a rule"
        return replace(rollout, order=order.id), Change("refused", order.target, reason)

    def _missing(self, rollout: Rollout, tick: int) -> LoadModel | None:
        for ref in rollout.needed():
            waits = ref == rollout.incumbent and tick < rollout.retry_at
            spare = ref == rollout.previous and ref.sha256 in self._unopened
            if ref.sha256 not in self._open and not waits and not spare:
                return LoadModel(ref)
        return None

    def _of(self, ref: Ref | None) -> Model | None:
        return None if ref is None else self._open.get(ref.sha256)

    def _events(
        self, change: Change | None, rollout: Rollout, tick: int, time: str = ""
    ) -> list[ModelJudged]:
        if change is None:
            return []
        # Outside of ticks there is no event time but that of the order.
        time = time or (self._wanted.promoted_at if self._wanted else "")
        return [judged(MODEL, _SCOPE, change, rollout, self._rules, tick, time)]


def tried(trial: Trial, asked: Asked, minute: int, actual: F64) -> tuple[Trial, Sample]:
    """Add the answers of a minute, and judge those whose outcome [D] this minute is."""
    ours = theirs = 0.0
    if minute - _AHEAD_MIN in trial.minutes:
        at = trial.minutes.index(minute - _AHEAD_MIN)
        ours, theirs = _loss(trial.incumbent[at], actual), _loss(trial.candidate[at], actual)
    sample = Sample(asked.fault, ours, theirs, asked.differs)
    kept = [i for i, one in enumerate(trial.minutes) if minute - _AHEAD_MIN < one < minute]
    trial = Trial(
        (*(trial.minutes[i] for i in kept), minute),
        (*(trial.incumbent[i] for i in kept), tuple(asked.incumbent.tolist())),
        (*(trial.candidate[i] for i in kept), tuple(asked.candidate.tolist())),
    )
    return trial, sample


def _loss(forecast: tuple[float, ...], actual: F64) -> float:
    """Mean absolute log error over the domains that were observed."""
    with np.errstate(invalid="ignore"):
        errors = np.abs(np.log1p(np.array(forecast)) - np.log1p(actual))
    known = errors[np.isfinite(errors)]
    return float(known.mean()) if known.size else 0.0
