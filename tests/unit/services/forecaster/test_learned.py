"""The service with a trained network: restarts, fallbacks and what a forecast reports."""

import zlib
from typing import Any

import msgspec
import numpy as np
import pytest
from prometheus_client import generate_latest

from models.cluster.calendar import HISTORY_MINUTES
from models.forecaster.learned import memory
from models.forecaster.learned.artefact import CARD
from models.forecaster.learned.serving import SHORT
from models.forecaster.minutes import start_minutes
from models.forecaster.past import LEAD_MIN
from models.inputs.errors import InputError
from schemas.demand_forecast import DemandForecast
from schemas.event_scheduled import EventScheduled
from services._kit.arrays import blank_observation
from services._kit.clock import ManualClock
from services._kit.errors import Refused
from services._kit.handler import Service
from services._kit.memory import MemoryBus
from services._kit.settings import KitSettings
from services._kit.state_records import LARGEST_RECORD_BYTES
from services._kit.telemetry import Telemetry
from services.forecaster.app import build as build_app
from services.forecaster.decide import ForecasterHandler, ForecasterState
from services.forecaster.metrics import Metrics
from services.forecaster.progress import Progress, RecentMinutes, check_progress, compact, expanded
from services.forecaster.settings import Settings
from tests.service_helpers import CLUSTER, time_of
from tests.unit.models.forecaster.fake_network import FakeNetwork, model_of
from tests.unit.services.forecaster.forecaster_service_helpers import (
    GRACE_S,
    backfill,
    declare_apps,
    play,
)

DOMAINS = CLUSTER.domain_names


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> FakeNetwork:
    fake = FakeNetwork()
    monkeypatch.setattr("services.forecaster.builder.open_network", lambda _: model_of(fake))
    return fake


def system(rule_minutes: int = 120, model: str = "tft") -> MemoryBus:
    bus = MemoryBus(ManualClock(1000.0))
    bus.add(lambda: Service(ForecasterHandler(CLUSTER, model, rule_minutes, GRACE_S)))
    declare_apps(bus)
    return bus


def forecasts(bus: MemoryBus) -> dict[tuple[int, str], DemandForecast]:
    return {(event.tick, event.domain): event for event in bus.events(DemandForecast)}


def test_a_forecast_names_its_model_and_calibration(network: FakeNetwork) -> None:
    bus = system()
    backfill(bus)
    play(bus, 0, 12)
    event = forecasts(bus)[12, "payments"]
    assert (event.model, event.trained_until) == ("tft/fake", "2026-01-01T00:00:00Z")
    assert (event.fallback_reason, event.review_reason) == ("", "")
    assert {"width_5", "shift_30", "coverage_15"} <= event.calibration.keys()
    assert all(np.isfinite(list(event.calibration.values())))
    assert network.rows[-1] == len(DOMAINS), "one call for all domains"


def test_a_short_history_falls_back_to_the_calendar_with_a_reason(network: FakeNetwork) -> None:
    bus = system()
    backfill(bus, minutes=60)
    play(bus, 0, 6)
    event = forecasts(bus)[6, "payments"]
    assert (event.model, event.fallback_reason) == ("calendar/1", SHORT)
    assert network.rows, "the network ran, but its forecast was not used"


@pytest.mark.parametrize("rule_minutes", [120, 3])
@pytest.mark.parametrize("at", [14, 18])
def test_a_restart_continues_bit_for_bit(network: FakeNetwork, at: int, rule_minutes: int) -> None:
    undisturbed, restarted = system(rule_minutes), system(rule_minutes)
    for bus in (undisturbed, restarted):
        backfill(bus)
        play(bus, 0, 9)
        play(bus, 10, at, "fraud")
    restarted.kill("forecaster", redeliver=5)
    restarted.start("forecaster")
    asked = len(network.rows)
    for bus in (restarted, undisturbed):
        play(bus, at + 1, 42)
    assert forecasts(restarted) == forecasts(undisturbed)
    assert max(network.rows[asked:]) == len(DOMAINS), "the record is not replayed again"


def test_a_rebuilt_rule_lets_the_network_continue(network: FakeNetwork) -> None:
    renewed, lasting = system(rule_minutes=2), system()
    for bus in (renewed, lasting):
        backfill(bus)
        play(bus, 0, 48)
    assert forecasts(renewed)[48, "data"].rps == forecasts(lasting)[48, "data"].rps
    assert network.rows.count(len(DOMAINS)) > 16


def test_a_new_announcement_keeps_what_the_network_learned(
    network: FakeNetwork,
) -> None:
    announced, unannounced = system(), system()
    for bus in (announced, unannounced):
        backfill(bus)
        play(bus, 0, 7)
    sale = EventScheduled(
        name="sale",
        domains=["data"],
        starts_at=time_of(6 * 600),
        ends_at=time_of(6 * 660),
        expected_factor=3.0,
    )
    announced.publish(sale)
    asked = len(network.rows)
    for bus in (announced, unannounced):
        play(bus, 8, 12)
    assert max(network.rows[asked:]) == len(DOMAINS), "the record is not replayed again"
    # The fake network ignores the calendar, so its calibration must not change.
    assert (
        forecasts(announced)[12, "data"].calibration
        == forecasts(unannounced)[12, "data"].calibration
    )


