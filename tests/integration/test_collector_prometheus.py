"""A real Prometheus scrapes the simulated cluster's exporter, and the collector queries it."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Literal

import aiohttp
import msgspec
import numpy as np
import pytest
from aiohttp.test_utils import TestServer

from models.cluster import rows
from models.sim.config.events import MetricsOutage, Target
from models.sim.config.physics import load_sim_cluster, with_apps
from models.sim.config.scenario import Scenario
from models.sim.state import SAMPLE_RING
from models.sim.world import World
from schemas.app_declared import AppDeclared
from schemas.metrics_sampled import MEASURED, MetricsSampled
from services._kit.clock import SystemClock
from services.collector.collect import Observed
from services.collector.prometheus import PrometheusSource, Timing
from services.collector.prometheus_api import Prometheus
from services.collector.queries import Declared, load_queries
from services.devcluster import prometheus as prometheus_server
from services.devcluster.prometheus import Server
from services.simcluster.app import compile_kernels
from services.simcluster.cluster import SimulatedCluster
from services.simcluster.http import Api
from services.simcluster.live import LiveCluster, by_clock

WINDOW_S = 6
QUERIES = msgspec.structs.replace(load_queries(), window_seconds=WINDOW_S, ttl_seconds=3)
BLIND = "fraud"
BLIND_FROM_S = 15


def one_second_ticks() -> World:
    """A world with ticks of 1 s instead of 10 s, so that the test doesn't take minutes."""
    cluster = with_apps(load_sim_cluster(), 20)
    physics = msgspec.structs.replace(
        cluster.physics,
        metrics=msgspec.structs.replace(
            cluster.physics.metrics, lag_s=1, window_s=WINDOW_S, hpa_lag_s=3
        ),
        churn=msgspec.structs.replace(cluster.physics.churn, restart_s=3),
        pod_stop=msgspec.structs.replace(cluster.physics.pod_stop, grace_s=2),
    )
    cluster = msgspec.structs.replace(cluster, tick_seconds=1, physics=physics)
    pipelines: tuple[Literal["exporter", "kubelet"], ...] = ("exporter", "kubelet")
    outages = tuple(
        MetricsOutage(
            name=f"blind-{pipeline}",
            target=Target(domains=(BLIND,)),
            pipeline=pipeline,
            at_minute=BLIND_FROM_S / 60,
            length_minutes=3,
        )
        for pipeline in pipelines
    )
    scenario = Scenario(
        name="scraped", shows="An outage.", start="Tue 10:00", length_minutes=3,
        warmup_minutes=0, events=outages,
    )  # fmt: skip
    return World(cluster, scenario, [5])


