import re

from services._kit.clock import ManualClock
from services._kit.telemetry import COMPILING, Telemetry


def test_a_service_is_ready_when_it_has_read_everything_and_has_partitions() -> None:
    health = Telemetry("soldier", ManualClock()).health
    assert health.missing() == "reference data is being read"
    health.reference_read = True
    assert health.missing() == "partitions are not assigned yet"
    health.assigned = True
    assert health.ready()


def test_an_outage_is_why_a_service_is_not_ready() -> None:
    health = Telemetry("soldier", ManualClock()).health
    health.reference_read = health.assigned = True
    health.outage = "the brokers do not answer"
    assert health.missing() == "the brokers do not answer"


def test_a_service_that_stops_polling_is_unhealthy() -> None:
    clock = ManualClock()
    health = Telemetry("soldier", clock, silence_seconds=60.0).health
    clock.advance(61)
    assert not health.alive()
    health.polled()
    assert health.alive()


def test_a_service_that_compiles_is_alive_however_long_and_says_that_it_compiles() -> None:
    clock = ManualClock()
    health = Telemetry("soldier", clock, silence_seconds=60.0).health
    health.preparing = COMPILING
    clock.advance(600)
    assert health.alive()
    assert health.missing() == COMPILING


def test_metrics_have_our_prefix_and_base_units() -> None:
    telemetry = Telemetry("soldier", ManualClock())
    for metric in telemetry.registry.collect():
        assert re.fullmatch(r"hirl_[a-z_]+", metric.name)
        assert not re.search(r"_(ms|millis|mb|kb|minutes)$", metric.name)
        assert metric.documentation