@pytest.mark.parametrize("models", [("calendar", "tft"), ("tft", "calendar")])
def test_another_model_takes_over_from_the_recorded_history(
    network: FakeNetwork, models: tuple[str, str]
) -> None:
    first, then = models
    now = [first]
    bus = MemoryBus(ManualClock(1000.0))
    bus.add(lambda: Service(ForecasterHandler(CLUSTER, now[0], 120, GRACE_S)))
    declare_apps(bus)
    backfill(bus)
    play(bus, 0, 9)
    bus.kill("forecaster")
    now[0] = then
    bus.start("forecaster")
    play(bus, 10, 24)
    served = [forecasts(bus)[tick, "data"].model.split("/")[0] for tick in (6, 24)]
    assert served == [first, then]
    assert network.rows, "the network ran on the recorded history alone"


def full_memory(rows: int) -> memory.ForecastMemory:
    """The memory of a network with all its scores stored."""
    draw = np.random.default_rng(0)
    found = memory.start(rows)
    state = found.calibration
    state.stored[:] = 400
    for array in (found.pending, found.errors, state.median, state.half, state.scale, state.actual):
        array[:] = draw.standard_normal(array.shape)
    state.recent[:] = draw.standard_normal(state.recent.shape)
    state.ordered[:] = np.sort(state.recent, axis=-1)
    return found


def progress(learned: memory.ForecastMemory) -> Progress:
    """Of a forecaster without apps."""
    recorded = np.zeros((1, len(learned.covered), LEAD_MIN), np.float32)
    return Progress(0, (), start_minutes(blank_observation(0), recorded), newest=0, learned=learned)


def test_compacted_progress_expands_bit_for_bit() -> None:
    before = full_memory(3)
    before.calibration.stored[0, 0, 0] = 10
    before.calibration.ordered[0, 0, 0, 10:] = 0.0
    before.calibration.ordered[0, 0, 0, :10] = np.sort(before.calibration.recent[0, 0, 0, :10])
    after = expanded(compact(progress(before))).learned
    assert after is not None
    np.testing.assert_equal(after.calibration._asdict(), before.calibration._asdict())
    np.testing.assert_equal(after._asdict(), before._asdict())


def test_progress_of_other_domains_or_models_is_refused() -> None:
    saved = compact(progress(full_memory(3)))
    check_progress(saved, 3)
    with pytest.raises(Refused, match="`domain`"):
        check_progress(saved, 4)
    other = full_memory(3)._replace(pending=np.zeros(1))
    with pytest.raises(Refused, match="`pending`"):
        check_progress(compact(progress(other)), 3)


def test_the_state_of_twelve_domains_fits_into_a_record_after_two_weeks() -> None:
    noise = np.random.default_rng(0).standard_normal((12, HISTORY_MINUTES))
    recent = RecentMinutes(1, (1000 * (1 + 0.05 * noise)).astype(np.float32))
    state = ForecasterState(recent, progress=progress(full_memory(12)))
    data = ForecasterHandler(CLUSTER, "calendar", 120, GRACE_S).save(state)
    assert len(zlib.compress(data, level=1)) < 0.9 * LARGEST_RECORD_BYTES


def test_a_missing_model_is_an_error_that_says_what_to_do(tmp_path: Any) -> None:
    own = Settings(model="tft", model_folder=str(tmp_path))
    with pytest.raises(InputError, match=f"{CARD}; train a model"):
        build_app(KitSettings(), own)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"model": "lstm"}, "model: expected one of"),
        ({"choice_margin_share": 0.02}, "at most the margin"),
        ({"choice_window_minutes": 1}, "choice_window_minutes"),
        ({"most_width_factor": 1.0}, "most_width_factor"),
    ],
)
def test_invalid_settings_are_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=complaint):
        msgspec.convert(given, Settings)


def test_settings_reach_the_model() -> None:
    own = Settings(choice_window_minutes=60, choice_margin_share=0.2, most_width_factor=3)
    learning = own.learning("")
    assert learning.settings.choosing.window_min == 60
    assert learning.settings.choosing.margin == 0.2
    assert learning.settings.calibration.most_factor == 3
    assert learning.settings.corrects


def test_metrics_show_which_model_serves_and_how_well() -> None:
    telemetry = Telemetry("forecaster", ManualClock())
    event = DemandForecast(
        tick=6,
        time=time_of(6),
        domain="data",
        model="calendar/1",
        valid_until_tick=36,
        horizons_minutes=[5, 15, 30],
        quantiles=[0.1, 0.5, 0.9],
        rps=[[50.0, 100.0, 150.0]] * 3,
        peak_rps=[150.0] * 3,
        calibration={"coverage_15": 0.75, "skill": -0.1},
        fallback_reason="simple-better",
        review_reason="look at it",
    )
    Metrics(telemetry)(event)
    shown = generate_latest(telemetry.registry).decode()
    for line in (
        'hirl_forecasts_total{domain="data",fallback="simple-better",model="calendar/1"} 1.0',
        'hirl_forecast_width_ratio{domain="data",horizon_min="30"} 1.0',
        'hirl_forecast_coverage_ratio{domain="data",horizon_min="15"} 0.75',
        'hirl_forecast_skill_ratio{domain="data"} -0.1',
        'hirl_forecast_reviews_total{domain="data"} 1.0',
    ):
        assert line in shown
