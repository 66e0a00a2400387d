"""How well simple rules did lately: which of them traffic follows is a part of its character."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.learned.ratios import LEAST, bounded
from models.forecaster.learned.window_means import WindowMeans
from models.forecaster.series import Series

SKILL_MIN: Final = 360
"""Minutes before an origin in which rules are held against what came."""
_AHEAD_MIN: Final = 15
"""The middle one of the horizons: one is enough to tell rules apart."""
_MEAN_MIN: Final = 15
_LEAST_ERROR: Final = 0.02
"""Of the offset; what is added to errors before they are compared: a rule that is never wrong is
not infinitely better."""


class _Skill(NamedTuple):
    """Absolute errors of a rule and of the mean of the last minutes, where both said something."""

    own: WindowMeans
    usual: WindowMeans


class Skills:
    """Of the last value, the same minute of the hour before and that of the day before."""

    def __init__(self, series: Sequence[Series], rates: WindowMeans, since: int) -> None:
        came = np.stack([each.rps[since:] for each in series])
        minutes = since + np.arange(came.shape[1]) + np.zeros((len(series), 1), np.int64)
        # A value that stands for a step must not be held against itself.
        ahead = np.array([max(_AHEAD_MIN, each.step_min) for each in series])[:, None]
        usual = np.abs(came - rates.before(minutes - ahead, _MEAN_MIN))
        self._skills = {}
        for name, age in (("last", ahead), ("hour", 60), ("day", DAY_MINUTES)):
            own = np.abs(came - rates.between(minutes - age, minutes - age + 1))
            # Errors are compared over the same minutes only.
            both = 0.0 * (own + usual)
            self._skills[name] = _Skill(
                WindowMeans(own + both, since), WindowMeans(usual + both, since)
            )

    def of(self, rule: str, at: I64, offset: F64) -> F64:
        """Error of the mean of the last minutes over that of the rule, as a logarithm."""
        least = _LEAST_ERROR * offset + LEAST
        skill = self._skills[rule]
        usual, own = skill.usual.before(at, SKILL_MIN), skill.own.before(at, SKILL_MIN)
        # Of few among the minutes that there are little is said.
        share = skill.own.known_before(at, SKILL_MIN)
        return share * bounded(np.log((usual + least) / (own + least)))
