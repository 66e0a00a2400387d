"""Every tick is published whole, or reported as lost."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from schemas.app_declared import AppDeclared
from schemas.metrics_sampled import MEASURED
from services.collector.collect import Collector, Progress, SourceDown, SourceRestarted
from tests.unit.services.collector.collector_helpers import (
    END,
    MemoryWriter,
    ScriptedSource,
    metrics,
    sampled,
)


async def no_sleep(_: float) -> None:
    return None


def collected(
    source: ScriptedSource, writer: MemoryWriter, after: int = -1
) -> tuple[CollectorRegistry, Coroutine[Any, Any, None]]:
    measures, registry = metrics()
    return registry, Collector(source, writer, measures, sleep=no_sleep).run(after)


def run(source: ScriptedSource, writer: MemoryWriter, after: int = -1) -> CollectorRegistry:
    registry, running = collected(source, writer, after)
    asyncio.run(running)
    return registry


def declared(writer: MemoryWriter) -> int:
    return sum(isinstance(event, AppDeclared) for event in writer.published)


def test_ticks_are_published_in_order_after_the_inventory_and_saved() -> None:
    source, writer = ScriptedSource(sampled(0), None, sampled(1), END), MemoryWriter()
    registry = run(source, writer)
    assert isinstance(writer.published[0], AppDeclared)
    assert writer.ticks() == [0, 1]
    assert source.asked == [-1, 0, 0, 1]
    assert msgspec.json.decode(writer.saved["scripted"], type=Progress).tick == 1
    assert registry.get_sample_value("hirl_collector_ticks_total") == 2
    assert registry.get_sample_value("hirl_collector_publish_seconds_count") == 2


def test_a_gap_after_a_restart_is_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    writer = MemoryWriter()
    with caplog.at_level(logging.WARNING):
        registry = run(ScriptedSource(sampled(9), END), writer, after=5)
    assert "ticks 6 to 8 are lost" in caplog.text
    assert registry.get_sample_value("hirl_collector_skipped_ticks_total") == 3
    assert declared(writer) == 2, "apps may have changed in the gap"


def test_the_first_tick_is_not_a_gap(caplog: pytest.LogCaptureFixture) -> None:
    registry = run(ScriptedSource(sampled(500), END), MemoryWriter())
    assert "are lost" not in caplog.text
    assert registry.get_sample_value("hirl_collector_skipped_ticks_total") == 0


def test_a_tick_that_was_not_marked_as_done_is_published_again() -> None:
    writer = MemoryWriter()
    writer.crash_at_save = True
    with pytest.raises(RuntimeError, match="crashed"):
        run(ScriptedSource(sampled(7)), writer, after=6)
    writer.crash_at_save = False
    run(ScriptedSource(sampled(7), END), writer, after=6)
    assert writer.ticks() == [7, 7]


def test_a_source_that_is_down_is_queried_again() -> None:
    down, writer = SourceDown("no answer"), MemoryWriter()
    registry = run(ScriptedSource(down, down, sampled(0), END), writer)
    assert writer.ticks() == [0]
    asked = {"question": "observation"}
    assert registry.get_sample_value("hirl_collector_errors_total", asked) == 2


@pytest.mark.parametrize("repeated", [5, 3])
def test_an_answer_about_a_tick_that_was_published_is_asked_for_again(repeated: int) -> None:
    source, writer = ScriptedSource(sampled(repeated), sampled(6), END), MemoryWriter()
    registry = run(source, writer, after=5)
    assert (writer.ticks(), source.asked) == ([6], [5, 5, 6])
    asked = {"question": "observation"}
    assert registry.get_sample_value("hirl_collector_errors_total", asked) == 1


def test_a_restarted_source_is_followed_from_its_first_tick() -> None:
    source, writer = ScriptedSource(SourceRestarted("tick 3"), sampled(0), END), MemoryWriter()
    run(source, writer, after=40)
    assert source.asked == [40, -1, 0]
    assert declared(writer) == 2


def test_samples_and_missing_ones_are_counted() -> None:
    registry = run(ScriptedSource(sampled(0), sampled(1, None), END), MemoryWriter())
    domain = {"domain": "d"}
    assert registry.get_sample_value("hirl_collector_samples_total", domain) == 1
    missing = registry.get_sample_value("hirl_collector_missing_samples_total", domain)
    assert missing == 2 * len(MEASURED) - 1
