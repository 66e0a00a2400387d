"""The start and the end of every process: settings, logs, probes, the bus, the exit status."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from services._kit import logs, probes
from services._kit.clock import SystemClock
from services._kit.handler import Handler, Service
from services._kit.settings import BadSettings, KitSettings, T, Unprepared, load
from services._kit.telemetry import Telemetry

log = logging.getLogger(__name__)

Build = Callable[[KitSettings, T], Service[Any] | Handler[Any]]


def run(name: str, build: Build[T], own: type[T], arguments: Sequence[str] | None = None) -> int:
    """Run a service until SIGTERM; the exit status. The one argument is a file with settings."""
    given = sys.argv[1:] if arguments is None else list(arguments)

    def work() -> None:
        settings, mine = load(name, own, os.environ, given[0] if given else None)
        logs.set_up(name, settings.instance, settings.log_level)
        asyncio.run(_serve(_service(build(settings, mine)), settings))

    return guarded(name, work)


def guarded(name: str, work: Callable[[], None]) -> int:
    """The exit status of a process whose whole life is `work`.

    Bad settings are one line and status 2. Status 1 is for a failure, with its traceback in the
    log unless a line says all: whoever supervises the process starts it again.
    """
    try:
        work()
    except BadSettings as error:
        print(f"hirl-{name}: {error}", file=sys.stderr)  # noqa: T201  for whoever started it
        return 2
    except Unprepared as error:
        log.error("%s stops: %s", name, error)  # noqa: TRY400  nothing is wrong with the code
        return 1
    except Exception:
        log.exception("%s stops", name)
        return 1
    log.info("%s is done", name)
    return 0


async def _serve(service: Service[Any], settings: KitSettings) -> None:
    clock = SystemClock()
    telemetry = Telemetry(service.handler.name, clock, settings.silence_seconds)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if settings.metrics_port < 0:
        await _work(service, settings, telemetry, stop)
        return
    with probes.serving(telemetry, settings.metrics_host, settings.metrics_port) as port:
        log.info("metrics at http://%s:%d/metrics", settings.metrics_host, port)
        await _work(service, settings, telemetry, stop)


async def _work(
    service: Service[Any], settings: KitSettings, telemetry: Telemetry, stop: asyncio.Event
) -> None:
    # Kafka's clients are loaded here, so that a handler on the memory bus does without them.
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
