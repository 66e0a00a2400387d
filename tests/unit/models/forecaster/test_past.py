"""The past contains the recorded days, and nothing of the scenario."""

import msgspec
import numpy as np

from models.cluster import rows
from models.cluster.calendar import HISTORY_MINUTES
from models.forecaster.minutes import add_tick, start_minutes
from models.forecaster.past import LEAD_MIN
from models.forecaster.simulated.history import past_of
from models.sim.world import domain_history
from tests.unit.models.forecaster.observations import PER_MINUTE, level_past, observed, world_of


def test_the_recorded_minutes_are_those_of_the_history() -> None:
    world = world_of("calm", (3,))
    past, history = past_of(world), domain_history(world)[0]
    np.testing.assert_allclose(past.days[0], history[:, past.recorded() + HISTORY_MINUTES])
    np.testing.assert_allclose(past.recent[0], history[:, -LEAD_MIN:])


def test_all_recorded_minutes_are_before_the_scenario() -> None:
    past = past_of(world_of("calm", (3,)))
    assert past.recorded().min() >= -HISTORY_MINUTES
    assert past.recorded().max() < 0


def test_the_past_does_not_depend_on_events_of_the_scenario() -> None:
    world = world_of("cascade")
    quiet = world_of(msgspec.structs.replace(world.scenario, events=()))
    np.testing.assert_array_equal(past_of(world).days, past_of(quiet).days)


def test_the_past_does_not_depend_on_the_other_environments() -> None:
    both, alone = past_of(world_of("calm")), past_of(world_of("calm", (4,)))
    np.testing.assert_array_equal(both.days[1], alone.days[0])


def _observed_rps(samples: list[list[float]], spoil: int | None = None, how: str = "") -> float:
    """Requests per second of domain 0 after the given samples, invalid from tick `spoil` on."""
    minutes = start_minutes(observed(0, np.zeros((1, 2), np.float32)), level_past().recent)
    for tick, sample in enumerate(samples, start=1):
        observation = observed(tick, np.array([sample], np.float32))
        if spoil is not None and tick >= spoil:
            _spoil(observation.measured, observation.missing, how)
        add_tick(observation, minutes, PER_MINUTE)
    return float(minutes.domain[0, 0, -1])


def _spoil(measured: np.ndarray, missing: np.ndarray, how: str) -> None:
    if how == "missing":
        missing[:] = 1
    elif how == "zero":
        measured[:, (rows.RPS, rows.MEMORY)] = 0
    else:
        measured[:, rows.RPS] = float(how)


def test_a_minute_is_the_mean_of_its_samples() -> None:
    assert _observed_rps([[float(n), 0] for n in range(1, 7)]) == 3.5


def test_invalid_samples_never_lower_the_observed_traffic() -> None:
    for how in ("missing", "zero", "nan", "-5", "inf"):
        for spoil in (5, 7, 13):
            assert _observed_rps([[50.0, 1.0]] * 24, spoil, how) == 50.0


def test_the_recorded_minutes_are_used_until_the_first_valid_sample() -> None:
    assert _observed_rps([[50.0, 1.0]] * 6, 1, "missing") == 100.0


def test_zero_requests_from_running_pods_count_as_zero_traffic() -> None:
    assert _observed_rps([[50.0, 1.0]] * 6 + [[0.0, 1.0]] * 6) == 0.0


def test_a_repeated_tick_changes_nothing() -> None:
    minutes = start_minutes(observed(0, np.zeros((1, 2), np.float32)), level_past().recent)
    for tick in (1, 2, 3, 3, 3, 4, 5, 6, 6):
        rps = 90.0 if tick == 3 else 30.0
        add_tick(observed(tick, np.full((1, 2), rps, np.float32)), minutes, PER_MINUTE)
    assert minutes.domain[0, 0, -1] == 40.0


def test_an_app_counts_for_its_current_domain_and_only_while_declared() -> None:
    minutes = start_minutes(observed(0, np.zeros((1, 2), np.float32)), level_past().recent)
    for tick in range(1, 7):
        observation = observed(tick, np.array([[10.0, 20.0]], np.float32))
        observation.status[0, rows.DOMAIN] = 1
        add_tick(observation, minutes, PER_MINUTE)
    assert minutes.domain[0, :, -1].tolist() == [0.0, 30.0]
    for tick in range(7, 13):
        observation = observed(tick, np.array([[10.0, 20.0]], np.float32))
        observation.status[0, rows.ACTIVE, 0] = 0
        add_tick(observation, minutes, PER_MINUTE)
    assert minutes.domain[0, :, -1].tolist() == [0.0, 20.0]