class Watched(LiveCluster):
    """Keeps the true samples of the last ticks."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        super().__init__(cluster)
        self.truth: deque[np.ndarray] = deque(maxlen=WINDOW_S + 2)

    def advance(self) -> None:
        super().advance()
        world = self.cluster.world
        self.truth.append(world.state.samples[0, (world.tick - 1) % SAMPLE_RING].copy())


def config(target: str) -> str:
    return (
        "global: {scrape_interval: 1s, scrape_timeout: 900ms}\n"
        "scrape_configs:\n"
        f"- {{job_name: simulated, static_configs: [{{targets: ['{target}']}}]}}\n"
    )


def source_of(
    session: aiohttp.ClientSession, url: str, apps: list[AppDeclared]
) -> tuple[PrometheusSource, list[str]]:
    errors: list[str] = []
    timing = Timing(tick_s=1, settle_s=1.0, catch_up_ticks=0)
    server = Prometheus(session, url, 5.0)
    declared = Declared(apps=apps)
    return (
        PrometheusSource(server, QUERIES, declared, SystemClock(), errors.append, timing),
        errors,
    )


async def scrape(
    live: Watched, start_prometheus: Callable[[str], Server]
) -> tuple[Observed, list[np.ndarray], Observed, list[str]]:
    """Observations before and during the outage, with the true samples around the first."""
    async with (
        TestServer(Api(live, lambda: True).application()) as exporter,
        aiohttp.ClientSession() as session,
    ):
        prometheus = await asyncio.to_thread(start_prometheus, config(f"127.0.0.1:{exporter.port}"))
        source, errors = source_of(session, prometheus.url, live.cluster.inventory())
        pacing = asyncio.create_task(by_clock(live, 1.0))
        await live.newer_than(BLIND_FROM_S - 3)
        before, truth = await observe(source, -1), list(live.truth)
        await live.newer_than(BLIND_FROM_S + WINDOW_S + 2)
        during = await observe(source, -1)
        pacing.cancel()
        return before, truth, during, errors


async def observe(source: PrometheusSource, after: int) -> Observed:
    observed = await source.observe(after)
    assert observed is not None
    return observed


def column(observed: Observed, name: str) -> dict[str, float | None]:
    return {
        app: value
        for batch in observed.events
        if isinstance(batch, MetricsSampled)
        for app, value in zip(batch.apps, getattr(batch, name), strict=True)
    }


def test_collected_samples_agree_with_the_world_and_an_outage_is_null(
    start_prometheus: Callable[[str], Server],
) -> None:
    world = one_second_ticks()
    compile_kernels(world)
    live = Watched(SimulatedCluster(world))
    before, truth, during, errors = asyncio.run(scrape(live, start_prometheus))
    names = live.cluster.names
    assert errors == []
    for name, row in (("rps", rows.RPS), ("cpu_cores", rows.CPU)):
        lowest, highest = np.min(truth, axis=0)[row], np.max(truth, axis=0)[row]
        found = column(before, name)
        assert len(found) == len(names)
        for app, low, high in zip(names, lowest, highest, strict=True):
            value = found[app]
            # Prometheus computes rates between scrapes, which don't coincide with ticks.
            assert value is not None, (name, app)
            assert 0.75 * low - 0.01 <= value <= 1.3 * high + 0.01, (name, app, low, value, high)
    assert all(None not in column(before, name).values() for name in MEASURED if name != "errors")
    replicas = column(before, "replicas")
    assert [replicas[app] for app in names] == world.state.status[0, rows.REPLICAS].tolist()
    blind = {app for app in names if app.startswith(BLIND)}
    for name in ("rps", "cpu_cores", "memory_gib", "latency_p99_s"):
        silent = {app for app, value in column(during, name).items() if value is None}
        assert silent >= blind, name
        assert len(silent) < len(names) / 2, name
    assert set(column(during, "replicas")) == set(names), "the API server still answers"


def test_a_real_prometheus_accepts_every_default_query(
    start_prometheus: Callable[[str], Server],
) -> None:
    """Answers are empty here; only a query that can't be parsed is an error."""

    async def ask(url: str) -> list[str]:
        async with aiohttp.ClientSession() as session:
            source, errors = source_of(session, url, [])
            await observe(source, -1)
            await source.history()
            return errors

    server = start_prometheus("global: {scrape_interval: 1s}\n")
    assert asyncio.run(ask(server.url)) == []


def test_a_query_with_an_error_is_counted_and_its_samples_are_missing(
    start_prometheus: Callable[[str], Server],
) -> None:
    server = start_prometheus("global: {scrape_interval: 1s}\n")

    async def ask() -> tuple[Observed, list[str]]:
        async with aiohttp.ClientSession() as session:
            app = AppDeclared(app="api", domain="shop", ordinal=0)
            source, errors = source_of(session, server.url, [app])
            rps = msgspec.structs.replace(QUERIES.queries["rps"], query="sum(")
            source._queries = msgspec.structs.replace(QUERIES, queries={"rps": rps})
            return await observe(source, -1), errors

    observed, errors = asyncio.run(ask())
    assert errors == ["rps"]
    assert column(observed, "rps") == {"api": None}


@pytest.mark.parametrize("ticks", [3])
def test_every_tick_is_published_after_prometheus_died(
    start_prometheus: Callable[[str], Server], ticks: int
) -> None:
    server = start_prometheus("global: {scrape_interval: 1s}\n")

    async def ask() -> list[Observed]:
        async with aiohttp.ClientSession() as session:
            app = AppDeclared(app="api", domain="shop", ordinal=0)
            source, _ = source_of(session, server.url, [app])
            seen = [await observe(source, -1)]
            await asyncio.to_thread(prometheus_server.stop, server)
            for _ in range(ticks):
                seen.append(await observe(source, seen[-1].tick))
            return seen

    seen = asyncio.run(ask())
    assert all(column(observed, "rps") == {"api": None} for observed in seen)
