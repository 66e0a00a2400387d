import io
import json
import logging
import re

from services._kit import logs
from services._kit.clock import ManualClock
from services._kit.telemetry import Telemetry
from tests.kit_example_helpers import granted, sampled


def test_a_service_is_ready_when_it_has_read_everything_and_has_partitions() -> None:
    health = Telemetry("soldier", ManualClock()).health
    assert health.missing() == "reference data is being read"
    health.reference_read = True
    assert health.missing() == "partitions are not assigned yet"
    health.assigned = True
    assert health.ready()


def test_a_service_that_stops_polling_is_unhealthy() -> None:
    clock = ManualClock()
    health = Telemetry("soldier", clock, silence_seconds=60.0).health
    clock.advance(61)
    assert not health.alive()
    health.polled()
    assert health.alive()


def test_metrics_have_our_prefix_and_base_units() -> None:
    telemetry = Telemetry("soldier", ManualClock())
    for metric in telemetry.registry.collect():
        assert re.fullmatch(r"hirl_[a-z_]+", metric.name)
        assert not re.search(r"_(ms|millis|mb|kb|minutes)$", metric.name)
        assert metric.documentation


def logging_to(formatter: logging.Formatter) -> tuple[logging.Logger, io.StringIO]:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(formatter)
    logger = logging.getLogger("services.test")
    logger.handlers[:] = [handler]
    logger.propagate = False
    return logger, out


def line_of(formatter: logging.Formatter) -> str:
    logger, out = logging_to(formatter)
    with logs.tracing(sampled("payments", 7)):
        logger.warning("held %s", "it", extra={"fields": {"reason": "stale"}})
    return out.getvalue()


def test_a_log_line_is_json_with_the_ids_of_the_event() -> None:
    line = json.loads(line_of(logs.JsonLines("soldier", "0")))
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "service": "soldier",
        "instance": "0",
        "logger": "services.test",
        "message": "held it",
        "domain": "payments",
        "tick": 7,
        "reason": "stale",
    }


def test_a_terminal_gets_lines_for_people() -> None:
    line = line_of(logs.Readable("soldier"))
    assert line.endswith("soldier: held it domain=payments tick=7 reason=stale\n")


def test_ids_are_those_of_the_innermost_event_and_gone_afterwards() -> None:
    with logs.tracing(sampled("a", 1)):
        with logs.tracing(granted("b", 2)):
            assert logs._ids.get()["domain"] == "b"
        assert logs._ids.get()["domain"] == "a"
    assert logs._ids.get({}) == {}


def test_exceptions_are_part_of_the_line() -> None:
    logger, out = logging_to(logs.JsonLines("soldier", "0"))
    try:
        int("text")
    except ValueError:
        logger.exception("failed")
    assert "ValueError" in json.loads(out.getvalue())["exception"]
