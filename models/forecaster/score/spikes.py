"""Whether models forecast doublings of traffic in time, and how many false alarms they raise.

A *doubling* is a minute whose five-minute mean is at least twice what it was at some minute of
the ten before, and at least the series' median traffic; one per hour. It was *announced* where
the calendar, ten minutes before, had an entry that starts within a quarter of an hour of it.

A *forecast spike* is an origin at which the forecast for 15 or 30 minutes ahead exceeds the current
five-minute mean by a factor, and the median traffic. For the median forecast the factor is 1.7:
uncertain forecasts lie between the present and the possible, so a median of 1.7 already gives a
doubling nearly even odds. With 2, a model that is right about the event but unsure about its minute
would count as silent. For the .9 quantile it is 2: a doubling is possible. Both are reported.
"""

from collections.abc import Iterable
from typing import Final, Literal

import msgspec
import numpy as np

from models.cluster.arrays import F64, I64, Mask
from models.cluster.calendar import DAY_MINUTES
from models.forecaster.port import HIGH, HORIZONS_MIN, MEDIAN
from models.forecaster.score.peers.floors import mean_of_last
from models.forecaster.score.windows import Windows
from models.forecaster.series import Announced, Series

LEAD_MIN: Final = 10
"""Minutes before a doubling by which it must be forecast, because new capacity takes that long."""
SLACK_MIN: Final = 10
"""Minutes that a forecast spike may come later than its horizon."""
# The definitions of the module docstring as numbers. Figures with others cannot be compared.
RISE_MIN: Final = 10
MERGE_MIN: Final = 60
ANNOUNCED_WITHIN_MIN: Final = 15
By = Literal["p50", "p90"]
FACTORS: Final[dict[By, float]] = {"p50": 1.7, "p90": 2.0}
ALL_SERIES: Final = "all series"
_QUANTILES: Final[dict[By, int]] = {"p50": MEDIAN, "p90": HIGH}
_MEAN_MIN: Final = 5
_NORMAL: Final = 1.96
"""Standard deviations to either side that contain 95 %."""


class SpikeScore(msgspec.Struct, frozen=True):
    """Doublings and forecast spikes in the scored part of a series."""

    series: str
    model: str
    by: By
    announced: int
    """Doublings that were announced in time."""
    announced_found: int
    unannounced: int
    unannounced_found: int
    false_alarms: int
    """Forecast spikes, one per hour, without a doubling."""
    slow_rises: int
    """False alarms after which traffic did rise by the factor, but slower than a doubling."""
    days: float

    @property
    def recall(self) -> float | None:
        """Share of announced doublings that were forecast; None without any."""
        return self.announced_found / self.announced if self.announced else None

    @property
    def recall_interval(self) -> tuple[float, float] | None:
        """95 % Wilson interval of the recall, as if doublings were independent.

        Domains of the same event are not, so it is too narrow over several series. None without
        any doubling.
        """
        return _wilson(self.announced_found, self.announced) if self.announced else None

    @property
    def unannounced_recall(self) -> float | None:
        """Share of unannounced doublings that were forecast; None without any."""
        return self.unannounced_found / self.unannounced if self.unannounced else None

    @property
    def false_alarms_per_day(self) -> float:
        """Over all scored minutes."""
        return self.false_alarms / self.days


def score_spikes(
    series: Series, model: str, windows: Windows, forecast: F64
) -> tuple[SpikeScore, ...]:
    """Scores of forecasts [B, H, Q] at every origin, by the median and by the .9 quantile."""
    return tuple(_score(series, model, windows, forecast, by) for by in FACTORS)


def pooled(scores: Iterable[SpikeScore]) -> tuple[SpikeScore, ...]:
    """Sums over all series, by model and measure."""
    groups: dict[tuple[str, By], list[SpikeScore]] = {}
    for score in scores:
        groups.setdefault((score.model, score.by), []).append(score)
    return tuple(_sum(group) for group in groups.values())


def doublings(series: Series) -> I64:
    """All minutes at which traffic has doubled within ten minutes."""
    means = _means(series)
    lowest = _lowest_before(means, RISE_MIN)
    with np.errstate(invalid="ignore"):
        # Comparisons with NaN are false, so a missing minute is no doubling.
        doubled = (means >= 2 * lowest) & (means >= noise_floor(series)) & (means > 0)
    return np.flatnonzero(doubled)


def one_per_hour(minutes: I64) -> I64:
    """The first of some ascending minutes, then the first after each following hour."""
    chosen: list[int] = []
    for minute in minutes:
        if not chosen or minute >= chosen[-1] + MERGE_MIN:
            chosen.append(int(minute))
    return np.array(chosen, np.int64)


