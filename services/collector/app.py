"""Builds and runs the process: a source, a producer, and the collector between them."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from math import inf
from pathlib import Path
from typing import Final, assert_never

import aiohttp
import msgspec

from schemas.app_declared import AppDeclared
from schemas.codec import Malformed, decode
from schemas.fields import Event
from schemas.metrics_sampled import PODS
from schemas.topics import state_topic, topic_of
from services._kit.broker import ending_in_one_line, wait_for_brokers
from services._kit.clock import SystemClock
from services._kit.http import MALFORMED, client_session
from services._kit.inventory import cluster_of
from services._kit.kafka import Reader
from services._kit.kubernetes.client import KubernetesApi
from services._kit.kubernetes.credentials import access_of
from services._kit.probes import serving
from services._kit.settings import KitSettings
from services._kit.telemetry import Telemetry
from services.collector import domain_news
from services.collector.collect import NO_TICK, Collector, Progress, Source
from services.collector.custom_resources import CustomResources
from services.collector.domains import DomainStore
from services.collector.kubernetes import USED, ClusterView, load_terms
from services.collector.metrics import Metrics
from services.collector.producer import TickProducer
from services.collector.prometheus import PrometheusSource, Timing
from services.collector.prometheus_api import Prometheus
from services.collector.queries import load_declared, named_queries
from services.collector.settings import SERVICE, Settings
from services.collector.simulated import SimulatedSource

_CALLS_PER_SECOND: Final = 20.0
_STATUS_CALLS_PER_SECOND: Final = 10.0
_PAUSE_S: Final = 5.0
"""Between two signs of life of a collector whose source has ended."""

log = logging.getLogger(__name__)


def source_of(
    settings: Settings, session: aiohttp.ClientSession, on_error: Callable[[str], None]
) -> Source:
    """Build the source that the settings name; mypy reports a name without a branch."""
    match settings.source:
        case "simulated":
            return SimulatedSource(session, settings.url)
        case "prometheus" | "kubernetes":
            return _measured(settings, session, on_error)
        case never:
            assert_never(never)


def _measured(
    settings: Settings, session: aiohttp.ClientSession, on_error: Callable[[str], None]
) -> Source:
    """Prometheus; with a view of the API server it has only what that does not know."""
    queries = named_queries(settings.queries)
    view, catch_up = None, settings.catch_up_ticks
    if settings.source == "kubernetes":
        known = {*PODS, *(USED if settings.usage == "metrics-api" else ())}
        queries, catch_up = queries.without(known), 0
        view = _view(settings, queries.ttl_seconds, on_error)
    return PrometheusSource(
        Prometheus(session, settings.url, settings.timeout_seconds),
        queries,
        load_declared(Path(settings.inventory)) if settings.inventory else None,
        SystemClock(),
        on_error,
        Timing(cluster_of(settings.cluster).tick_seconds, settings.settle_seconds, catch_up),
        cluster=view,
    )


def _view(settings: Settings, ttl_s: float, on_error: Callable[[str], None]) -> ClusterView:
    access, clock = access_of(settings.kubeconfig), SystemClock()
    # Calls of its own: many statuses at once must not delay samples.
    statuses = KubernetesApi(access, settings.timeout_seconds, _STATUS_CALLS_PER_SECOND)
    store = DomainStore(statuses, clock, settings.domains) if settings.domains else None
    return ClusterView(
        KubernetesApi(access, settings.timeout_seconds, _CALLS_PER_SECOND),
        clock,
        on_error,
        settings.pool_label,
        load_terms(Path(settings.pools)) if settings.pools else {},
        ttl_s,
        settings.usage == "metrics-api",
        CustomResources(statuses, clock, cluster_of(settings.cluster), on_error, store),
        settings.sizes,
    )


async def last_tick(kit: KitSettings, source: str) -> int:
    """The last completely published tick of a source; NO_TICK before the first."""
    # Compaction runs late, so an older record of the key may come first: the last one counts.
    found = NO_TICK
    async with Reader(kit) as reader:
        async for delivery in reader.to_end([state_topic(SERVICE)]):
            if delivery.key == source.encode():
                found = _tick_of(delivery.value)
    return found


async def declared_apps(kit: KitSettings) -> list[AppDeclared]:
    """What the inventory on the bus has, whoever declared it."""
    topic = topic_of(AppDeclared).name
    found: dict[bytes, Event | None] = {}
    async with Reader(kit) as reader:
        async for delivery in reader.to_end([topic]):
            # Services keep what they had of an app when a record cannot be read.
            with contextlib.suppress(Malformed):
                found[delivery.key] = decode(topic, delivery.value, delivery.headers)
    return [one for one in found.values() if isinstance(one, AppDeclared) and not one.removed]


def _tick_of(saved: bytes | None) -> int:
    # Operators remove the record to make the collector start again.
    if not saved:
        return NO_TICK
    try:
        return msgspec.json.decode(saved, type=Progress).tick
    except MALFORMED as error:
        log.warning("starting with the present tick: the saved one has a wrong form: %r", error)
        return NO_TICK


async def run(settings: Settings, kit: KitSettings) -> None:
    """Run until the source has ended or a signal arrives."""
    collecting = asyncio.create_task(collect(settings, kit))
    # A signal cancels the task. `Collector` still finishes the tick that it is publishing.
    loop = asyncio.get_running_loop()
    for stop in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(stop, collecting.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await collecting


async def collect(settings: Settings, kit: KitSettings) -> None:
    """Build everything, and collect until the source has ended."""
    telemetry = Telemetry(SERVICE, SystemClock(), kit.silence_seconds)
    metrics = Metrics(telemetry.registry)
    ready = partial(wait_for_brokers, kit, telemetry.health, SystemClock())
    producer = TickProducer(kit, ready)
    with _probes(kit, telemetry):
        async with client_session() as session:
            source = source_of(settings, session, lambda name: metrics.errors.labels(name).inc())
            await ready()
            with ending_in_one_line(kit):
                after = await last_tick(kit, source.name)
                if isinstance(source, PrometheusSource) and settings.source == "kubernetes":
                    source.recall(await declared_apps(kit))
            log.info("collecting from %s after tick %d", settings.url, after)
            await producer.start()
            news = asyncio.create_task(_news(settings, kit, source))
            # No reference data to follow and no group to join: connected means ready.
            telemetry.health.reference_read = telemetry.health.assigned = True
            try:
                health = telemetry.health
                await Collector(
                    source, producer, metrics, health.polled, drain_s=kit.drain_seconds
                ).run(after)
                await linger(settings.linger_seconds, health.polled)
            finally:
                news.cancel()
                await asyncio.gather(news, return_exceptions=True)
                await producer.stop()
                await source.close()


async def _news(settings: Settings, kit: KitSettings, source: Source) -> None:
    if isinstance(source, PrometheusSource) and settings.source == "kubernetes":
        await domain_news.follow(kit, source.learn)


async def linger(seconds: float, on_pause: Callable[[], None]) -> None:
    """Stay, and stay healthy, after the source has ended; negative: until cancelled."""
    left = inf if seconds < 0 else seconds
    while left > 0:
        on_pause()
        await asyncio.sleep(min(left, _PAUSE_S))
        left -= _PAUSE_S


def _probes(kit: KitSettings, telemetry: Telemetry) -> AbstractContextManager[int]:
    if kit.metrics_port < 0:
        return nullcontext(kit.metrics_port)
    return serving(telemetry, kit.metrics_host, kit.metrics_port)
