"""Every tick is published once and whole, or it is said that it was not."""

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
    MemoryOutlet,
    ScriptedSource,
    metrics,
    sampled,
)


async def no_sleep(_: float) -> None:
    return None


def collected(
    source: ScriptedSource, outlet: MemoryOutlet, after: int = -1
) -> tuple[CollectorRegistry, Coroutine[Any, Any, None]]:
    measures, registry = metrics()
    return registry, Collector(source, outlet, measures, sleep=no_sleep).run(after)


def run(source: ScriptedSource, outlet: MemoryOutlet, after: int = -1) -> CollectorRegistry:
    registry, running = collected(source, outlet, after)
    asyncio.run(running)
    return registry


def declared(outlet: MemoryOutlet) -> int:
    return sum(isinstance(event, AppDeclared) for event in outlet.published)


def test_ticks_are_published_in_order_after_the_inventory_and_remembered() -> None:
    source, outlet = ScriptedSource(sampled(0), None, sampled(1), END), MemoryOutlet()
    registry = run(source, outlet)
    assert isinstance(outlet.published[0], AppDeclared)
    assert outlet.ticks() == [0, 1]
    assert source.asked == [-1, 0, 0, 1]
    assert msgspec.json.decode(outlet.saved["scripted"], type=Progress).tick == 1
    assert registry.get_sample_value("hirl_collector_ticks_total") == 2
    assert registry.get_sample_value("hirl_collector_publish_seconds_count") == 2


def test_a_gap_after_a_restart_is_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    outlet = MemoryOutlet()
    with caplog.at_level(logging.WARNING):
        registry = run(ScriptedSource(sampled(9), END), outlet, after=5)
    assert "ticks 6 to 8 are lost" in caplog.text
    assert registry.get_sample_value("hirl_collector_skipped_ticks_total") == 3
    assert declared(outlet) == 2, "apps may have changed in the gap"


def test_the_first_tick_ever_is_no_gap(caplog: pytest.LogCaptureFixture) -> None:
    run(ScriptedSource(sampled(500), END), MemoryOutlet())
    assert "not seen" not in caplog.text


def test_a_tick_that_was_not_marked_as_done_is_published_again() -> None:
    outlet = MemoryOutlet()
    outlet.crash_at_save = True
    with pytest.raises(RuntimeError, match="crashed"):
        run(ScriptedSource(sampled(7)), outlet, after=6)
    outlet.crash_at_save = False
    run(ScriptedSource(sampled(7), END), outlet, after=6)
    assert outlet.ticks() == [7, 7]


def test_a_source_that_is_down_is_asked_again() -> None:
    down, outlet = SourceDown("no answer"), MemoryOutlet()
    registry = run(ScriptedSource(down, down, sampled(0), END), outlet)
    assert outlet.ticks() == [0]
    asked = {"question": "observation"}
    assert registry.get_sample_value("hirl_collector_errors_total", asked) == 2


def test_a_restarted_source_is_followed_from_its_first_tick() -> None:
    source, outlet = ScriptedSource(SourceRestarted("tick 3"), sampled(0), END), MemoryOutlet()
    run(source, outlet, after=40)
    assert source.asked == [40, -1, 0]
    assert declared(outlet) == 2


def test_samples_and_missing_ones_are_counted() -> None:
    registry = run(ScriptedSource(sampled(0), sampled(1, None), END), MemoryOutlet())
    domain = {"domain": "d"}
    assert registry.get_sample_value("hirl_collector_samples_total", domain) == 1
    missing = registry.get_sample_value("hirl_collector_missing_samples_total", domain)
    assert missing == 2 * len(MEASURED) - 1
