"""Whatever was saved, the collector starts."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from services._kit.settings import KitSettings
from services.collector import app
from services.collector.app import _tick_of, source_of
from services.collector.collect import NO_TICK
from services.collector.prometheus import PrometheusSource
from services.collector.settings import Settings

SMALLEST = Path("infra/examples/cluster.yaml")


@pytest.mark.parametrize(("saved", "tick"), [(b'{"tick":17}', 17), (b"", NO_TICK), (None, NO_TICK)])
def test_the_collector_continues_after_the_saved_tick(saved: bytes | None, tick: int) -> None:
    assert _tick_of(saved) == tick


@pytest.mark.parametrize(
    "saved",
    [b"{", b"17", b'{"tick":-2}', b'{"tick":1' + b"0" * 400 + b"}", b'"\xff"', b"[" * 100_000],
)
def test_a_forged_tick_is_not_believed_and_stops_nothing(saved: bytes) -> None:
    assert _tick_of(saved) == NO_TICK


def test_a_collector_that_stays_is_healthy_until_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    signs: list[float] = []

    async def pause(seconds: float) -> None:
        signs.append(seconds)
        if len(signs) == 100:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", pause)
    polled: list[None] = []
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(app.linger(-1, lambda: polled.append(None)))
    assert len(polled) == 100
    assert max(signs) < KitSettings().silence_seconds
    signs.clear()
    asyncio.run(app.linger(7, lambda: None))
    assert sum(signs) == 7
    asyncio.run(app.linger(0, pytest.fail))


def test_the_length_of_a_tick_is_that_of_the_cluster_file(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(SMALLEST.read_text() + "tick_seconds: 30\n")
    settings = Settings(source="prometheus", cluster=str(file))
    source = source_of(settings, cast(Any, None), lambda _: None)
    assert isinstance(source, PrometheusSource)
    assert source._timing.tick_s == 30
