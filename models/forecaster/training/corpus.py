"""The training data of the shipped model: synthetic series, and recorded traffic if available.

Only the first part of each recorded series is used; the rest evaluates the model.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from models.forecaster.data.load import load
from models.forecaster.series import Series
from models.forecaster.simulated.fixtures import fixtures
from models.forecaster.simulated.months import FIRST_SEED, months
from models.inputs.errors import InputError
from models.sim.config.physics import SimCluster

LEARNED_SHARE: Final = 0.8
"""Share of each recorded series that is trained on, from its beginning."""
KEPT_OUT: Final = frozenset({"correlated-spike", "evening-sale", "slow-drift"})
"""Kinds of events that are never in the months, to evaluate the model on unknown events."""
# Sizes and shares were chosen by hand, within an hour of training; decision 0012 says what each
# part is for and what was tried.
SEEDS: Final = 20
DAYS: Final = 62
APPS: Final = 5
"""Single apps per seed, besides the domains: one model serves both."""
FIXTURES: Final = 48
"""Synthetic series around events whose size is not announced."""


class Part(NamedTuple):
    """Series whose windows are sampled with the same probability."""

    name: str
    series: Sequence[Series]
    share: float
    """Share of the windows of an epoch, relative to the sum of all shares."""
    learned: float = LEARNED_SHARE
    """Share of each series that is trained on, from its beginning."""


class Recorded(NamedTuple):
    """A file of recorded traffic, and which of its series are used."""

    name: str
    file: str
    share: float
    calendar: str | None = None
    wanted: Callable[[Series], bool] = lambda _: True


def _is_count(series: Series) -> bool:
    return "Twitter_volume" in series.name or "elb_request" in series.name


def _fine(series: Series) -> bool:
    return series.step_min <= 5


RECORDED: Final = (
    Recorded("worldcup98", "worldcup98_1min.csv.gz", 0.20, "worldcup98_calendar.csv"),
    Recorded("nasa95", "nasa95_1min.csv.gz", 0.18),
    Recorded("twitterstream", "twitterstream2021_1min.csv.gz", 0.06),
    Recorded("nab counts", "nab_real.csv.gz", 0.12, wanted=_is_count),
    Recorded("nab others", "nab_real.csv.gz", 0.03, wanted=lambda s: _fine(s) and not _is_count(s)),
    Recorded("azure", "azure2019_fn_1day_1min.csv.gz", 0.08, wanted=lambda s: s.rps.sum() >= 100),
    Recorded("petshop", "petshop_high_traffic_5min.csv.gz", 0.03, wanted=_fine),
)
HOURLY: Final = Recorded("appserver", "appserver_2015_2020_1h.csv.gz", 0.03)
SIMULATED_SHARE: Final = 0.27
FIXTURES_SHARE: Final = 0.15


def corpus(cluster: SimCluster, traces: Path | None) -> Iterator[Part]:
    """The parts of the corpus, each loaded or generated when it is needed."""
    seeds = [FIRST_SEED + seed for seed in range(SEEDS)]
    made = months(cluster, seeds, DAYS, apps=APPS, without=KEPT_OUT)
    # Simulated parts are used whole: other seeds and the kinds kept out evaluate the model.
    yield Part("simulated months", made, SIMULATED_SHARE, learned=1.0)
    synthetic = fixtures(range(FIRST_SEED, FIRST_SEED + FIXTURES))
    yield Part("made-up fixtures", synthetic, FIXTURES_SHARE, learned=1.0)
    if traces is None:
        return
    for recorded in RECORDED:
        yield Part(recorded.name, _read(traces, recorded), recorded.share)
    # A step of an hour exceeds every horizon, so hourly values cannot be targets as they are.
    smooth = [_by_the_minute(series) for series in _read(traces, HOURLY)]
    yield Part(HOURLY.name, smooth, HOURLY.share)


def _read(traces: Path, recorded: Recorded) -> list[Series]:
    path = traces / recorded.file
    if not path.exists():
        raise InputError(f"{path}: no such file; name the folder of the traces, or leave it out")
    calendar = None if recorded.calendar is None else traces / recorded.calendar
    return [series for series in load(path, calendar) if recorded.wanted(series)]


def _by_the_minute(hourly: Series) -> Series:
    """An hourly record interpolated to minutes, with noise, for its daily and weekly pattern.

    Without noise the line between two hours would reveal the next value.
    """
    hours = np.arange(hourly.rps.size) / hourly.step_min
    valid = ~hourly.missing
    # An hourly mean stands for the middle of its hour.
    smooth = np.interp(
        hours, hours[valid][:: hourly.step_min] + 0.5, hourly.rps[valid][:: hourly.step_min]
    )
    noise = np.random.default_rng(0).normal(0.0, 0.05, smooth.size)
    slow = np.convolve(noise, np.full(20, 0.25), "same")
    rps = np.where(hourly.missing, np.nan, smooth * np.exp(noise + slow))
    return hourly._replace(rps=rps, step_min=1)
