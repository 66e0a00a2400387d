"""Entry point of every service process: settings, logs, probes, bus, exit status."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from services._kit import logs
from services._kit.clock import SystemClock
from services._kit.errors import BadSettings, Unprepared
from services._kit.handler import Handler, Service
from services._kit.probes import serving
from services._kit.settings import KitSettings, T, load
from services._kit.telemetry import Telemetry
from services._kit.watched import Watched

log = logging.getLogger(__name__)

Build = Callable[[KitSettings, T], Service[Any] | Handler[Any]]


def run(name: str, build: Build[T], own: type[T], arguments: Sequence[str] | None = None) -> int:
    """Run a service until SIGTERM; returns the exit status. The argument is a settings file."""
    given = sys.argv[1:] if arguments is None else list(arguments)

    def work() -> None:
        settings, mine = load(name, own, os.environ, given[0] if given else None)
        logs.set_up(name, settings.instance, settings.log_level)
        # Before they are used: a change in between must not be missed.
        domains = Watched(settings.domains)
        asyncio.run(_serve(_service(build(settings, mine)), settings, domains))

    return guarded(name, work)


def guarded(name: str, work: Callable[[], None]) -> int:
    """Run `work` as a whole process; returns the exit status.

    Bad settings give one line and status 2. Any other failure gives status 1 with a traceback in
    the log, except where one line says everything; the supervisor restarts the process.
    """
    try:
        work()
    except BadSettings as error:
        line = logs.without_userinfo(f"hirl-{name}: {error}")
        print(line, file=sys.stderr)  # noqa: T201  to the operator
        return 2
    except Unprepared as error:
        log.error("%s stops: %s", name, error)  # noqa: TRY400  nothing is wrong with the code
        return 1
    except Exception:
        log.exception("%s stops after an error", name)
        return 1
    log.info("%s stopped", name)
    return 0


async def _serve(service: Service[Any], settings: KitSettings, domains: Watched) -> None:
    clock = SystemClock()
    telemetry = Telemetry(service.handler.name, clock, settings.silence_seconds)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    watching = asyncio.create_task(domains.changed(stop))
    try:
        await _probed(service, settings, telemetry, stop)
    finally:
        watching.cancel()


async def _probed(
    service: Service[Any], settings: KitSettings, telemetry: Telemetry, stop: asyncio.Event
) -> None:
    if settings.metrics_port < 0:
        await _work(service, settings, telemetry, stop)
        return
    with serving(telemetry, settings.metrics_host, settings.metrics_port) as port:
        log.info("metrics at http://%s:%d/metrics", settings.metrics_host, port)
        await _work(service, settings, telemetry, stop)


async def _work(
    service: Service[Any], settings: KitSettings, telemetry: Telemetry, stop: asyncio.Event
) -> None:
    # Imported here so that services on the memory bus do not load Kafka clients.
    from services._kit.worker import Worker  # noqa: PLC0415

    worker = Worker(service, settings, SystemClock(), telemetry)
    if settings.adapter == "plain":
        from services._kit.plain import PlainGroup  # noqa: PLC0415

        await worker.run(PlainGroup(worker), stop)
    else:
        from services._kit.faust_app import FaustGroup  # noqa: PLC0415

        await worker.run(FaustGroup(worker), stop)


def _service(built: Service[Any] | Handler[Any]) -> Service[Any]:
    return built if isinstance(built, Service) else Service(built)
