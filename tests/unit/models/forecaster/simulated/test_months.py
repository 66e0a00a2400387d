"""Simulated months are the world's traffic; their calendars contain announcements only."""

from datetime import UTC, datetime, timedelta

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.cluster import rows
from models.cluster.arrays import F64
from models.cluster.calendar import DAY_MINUTES, HISTORY_MINUTES
from models.forecaster.series import ALWAYS, Series
from models.forecaster.simulated.event_kinds import KINDS
from models.forecaster.simulated.event_plans import (
    CANCELLED,
    EARLY,
    LATE,
    MISJUDGED,
    SHIFT_MIN,
    SHORT_NOTICE,
    SILENT,
    EventOutcome,
    Planned,
    calendar_of,
    events_of,
    plans,
)
from models.forecaster.simulated.history import past_of
from models.forecaster.simulated.months import FIRST_SEED, GAP_MIN, LOST_DAY, drop_minutes, months
from models.forecaster.simulated.traffic import record, source_of
from models.inputs.errors import InputError
from models.sim.config.events import Target, Traffic
from models.sim.config.physics import SimCluster, load_sim_cluster, with_apps, with_physics
from models.sim.config.scenario import Scenario
from models.sim.world import World

CLUSTER = with_apps(load_sim_cluster(), 155)
SMALL = with_apps(load_sim_cluster(), 40)
NO_APPS = np.zeros(0, np.int32)
QUIET = frozenset(KINDS)
SEEDS = range(FIRST_SEED, FIRST_SEED + 8)
YEARS = [plans(seed, 366) for seed in SEEDS]
MANY = [plan for year in YEARS for plan in year]
PLANNABLE = [plan for plan in MANY if KINDS[plan.kind].plannable]
ANNOUNCED = [plan for plan in PLANNABLE if plan.announced]


def _scenario(*events: Traffic) -> Scenario:
    return Scenario(
        name="short",
        shows="A few minutes.",
        start="Mon 00:00",
        length_minutes=20,
        warmup_minutes=0,
        events=events,
    )


def _share(found: list[Planned], among: list[Planned]) -> float:
    return len(found) / len(among)


def test_a_seed_gives_the_same_series_bit_for_bit() -> None:
    first = months(SMALL, [FIRST_SEED, FIRST_SEED + 1], 3, apps=2)
    again = months(SMALL, [FIRST_SEED + 1], 3, apps=2)
    assert len(first) == 2 * (5 + 2)
    for one, other in zip(first[7:], again, strict=True):
        assert (one.name, one.origin_min) == (other.name, other.origin_min)
        assert one.calendar == other.calendar
        assert one.rps.tobytes() == other.rps.tobytes()
    assert first[0].rps.tobytes() != first[7].rps.tobytes()


def test_more_days_do_not_change_the_first_ones() -> None:
    assert plans(FIRST_SEED, 40)[: len(plans(FIRST_SEED, 20))] == plans(FIRST_SEED, 20)


def test_days_without_events_equal_the_past_of_a_world_of_the_same_seed() -> None:
    metrics = msgspec.structs.replace(CLUSTER.physics.metrics, noise=0.0)
    cluster = with_physics(CLUSTER, metrics=metrics)
    past = past_of(World(cluster, _scenario(), [FIRST_SEED]))
    plain = np.array([series.rps for series in months(cluster, [FIRST_SEED], 14, without=QUIET)])
    seen = plain[:, past.recorded()[:, :-1] + HISTORY_MINUTES]
    # Rates are linear within a minute; the mean of its six ticks is 5/12 of the way to the next.
    expected = past.days[0, :, :, :-1] * (7 / 12) + past.days[0, :, :, 1:] * (5 / 12)
    known = ~np.isnan(seen)
    assert known.mean() > 0.98
    # The rest is shot noise, small for millions of requests a minute.
    np.testing.assert_allclose(seen[known], expected[known], rtol=5e-3)
    assert abs((seen[known] / expected[known]).mean() - 1) < 1e-4


def test_a_recorded_minute_equals_the_observations_of_the_simulated_world() -> None:
    outage = Traffic(
        name="outage",
        target=Target(domains=("payments",)),
        at_minute=2,
        factor=0.6,
        ramp_minutes=1,
        hold_minutes=3,
        decay_minutes=1,
    )
    cluster, minutes = _with_room(CLUSTER), 9
    world = World(cluster, _scenario(outage), [FIRST_SEED])
    measured = _observed(world, minutes)
    source = source_of(cluster, world.population, _scenario(outage), FIRST_SEED)
    np.testing.assert_allclose(record(source, 0, minutes, NO_APPS).domains, measured, rtol=1e-6)


