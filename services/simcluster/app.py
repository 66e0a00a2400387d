"""Builds and runs the process: a world, its HTTP API, its node requests and its pace."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from aiohttp import web

from models.inputs.errors import InputError
from models.sim.config.physics import (
    SCHEDULINGS,
    SimCluster,
    load_sim_cluster,
    with_apps,
    with_scheduling,
)
from models.sim.config.scenario import load_scenario
from models.sim.world import World
from services._kit.clock import SystemClock
from services._kit.errors import BadSettings
from services._kit.probes import serving
from services._kit.settings import KitSettings
from services._kit.telemetry import COMPILING, Telemetry
from services.simcluster.cluster import SimulatedCluster
from services.simcluster.feed import CapacityFeed, KafkaFeed, NoFeed
from services.simcluster.http import Api
from services.simcluster.live import LiveCluster, by_clock, lock_step
from services.simcluster.settings import AS_FILE, SERVICE, Settings

log = logging.getLogger(__name__)


def world_of(settings: Settings) -> World:
    """The configured world, before its first tick."""
    cluster = _load_cluster(settings)
    return World(cluster, load_scenario(settings.scenario, cluster), [settings.seed])


def _load_cluster(settings: Settings) -> SimCluster:
    cluster = load_sim_cluster(_path(settings.cluster), _path(settings.physics))
    if settings.apps:
        if settings.apps < len(cluster.domains):
            raise InputError(
                f"apps: expected at least {len(cluster.domains)}, one per domain,"
                f" got {settings.apps}"
            )
        cluster = with_apps(cluster, settings.apps)
    if settings.scheduling == AS_FILE:
        return cluster
    return with_scheduling(cluster, SCHEDULINGS[settings.scheduling])


def _path(name: str) -> Path | None:
    return Path(name) if name else None


def compile_kernels(world: World) -> None:
    """Take one tick and undo it, so that no client waits for a compiler."""
    before = world.save()
    world.observe()
    world.step(world.hold())
    world.restore(before)


def prepared_world(settings: Settings) -> World:
    """The world with its kernels compiled; until then the port answers probes, and nothing else."""
    telemetry = Telemetry(SERVICE, SystemClock())
    telemetry.health.preparing = COMPILING
    # Compiling takes minutes and would block every request, and these probes have a thread.
    with serving(telemetry, settings.host, settings.port):
        try:
            world = world_of(settings)
        except InputError as error:
            # The process then ends with one line and the status after which it isn't restarted.
            raise BadSettings(str(error)) from None
        compile_kernels(world)
        return world


def feed_of(settings: Settings, kit: KitSettings) -> CapacityFeed:
    """Kafka, if it is configured."""
    return KafkaFeed(kit) if settings.kafka else NoFeed()


async def serve(
    settings: Settings,
    kit: KitSettings,
    live: LiveCluster,
    feed: CapacityFeed,
    on_listening: Callable[[int], None] | None = None,
) -> None:
    """Serve until the scenario has ended, or until cancelled; `on_listening` gets the port."""
    # No access log: it would have a line per request and tick. A short shutdown timeout: don't wait
    # for clients in a long poll.
    runner = web.AppRunner(
        Api(live, lambda: feed.ready).application(), access_log=None, shutdown_timeout=1.0
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.host, settings.port).start()
        port = int(runner.addresses[0][1])
        log.info("simulated cluster at http://%s:%d", settings.host, port)
        if on_listening is not None:
            on_listening(port)
        # A group, so that a feed that fails ends the process: without node requests, lock-step
        # would wait for ever.
        async with asyncio.TaskGroup() as tasks:
            feeding = tasks.create_task(feed.run(live.request_capacity))
            await tasks.create_task(_pace(kit, live))
            await _linger(settings)
            # The feed has no end of its own, and the group waits for it.
            feeding.cancel()
    finally:
        await runner.cleanup()


def _pace(kit: KitSettings, live: LiveCluster) -> Coroutine[Any, Any, None]:
    return lock_step(live) if kit.lock_step else by_clock(live, kit.speed)


async def _linger(settings: Settings) -> None:
    # Clients fetch the results after they see the end of the scenario.
    log.info("the scenario ended")
    if settings.linger_seconds < 0:
        await asyncio.Event().wait()
    await asyncio.sleep(settings.linger_seconds)


async def run(settings: Settings, kit: KitSettings) -> None:
    """Run until the scenario has ended or a signal arrives."""
    if not settings.on_loopback:
        log.warning("%s is reachable from other machines without authentication", settings.host)
    world = prepared_world(settings)
    live = LiveCluster(SimulatedCluster(world))
    running = asyncio.create_task(serve(settings, kit, live, feed_of(settings, kit)))
    loop = asyncio.get_running_loop()
    # Cancelling lets the server and the consumer close; the default of SIGTERM would not.
    for stop in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(stop, running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await running
