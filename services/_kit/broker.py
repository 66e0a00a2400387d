"""Outages of the brokers: wait until one answers, and log the outage instead of every attempt.

A service waits for the brokers before it starts. During an outage it keeps running while its
clients retry. When an acknowledgement does not arrive in time, the process ends, and the next one
waits at its start. So an outage of any length costs at most one restart, and what was not
acknowledged is delivered again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError

from services._kit.clock import Clock
from services._kit.errors import Unprepared
from services._kit.kafka import connection
from services._kit.settings import KitSettings
from services._kit.telemetry import Health

log = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 5.0
"""Longest pause between two attempts, so also the longest delay after the brokers are back."""
REMIND_S: Final = 30.0
"""Between two log lines about the same outage."""
_ATTEMPT_MS: Final = 5000

Reach = Callable[[KitSettings], Awaitable[None]]
"""Raises KafkaError if no broker answers."""


class BrokerAway(Unprepared):
    """No broker answers; the next process waits for them."""

    def __init__(self, settings: KitSettings, error: BaseException) -> None:
        super().__init__(
            f"the brokers at {settings.kafka_bootstrap} do not answer ({error!r:.200}): "
            "the process restarts and waits for them"
        )


class Outage:
    """Logs one outage: a line when it begins, reminders, and a line when it ends."""

    def __init__(self, settings: KitSettings, health: Health, clock: Clock) -> None:
        self._bootstrap = settings.kafka_bootstrap
        self._health, self._clock = health, clock
        self._since: float | None = None
        self._logged_at = 0.0

    def failed(self, error: BaseException) -> None:
        """Record that no broker answered just now."""
        now = self._clock.now()
        since = now if self._since is None else self._since
        text = f"the brokers at {self._bootstrap} do not answer (for {now - since:.0f} s)"
        self._health.outage = f"{text}: {error!r:.200}"
        if self._since is None or now - self._logged_at >= REMIND_S:
            log.warning("%s, waiting for them: %r", text, error)
            self._logged_at = now
        self._since = since

    def answered(self) -> None:
        """Record that a broker answered just now."""
        if self._since is not None:
            waited = self._clock.now() - self._since
            log.info("the brokers at %s answer again after %.0f s", self._bootstrap, waited)
        self._since, self._health.outage = None, ""


async def reach(settings: KitSettings) -> None:
    """Ask the bootstrap brokers for the cluster's metadata."""
    client = AIOKafkaClient(
        **connection(settings), client_id="hirl-reach", request_timeout_ms=_ATTEMPT_MS
    )
    try:
        await client.bootstrap()
    finally:
        await client.close()


async def wait_for_brokers(
    settings: KitSettings,
    health: Health,
    clock: Clock,
    stop: asyncio.Event | None = None,
    attempt: Reach = reach,
) -> bool:
    """Return True as soon as a broker answers, False if `stop` is set before."""
    outage, pause, stop = Outage(settings, health, clock), FIRST_PAUSE_S, stop or asyncio.Event()
    while not stop.is_set():
        # Keep the liveness probe green: a restart would not bring the brokers back.
        health.polled()
        try:
            await attempt(settings)
        except (KafkaError, OSError) as error:
            outage.failed(error)
        else:
            outage.answered()
            return True
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)
    return False


@contextmanager
def ending_in_one_line(settings: KitSettings) -> Iterator[None]:
    """Turn errors of an outage into BrokerAway: they need no traceback."""
    try:
        yield
    except KafkaError as error:
        if not error.retriable:
            raise
        raise BrokerAway(settings, error) from error