def _with_room(cluster: SimCluster) -> SimCluster:
    """With so many pods that nothing is overloaded, without retries, and sampled tick by tick.

    A recorded minute has no window: it is the mean of the samples of its own ticks.
    """
    sharp = msgspec.structs.replace(cluster.physics.metrics, window_s=cluster.tick_seconds)
    roomy = msgspec.structs.replace(cluster.physics.population, cpu_use=0.2)
    domains = {
        name: msgspec.structs.replace(domain, retryable=False)
        for name, domain in cluster.physics.domains.items()
    }
    return with_physics(cluster, population=roomy, domains=domains, metrics=sharp)


def _observed(world: World, minutes: int) -> F64:
    """[D, minutes] measured means of each minute, without the lag."""
    lag = int(world.cluster.physics.metrics.lag_s // world.cluster.tick_seconds)
    samples = []
    for _ in range(6 * minutes + lag):
        world.step(world.hold())
        samples.append(world.observe().measured[0, rows.RPS].astype(np.float64))
    by_app = np.array(samples[lag:]).reshape(minutes, 6, -1).mean(axis=1)
    domain = world.population.apps.domain
    return np.array([by_app[:, domain == d].sum(axis=1) for d in range(world.layout.domains)])


def test_event_outcomes_have_their_configured_shares() -> None:
    expected = {"early": EARLY, "late": LATE, "cancelled": CANCELLED, "silent": SILENT}
    assert len(PLANNABLE) > 1000
    for outcome, share in expected.items():
        found = [plan for plan in PLANNABLE if plan.outcome == outcome]
        assert _share(found, PLANNABLE) == pytest.approx(share, abs=0.03)
    on_time = [plan for plan in PLANNABLE if plan.outcome is EventOutcome.ON_TIME]
    assert _share(on_time, PLANNABLE) > 0.5


def test_wrong_and_late_announcements_have_their_configured_shares() -> None:
    short = [plan for plan in ANNOUNCED if plan.announced_from_min != ALWAYS]
    assert _share(short, ANNOUNCED) == pytest.approx(SHORT_NOTICE, abs=0.03)
    assert all(60 <= plan.start_min - plan.announced_from_min <= 12 * 60 for plan in short)
    off = [plan for plan in ANNOUNCED if abs(plan.announced_factor - plan.factor) > 0.0501]
    assert 0.5 * MISJUDGED < _share(off, ANNOUNCED) < MISJUDGED


def test_most_days_have_no_event_and_every_kind_occurs() -> None:
    busy = [len({plan.start_min // DAY_MINUTES for plan in year}) for year in YEARS]
    assert max(busy) < 0.5 * 366
    assert {plan.kind for plan in MANY} == set(KINDS)


def test_events_are_early_or_late_by_the_drawn_shift() -> None:
    low, high = SHIFT_MIN
    signs = {EventOutcome.EARLY: -1, EventOutcome.LATE: 1}
    moved = [plan for plan in PLANNABLE if plan.outcome in signs and plan.start_min > high]
    for plan in moved:
        begin = events_of([plan], 367)[0].at_minute
        assert low <= signs[plan.outcome] * (begin - plan.start_min) <= high


@given(st.sampled_from(ANNOUNCED), st.sampled_from(list(EventOutcome)), st.floats(5, 30))
def test_a_calendar_does_not_depend_on_what_happens(
    plan: Planned, outcome: EventOutcome, shift: float
) -> None:
    turned = plan._replace(outcome=outcome, shift_min=shift)
    for domain in CLUSTER.domain_names:
        entries = calendar_of([turned], domain)
        assert entries == (calendar_of([plan], domain) if turned.announced else ())
    assert bool(events_of([turned], 367)) == (outcome is not EventOutcome.CANCELLED)


def test_a_cancelled_event_is_announced_and_does_not_change_traffic() -> None:
    days = 20
    seed, plan = next(
        (seed, plan)
        for seed in SEEDS
        for plan in plans(seed, days)
        if plan.outcome is EventOutcome.CANCELLED and plan.kind == "evening-sale"
    )
    with_it = months(SMALL, [seed], days)[0]
    without = months(SMALL, [seed], days, without=frozenset({"evening-sale"}))[0]
    day = slice(plan.start_min - 60, plan.start_min + 120)
    assert any(entry.start_min == plan.start_min for entry in with_it.calendar)
    assert all(entry.start_min != plan.start_min for entry in without.calendar)
    np.testing.assert_array_equal(with_it.rps[day], without.rps[day])


def test_an_event_on_time_changes_traffic_from_its_announced_start() -> None:
    days = 20
    seed, plan = next(
        (seed, plan)
        for seed in SEEDS
        for plan in plans(seed, days)
        if plan.outcome is EventOutcome.ON_TIME and plan.kind == "evening-sale"
    )
    with_it = months(SMALL, [seed], days)[0].rps
    without = months(SMALL, [seed], days, without=frozenset({"evening-sale"}))[0].rps
    change = (with_it / without)[plan.start_min + 5 : plan.start_min + 10]
    assert np.nanmean(change) > 1 + 0.5 * (plan.factor - 1)
    before = slice(0, plan.start_min - 2)
    np.testing.assert_array_equal(with_it[before], without[before])


def test_leaving_out_kinds_does_not_change_the_other_events() -> None:
    out = frozenset({"flash-sale", "spike"})
    kept = tuple(plan for plan in plans(FIRST_SEED, 200) if plan.kind not in out)
    assert plans(FIRST_SEED, 200, out) == kept
    assert len(kept) < len(plans(FIRST_SEED, 200))


def test_only_the_planned_gaps_are_missing() -> None:
    series = months(SMALL, [FIRST_SEED], 28)
    assert any(one.missing.any() for one in series)
    for one in series:
        lengths = _gaps(one)
        assert all(GAP_MIN[0] <= length <= 2 * GAP_MIN[1] for length in lengths)
        assert one.missing.mean() < 0.01
        assert (one.rps[~one.missing] > 0).all()


def test_in_some_seeds_all_series_lack_the_same_day() -> None:
    whole, seeds = np.ones(31 * DAY_MINUTES), range(FIRST_SEED, FIRST_SEED + 100)
    lost = [
        np.isnan([drop_minutes(whole, seed, n) for n in range(3)]).all(axis=0).sum()
        for seed in seeds
    ]
    assert np.mean(np.array(lost) >= DAY_MINUTES) == pytest.approx(LOST_DAY, abs=0.1)


def _gaps(series: Series) -> list[int]:
    edges = np.flatnonzero(np.diff(np.r_[0, series.missing.astype(np.int8), 0]))
    return [int(end - begin) for begin, end in edges.reshape(-1, 2)]


def test_the_date_of_a_series_agrees_with_the_weekday_of_its_traffic() -> None:
    for series in months(SMALL, list(SEEDS[:2]), 7, without=QUIET):
        begin = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(minutes=series.origin_min)
        days = np.nanmean(series.rps.reshape(7, DAY_MINUTES), axis=1)
        factor = SMALL.domain_physics[series.domain].weekend_factor
        weekend = [(begin + timedelta(days=day)).weekday() >= 5 for day in range(7)]
        if abs(factor - 1) > 0.3:
            assert ((days < 0.8 * days.max()) == weekend).all()
        assert 2024 <= begin.year <= 2026


def test_apps_of_a_domain_add_up_to_it() -> None:
    series = months(SMALL, [FIRST_SEED], 1, apps=40)
    domains, apps = series[:5], series[5:]
    assert len({one.name for one in series}) == 45
    for whole in domains:
        parts = [one for one in apps if one.domain == whole.domain]
        assert {one.priority for one in parts} == {whole.priority}
        assert {one.calendar for one in parts} == {whole.calendar}
        total = np.sum([one.rps for one in parts], axis=0)
        known = ~np.isnan(total) & ~whole.missing
        np.testing.assert_allclose(total[known], whole.rps[known], rtol=1e-5)


def test_invalid_requests_for_months_are_refused() -> None:
    renamed = tuple(
        msgspec.structs.replace(d, name="other" if d.name == "data" else d.name)
        for d in SMALL.domains
    )
    calls = tuple(call for call in SMALL.calls if call.callee != "data")
    by_name = {"other" if n == "data" else n: d for n, d in SMALL.physics.domains.items()}
    physics = msgspec.structs.replace(SMALL.physics, domains=by_name)
    strange = msgspec.structs.replace(SMALL, domains=renamed, calls=calls, physics=physics)
    _refused("seeds: expected 5000000 or more", SMALL, [3], 1)
    _refused("seeds: .* got none", SMALL, [], 1)
    _refused("days: expected 1 to 366, got 0", SMALL, [FIRST_SEED], 0)
    _refused("apps: expected 0 to 40, got 41", SMALL, [FIRST_SEED], 1, 41)
    _refused("did you mean flash-sale", SMALL, [FIRST_SEED], 1, 0, frozenset({"flash-sail"}))
    _refused("needs a domain data", strange, [FIRST_SEED], 1)


def _refused(
    line: str,
    cluster: SimCluster,
    seeds: list[int],
    days: int,
    apps: int = 0,
    without: frozenset[str] = frozenset(),
) -> None:
    with pytest.raises(InputError, match=line):
        months(cluster, seeds, days, apps=apps, without=without)
