"""A service waits for its brokers, quietly and for as long as it takes."""

import asyncio
import logging

import pytest
from aiokafka.errors import KafkaConnectionError, TopicAuthorizationFailedError

from services._kit import broker
from services._kit.broker import BrokerAway, ending_in_one_line, wait_for_brokers
from services._kit.clock import ManualClock
from services._kit.settings import KitSettings
from services._kit.telemetry import Health

SETTINGS = KitSettings(kafka_bootstrap="10.0.0.1:9092", kafka_allow_plaintext=True)


class Brokers:
    """Brokers that answer after a number of attempts; each attempt takes five seconds."""

    def __init__(self, clock: ManualClock, health: Health, refusals: int) -> None:
        self._clock, self._health, self.refusals = clock, health, refusals
        self.reasons: list[str] = []

    async def reach(self, settings: KitSettings) -> None:
        assert settings is SETTINGS
        self.reasons.append(self._health.missing())
        self._clock.advance(5)
        if self.refusals:
            self.refusals -= 1
            raise KafkaConnectionError("refused")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(broker, "LONGEST_PAUSE_S", 0.0)


def test_an_outage_is_logged_every_thirty_seconds_until_brokers_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    health = Health(clock)
    brokers = Brokers(clock, health, refusals=120)
    with caplog.at_level(logging.INFO):
        assert asyncio.run(wait_for_brokers(SETTINGS, health, clock, attempt=brokers.reach))
    assert len(caplog.messages) == 600 / broker.REMIND_S + 1
    assert not any(record.exc_info for record in caplog.records)
    assert "the brokers at 10.0.0.1:9092 answer again after 600 s" in caplog.messages[-1]
    assert "the brokers at 10.0.0.1:9092 do not answer (for 595 s)" in brokers.reasons[-1]
    assert health.outage == ""
    assert health.alive(), "a service that waits for its brokers must not be restarted"


def test_nothing_is_logged_if_brokers_answer_at_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    health = Health(clock)
    attempt = Brokers(clock, health, 0).reach
    with caplog.at_level(logging.INFO):
        assert asyncio.run(wait_for_brokers(SETTINGS, health, clock, attempt=attempt))
    assert caplog.messages == []


def test_a_service_that_waits_for_its_brokers_can_be_stopped() -> None:
    async def stopped() -> bool:
        clock, stop = ManualClock(), asyncio.Event()
        health = Health(clock)

        async def reach(settings: KitSettings) -> None:
            del settings
            stop.set()
            raise KafkaConnectionError("refused")

        return await wait_for_brokers(SETTINGS, health, clock, stop, attempt=reach)

    assert asyncio.run(stopped()) is False


def test_an_error_of_an_outage_ends_in_one_line() -> None:
    said = r"the brokers at 10.0.0.1:9092 do not answer .*refused"
    with pytest.raises(BrokerAway, match=said), ending_in_one_line(SETTINGS):
        raise KafkaConnectionError("refused")


def test_an_error_that_is_not_retriable_is_raised_unchanged() -> None:
    with pytest.raises(TopicAuthorizationFailedError), ending_in_one_line(SETTINGS):
        raise TopicAuthorizationFailedError("hirl.rejected.v1")
