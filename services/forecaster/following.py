"""What the forecaster adds to following promotions: which networks answer, and how they do."""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, Mask
from models.forecaster.learned.serving import Model
from models.forecaster.port import HORIZONS_MIN
from models.registry.rollout import Rules, Sample
from services._kit.following import Deciding, Follower
from services._kit.handler import CLUSTER
from services.forecaster.switch import Asked

MODEL: Final = "forecaster"
"""Key of its promotions."""
_AHEAD_MIN: Final = HORIZONS_MIN[0]


@dataclass(frozen=True)
class Trial:
    """Forecasts of both networks that wait for their outcome."""

    candidate_sha256: str = ""
    """Whose they are: those of an earlier candidate say nothing about this one."""
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


def follower_of(shipped: Model | None, configured: str, rules: Rules) -> Follower[Model]:
    """Follows promotions of forecasters; `shipped` is None if a rule is configured."""
    refusal = "" if shipped is not None else f"HIRL_FORECASTER_MODEL is {configured}, a rule"
    return Follower(MODEL, CLUSTER, rules, refusal)


def serving_of(deciding: Deciding[Model], shipped: Model) -> Serving:
    """Which networks answer: the shipped one where no other does."""
    spare = deciding.spare or shipped
    return Serving(deciding.incumbent or spare, spare, deciding.candidate, deciding.applied)


def tried(
    trial: Trial, sha256: str, asked: Asked, minute: int, actual: F64
) -> tuple[Trial, Sample]:
    """Add the answers of a minute, and judge those whose outcome [D] this minute is."""
    if trial.candidate_sha256 != sha256:
        trial = Trial(sha256)
    sample = Sample(asked.fault, differs=asked.differs, known=False)
    if minute - _AHEAD_MIN in trial.minutes:
        at = trial.minutes.index(minute - _AHEAD_MIN)
        ours, theirs = _loss(trial.incumbent[at], actual), _loss(trial.candidate[at], actual)
        if ours is not None and theirs is not None:
            sample = sample._replace(cost_incumbent=ours, cost_candidate=theirs, known=True)
    kept = [i for i, one in enumerate(trial.minutes) if minute - _AHEAD_MIN < one < minute]
    trial = Trial(
        sha256,
        (*(trial.minutes[i] for i in kept), minute),
        (*(trial.incumbent[i] for i in kept), tuple(asked.incumbent.tolist())),
        (*(trial.candidate[i] for i in kept), tuple(asked.candidate.tolist())),
    )
    return trial, sample


def _loss(forecast: tuple[float, ...], actual: F64) -> float | None:
    """Mean absolute log error over the domains that were observed; None if there are none."""
    with np.errstate(invalid="ignore"):
        errors = np.abs(np.log1p(np.array(forecast)) - np.log1p(actual))
    known = errors[np.isfinite(errors)]
    return float(known.mean()) if known.size else None