def noise_floor(series: Series) -> float:
    """The median of the minutes with traffic; doublings below it don't matter."""
    positive = series.rps[series.rps > 0]
    return float(np.median(positive)) if positive.size else np.inf


def is_announced(calendar: tuple[Announced, ...], minutes: I64) -> Mask:
    """Which minutes were announced in time, within a quarter of an hour."""
    found = np.zeros(minutes.size, np.bool_)
    for entry in calendar:
        near = np.abs(minutes - entry.start_min) <= ANNOUNCED_WITHIN_MIN
        found |= near & (entry.announced_from_min <= minutes - LEAD_MIN)
    return found


def _score(series: Series, model: str, windows: Windows, forecast: F64, by: By) -> SpikeScore:
    happened = doublings(series)
    first, last = int(windows.at[0]), int(windows.at[-1])
    # Earlier doublings could not have been forecast at every horizon.
    scored = one_per_hour(happened[happened >= first + max(HORIZONS_MIN)])
    announced = is_announced(series.calendar, scored)
    found, false = np.zeros(scored.size, np.bool_), []
    for index, horizon in enumerate(HORIZONS_MIN):
        # A forecast 5 minutes ahead is too late for new capacity.
        if horizon > LEAD_MIN:
            at = windows.at[_is_spike(series, windows, forecast[:, index], by)]
            found |= _any_within(at, scored - horizon - SLACK_MIN, scored - LEAD_MIN)
            # Alarms whose time is not over yet are neither right nor false.
            judged = at[at + horizon + SLACK_MIN < series.rps.size]
            false.append(judged[~_any_within(happened, judged, judged + horizon + SLACK_MIN)])
    # Once for both horizons.
    alarms = one_per_hour(np.unique(np.concatenate(false)))
    return SpikeScore(
        series=series.name,
        model=model,
        by=by,
        announced=int(announced.sum()),
        announced_found=int(found[announced].sum()),
        unannounced=int((~announced).sum()),
        unannounced_found=int(found[~announced].sum()),
        false_alarms=alarms.size,
        slow_rises=int(_rose(series, alarms, FACTORS[by]).sum()),
        days=(last - first + 1) / DAY_MINUTES,
    )


def _sum(scores: list[SpikeScore]) -> SpikeScore:
    return SpikeScore(
        series=ALL_SERIES,
        model=scores[0].model,
        by=scores[0].by,
        announced=sum(each.announced for each in scores),
        announced_found=sum(each.announced_found for each in scores),
        unannounced=sum(each.unannounced for each in scores),
        unannounced_found=sum(each.unannounced_found for each in scores),
        false_alarms=sum(each.false_alarms for each in scores),
        slow_rises=sum(each.slow_rises for each in scores),
        days=sum(each.days for each in scores),
    )


def _wilson(found: int, of: int) -> tuple[float, float]:
    share, spread = found / of, _NORMAL**2 / of
    middle = share + spread / 2
    half = float(np.sqrt(spread * (share * (1 - share) + spread / 4)))
    return max(0.0, (middle - half) / (1 + spread)), min(1.0, (middle + half) / (1 + spread))


def _is_spike(series: Series, windows: Windows, forecast: F64, by: By) -> Mask:
    """[B] from forecasts [B, Q] of one horizon."""
    now = _means(series)[windows.at]
    value = forecast[:, _QUANTILES[by]]
    with np.errstate(invalid="ignore"):
        spike: Mask = (value >= FACTORS[by] * now) & (value >= noise_floor(series))
    return spike


def _rose(series: Series, alarms: I64, factor: float) -> Mask:
    """Whether traffic reached the factor, in the time that each alarm covers."""
    means = _means(series)
    ahead = alarms[:, None] + np.arange(1, max(HORIZONS_MIN) + SLACK_MIN + 1)
    peak = np.nan_to_num(means[ahead.clip(max=means.size - 1)]).max(axis=1, initial=0)
    rose: Mask = peak >= factor * means[alarms]
    return rose


def _any_within(minutes: I64, first: I64, last: I64) -> Mask:
    """Whether any of some ascending minutes lies in each span first..last."""
    found: Mask = np.searchsorted(minutes, last, "right") > np.searchsorted(minutes, first)
    return found


def _means(series: Series) -> F64:
    """[N] mean of the values of the last five minutes."""
    return mean_of_last(series.rps, np.arange(series.rps.size), _MEAN_MIN)


def _lowest_before(means: F64, minutes: int) -> F64:
    """[N] the lowest mean of the minutes before each; infinite where there is none."""
    # A gap must not look like zero traffic, after which everything is a doubling.
    filled = np.where(np.isnan(means), np.inf, means)
    padded = np.concatenate([np.full(minutes, np.inf), filled[:-1]])
    lowest: F64 = np.lib.stride_tricks.sliding_window_view(padded, minutes).min(axis=1)
    return lowest
