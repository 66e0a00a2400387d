"""Statistics of windows of a series, for the inputs of the network.

Means of any window by cumulative sums, logarithms of ratios in which values may be missing (NaN),
and how well simple rules predicted recent traffic.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I64
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.series import Series
from models.jit import kernel

LEAST: Final = 1e-9
"""Added to divisors and arguments of logarithms, in requests per second."""
_LARGEST: Final = 5.0
"""Bound of any logarithm; a larger ratio carries no more information."""
SKILL_MIN: Final = 360
"""Minutes before an origin over which the rules are compared."""
_AHEAD_MIN: Final = 15
"""The middle horizon; one is enough to tell the rules apart."""
_MEAN_MIN: Final = 15
"""Length of the mean that the rules are compared with."""
_LEAST_ERROR: Final = 0.02
"""Share of the offset that is added to errors before they are compared, because a rule that is
never wrong is not infinitely better."""


def bounded(logs: F64) -> F64:
    """Clip logarithms; 0 where unknown."""
    return np.clip(np.nan_to_num(logs, nan=0.0), -_LARGEST, _LARGEST)


def present(values: F64) -> F64:
    """1 where there is a value, 0 where it is NaN."""
    return (~np.isnan(values)).astype(np.float64)


def mean_of_present(values: F64) -> F64:
    """Mean along the last axis without NaN; NaN where there is no value at all."""
    valid = ~np.isnan(values)
    count = valid.sum(axis=-1)
    mean: F64 = np.where(valid, values, 0.0).sum(axis=-1) / np.where(count > 0, count, np.nan)
    return mean


class WindowMeans:
    """Means of windows of values [R, N]. NaN is left out; a window without a value is NaN.

    The first value is that of the minute `since`. The first axis of windows has R rows, or any
    length if there is only one row.
    """

    def __init__(self, values: F64, since: int = 0) -> None:
        rows, size = values.shape
        self._since = since
        self._total = np.zeros((rows, size + 1))
        self._count = np.zeros((rows, size + 1), np.int64)
        _cumulate(values, self._total, self._count)

    def between(self, first: I64, end: I64) -> F64:
        """Means of the minutes `first` to `end` - 1."""
        row, first, end = self._indices(first, end)
        count = self._count[row, end] - self._count[row, first]
        total = self._total[row, end] - self._total[row, first]
        # Differences of large sums are a little off; a mean of rates must not become negative.
        means: F64 = np.where(count > 0, np.maximum(total, 0.0) / np.maximum(count, 1), np.nan)
        return means

    def before(self, at: I64, minutes: int) -> F64:
        """Means of the `minutes` that end with minute `at`."""
        return self.between(at + 1 - minutes, at + 1)

    def present_before(self, at: I64, minutes: int) -> F64:
        """Share of these minutes that have a value, of those that the series covers."""
        row, first, end = self._indices(at + 1 - minutes, at + 1)
        share: F64 = (self._count[row, end] - self._count[row, first]) / np.maximum(end - first, 1)
        return share

    def _indices(self, first: I64, end: I64) -> tuple[I64, I64, I64]:
        """Row, begin and end of windows in the cumulative sums."""
        rows, last = self._total.shape[0], self._total.shape[1] - 1
        row = np.arange(rows).reshape(-1, *(1,) * (first.ndim - 1))
        return row, np.clip(first - self._since, 0, last), np.clip(end - self._since, 0, last)


@kernel
def _cumulate(values: F64, total: F64, count: I64) -> None:
    """In one pass, because a service does this for every row each minute."""
    for row in range(values.shape[0]):
        for minute in range(values.shape[1]):
            valid = values[row, minute] == values[row, minute]
            total[row, minute + 1] = total[row, minute] + (values[row, minute] if valid else 0.0)
            count[row, minute + 1] = count[row, minute] + (1 if valid else 0)


class _Errors(NamedTuple):
    """Absolute errors of a rule and of the mean of the last minutes, where both have one."""

    rule: WindowMeans
    mean: WindowMeans


class RuleSkills:
    """How well simple rules predicted recent traffic; which one fits describes the traffic.

    The rules are the last value, the same minute of the hour before, and that of the day before.
    """

    def __init__(self, series: Sequence[Series], rates: WindowMeans, since: int) -> None:
        actual = np.stack([each.rps[since:] for each in series])
        minutes = since + np.arange(actual.shape[1]) + np.zeros((len(series), 1), np.int64)
        # A value that stands for a whole step must not be compared with itself.
        ahead = np.array([max(_AHEAD_MIN, each.step_min) for each in series])[:, None]
        of_mean = np.abs(actual - rates.before(minutes - ahead, _MEAN_MIN))
        self._errors = {}
        for name, age in (("last", ahead), ("hour", 60), ("day", DAY_MINUTES)):
            of_rule = np.abs(actual - rates.between(minutes - age, minutes - age + 1))
            # NaN where either is missing: errors are compared over the same minutes only.
            both = 0.0 * (of_rule + of_mean)
            self._errors[name] = _Errors(
                WindowMeans(of_rule + both, since), WindowMeans(of_mean + both, since)
            )

    def of(self, rule: str, at: I64, offset: F64) -> F64:
        """Logarithm of the mean's error over the rule's; positive where the rule is better."""
        least = _LEAST_ERROR * offset + LEAST
        errors = self._errors[rule]
        of_mean, of_rule = errors.mean.before(at, SKILL_MIN), errors.rule.before(at, SKILL_MIN)
        # Shrink towards 0 where few minutes could be compared.
        share = errors.rule.present_before(at, SKILL_MIN)
        return share * bounded(np.log((of_mean + least) / (of_rule + least)))
