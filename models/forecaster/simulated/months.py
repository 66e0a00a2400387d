"""Simulated months to train on: traffic of the simulated world, with events and calendars.

`models.sim.traffic` defines the traffic of an app. This module assembles days, plans and announces
events, and drops some of the recorded minutes.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64, I32
from models.cluster.calendar import DAY_MINUTES, HISTORY_MINUTES, WEEK_MINUTES
from models.cluster.description import PRIORITIES
from models.forecaster.series import Series
from models.forecaster.simulated.event_kinds import KINDS
from models.forecaster.simulated.event_plans import Planned, calendar_of, events_of, plans
from models.forecaster.simulated.traffic import Recorded, record, source_of
from models.inputs.errors import InputError, did_you_mean
from models.sim.apps import Apps, Population
from models.sim.config.physics import SimCluster
from models.sim.config.scenario import Scenario
from models.sim.population.generate import generate

FIRST_SEED: Final = 5_000_000
"""Smaller seeds are reserved for tests and benchmarks of controllers: no model trains on them."""
FIRST_MINUTE: Final = -HISTORY_MINUTES
"""First minute of a month on the world's axis: where the history of a world begins."""
# Gaps are not fitted to real records; the network has to meet some to work with any.
GAPS_PER_MONTH: Final = 4.0
"""Mean number of gaps of a series in 30 days."""
GAP_MIN: Final = (2, 30)
LOST_DAY: Final = 0.4
"""Share of seeds in which a whole day is missing from all series, if longer than 30 days."""

_MONTH_DAYS: Final = 30
FIRST_MONDAY: Final = 19_723 * DAY_MINUTES
"""2024-01-01 00:00."""
_WEEKS: Final = 52
"""Weeks from there on in which the months of a seed may begin."""
_MOST_DAYS: Final = 366

# Independent random streams of one seed; the events of a day use the number of the day.
_DATE, _PICK, _LOSS = (10_000_000 + number for number in range(3))


class _Month(NamedTuple):
    """What the series of a seed have in common."""

    cluster: SimCluster
    apps: Apps
    seed: int
    days: int
    planned: tuple[Planned, ...]
    picked: I32
    """[K] apps that become series of their own."""


def months(
    cluster: SimCluster,
    seeds: Sequence[int],
    days: int,
    *,
    apps: int = 0,
    without: frozenset[str] = frozenset(),
) -> list[Series]:
    """A series per domain and for `apps` single apps of each seed, seed by seed.

    Events of the kinds in `without` neither happen nor are announced; the other events don't
    depend on them.
    """
    _check(cluster, seeds, days, apps, without)
    population = generate(cluster)

    def series_of_seed(seed: int) -> list[Series]:
        picked = pick_apps(population.apps, seed, apps)
        # Each seed draws from its own streams, so its series don't depend on the other seeds.
        planned = plans(seed, days, without)
        month = _Month(cluster, population.apps, seed, days, planned, picked)
        return list(_series(month, _recorded(month, population)))

    # Kernels release the GIL, so threads compute seeds in parallel.
    with ThreadPoolExecutor() as pool:
        return [series for found in pool.map(series_of_seed, seeds) for series in found]


def pick_apps(apps: Apps, seed: int, count: int) -> I32:
    """Evenly spaced apps, from the calmest to the burstiest."""
    # Sorted by bursts first, then by noise: lexsort takes the main key last.
    by_character = np.lexsort((apps.noise, apps.bursts_per_day * apps.burst_size))
    offset = np.random.default_rng([seed, _PICK]).random()
    ranks = (np.arange(count) + offset) / max(count, 1) * by_character.size
    picked: I32 = by_character[ranks.astype(np.int64)].astype(np.int32)
    return picked


def _recorded(month: _Month, population: Population) -> Recorded:
    scenario = Scenario(
        name="months",
        shows="Days to learn from.",
        start="Mon 00:00",
        length_minutes=month.days * DAY_MINUTES,
        warmup_minutes=0,
        events=events_of(month.planned, month.days),
    )
    source = source_of(month.cluster, population, scenario, month.seed)
    return record(source, FIRST_MINUTE, month.days * DAY_MINUTES, month.picked)


def _series(month: _Month, recorded: Recorded) -> Iterator[Series]:
    names = month.cluster.domain_names
    whole = [(name, index, recorded.domains[index]) for index, name in enumerate(names)]
    single = [
        (f"{names[domain]}-app-{app}", int(domain), recorded.apps[row])
        for row, app in enumerate(month.picked)
        for domain in [month.apps.domain[app]]
    ]
    # The number seeds the gaps, so domains come first: more apps must not change their gaps.
    for number, (name, domain, rps) in enumerate(whole + single):
        yield Series(
            name=f"{name}-{month.seed}",
            origin_min=_origin(month.seed),
            step_min=1,
            rps=drop_minutes(rps, month.seed, number),
            calendar=calendar_of(month.planned, names[domain]),
            priority=PRIORITIES.index(month.cluster.domains[domain].priority),
            domain=domain,
        )


def _origin(seed: int) -> int:
    """A Monday, because the simulated week begins on one."""
    week = int(np.random.default_rng([seed, _DATE]).integers(_WEEKS))
    return FIRST_MONDAY + week * WEEK_MINUTES


def drop_minutes(rps: F64, seed: int, number: int) -> F64:
    """Set some stretches of each series, and in some seeds a day of all series, to NaN."""
    remaining, size = rps.copy(), rps.size
    seed_rng = np.random.default_rng([seed, _LOSS])
    if seed_rng.random() < LOST_DAY and size > _MONTH_DAYS * DAY_MINUTES:
        start = int(seed_rng.integers(size - DAY_MINUTES))
        remaining[start : start + DAY_MINUTES] = np.nan
    series_rng = np.random.default_rng([seed, _LOSS, number + 1])
    for _ in range(series_rng.poisson(GAPS_PER_MONTH * size / (_MONTH_DAYS * DAY_MINUTES))):
        start = int(series_rng.integers(size))
        remaining[start : start + int(series_rng.integers(GAP_MIN[0], GAP_MIN[1] + 1))] = np.nan
    return remaining


def _check(
    cluster: SimCluster, seeds: Sequence[int], days: int, apps: int, without: frozenset[str]
) -> None:
    low = [seed for seed in seeds if seed < FIRST_SEED]
    if low or not seeds:
        got = low[0] if low else "none"
        raise InputError(
            f"seeds: expected {FIRST_SEED} or more, which no benchmark uses, got {got}"
        )
    if not 1 <= days <= _MOST_DAYS:
        raise InputError(f"days: expected 1 to {_MOST_DAYS}, got {days}")
    if not 0 <= apps <= cluster.apps:
        raise InputError(f"apps: expected 0 to {cluster.apps}, got {apps}")
    for name in sorted(without - set(KINDS)):
        hint = did_you_mean(name, KINDS)
        raise InputError(f"without: {name}: {hint}expected some of {', '.join(KINDS)}")
    _check_domains(cluster, without)


def _check_domains(cluster: SimCluster, without: frozenset[str]) -> None:
    """Events are defined for the domains of the example cluster."""
    for name, kind in KINDS.items():
        absent = sorted(kind.domains - set(cluster.domain_names))
        if absent and name not in without:
            raise InputError(
                f"cluster: {name} needs a domain {absent[0]}: leave the kind out by `without`"
            )
