"""What the shipped model learns from: what is made up, and recorded traffic where it is there.

Of each recorded series only the first part is used, so that the rest can judge the model.
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
"""Of each recorded series, from its beginning."""
KEPT_OUT: Final = frozenset({"correlated-spike", "evening-sale", "slow-drift"})
"""Kinds of events that are never in the months, so that there is something new to be judged on."""
SEEDS: Final = 20
DAYS: Final = 62
APPS: Final = 5
"""Single apps per seed, beside the domains: the model is one for both."""
FIXTURES: Final = 48
"""Made-up series around events of which the size is not announced."""


class Part(NamedTuple):
    """Series that are drawn from alike."""

    name: str
    series: Sequence[Series]
    share: float
    """Of the windows of an epoch, over the sum of all shares."""
    learned: float = LEARNED_SHARE
    """Share of each series, from its beginning."""


class Recorded(NamedTuple):
    """A file of recorded traffic and what is taken from it."""

    name: str
    file: str
    share: float
    calendar: str | None = None
    wanted: Callable[[Series], bool] = lambda _: True


def _counted(series: Series) -> bool:
    return "Twitter_volume" in series.name or "elb_request" in series.name


def _fine(series: Series) -> bool:
    return series.step_min <= 5


RECORDED: Final = (
    Recorded("worldcup98", "worldcup98_1min.csv.gz", 0.20, "worldcup98_calendar.csv"),
    Recorded("nasa95", "nasa95_1min.csv.gz", 0.18),
    Recorded("twitterstream", "twitterstream2021_1min.csv.gz", 0.06),
    Recorded("nab counts", "nab_real.csv.gz", 0.12, wanted=_counted),
    Recorded("nab others", "nab_real.csv.gz", 0.03, wanted=lambda s: _fine(s) and not _counted(s)),
    Recorded("azure", "azure2019_fn_1day_1min.csv.gz", 0.08, wanted=lambda s: s.rps.sum() >= 100),
    Recorded("petshop", "petshop_high_traffic_5min.csv.gz", 0.03, wanted=_fine),
)
HOURLY: Final = Recorded("appserver", "appserver_2015_2020_1h.csv.gz", 0.03)
SIMULATED_SHARE: Final = 0.27
FIXTURES_SHARE: Final = 0.15


def corpus(cluster: SimCluster, traces: Path | None) -> Iterator[Part]:
    """The parts, one after the other as they are read or made."""
    seeds = [FIRST_SEED + seed for seed in range(SEEDS)]
    made = months(cluster, seeds, DAYS, apps=APPS, without=KEPT_OUT)
    yield Part("simulated months", made, SIMULATED_SHARE, learned=1.0)
    known_hours = fixtures(range(FIRST_SEED, FIRST_SEED + FIXTURES))
    yield Part("made-up fixtures", known_hours, FIXTURES_SHARE, learned=1.0)
    if traces is None:
        return
    for recorded in RECORDED:
        yield Part(recorded.name, _read(traces, recorded), recorded.share)
    smooth = [_by_the_minute(series) for series in _read(traces, HOURLY)]
    yield Part(HOURLY.name, smooth, HOURLY.share)


def _read(traces: Path, recorded: Recorded) -> list[Series]:
    path = traces / recorded.file
    if not path.exists():
        raise InputError(f"{path}: no such file; name the folder of the traces, or leave it out")
    calendar = None if recorded.calendar is None else traces / recorded.calendar
    return [series for series in load(path, calendar) if recorded.wanted(series)]


def _by_the_minute(hourly: Series) -> Series:
    """An hourly record on smooth minutes with noise, for its days and weeks.

    Without noise the line between two hours would give the next one away.
    """
    hours = np.arange(hourly.rps.size) / hourly.step_min
    known = ~hourly.missing
    smooth = np.interp(
        hours, hours[known][:: hourly.step_min] + 0.5, hourly.rps[known][:: hourly.step_min]
    )
    noise = np.random.default_rng(0).normal(0.0, 0.05, smooth.size)
    slow = np.convolve(noise, np.full(20, 0.25), "same")
    rps = np.where(hourly.missing, np.nan, smooth * np.exp(noise + slow))
    return hourly._replace(rps=rps, step_min=1)
