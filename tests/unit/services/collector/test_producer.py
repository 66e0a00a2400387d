"""What is not acknowledged is sent again, by a new producer and by it alone."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import KafkaError, KafkaTimeoutError, UnknownError

from services._kit.settings import KitSettings
from services.collector import producer as module
from services.collector.producer import TickProducer


class Sender:
    """The thread of kafka-python's producer that sends."""

    def __init__(self) -> None:
        self.forced = False

    def force_close(self) -> None:
        self.forced = True


class StuckProducer:
    """Records that expire in an outage; kafka-python then refuses to be closed at once."""

    def __init__(self, refusal: KafkaError, *, for_good: bool) -> None:
        self._sender = Sender()
        self._refusal = refusal
        self._for_good = for_good

    @property
    def sends_on(self) -> bool:
        return not self._sender.forced

    def send(self, *_: Any, **__: Any) -> "StuckProducer":
        return self

    def get(self, _: float) -> None:
        raise KafkaTimeoutError("Expiring 1 record(s)")

    def close(self, _: float) -> None:
        if self.sends_on or self._for_good:
            raise self._refusal


class WorkingProducer:
    """A broker that is back."""

    def __init__(self) -> None:
        self.sent = 0

    def send(self, *_: Any, **__: Any) -> "WorkingProducer":
        self.sent += 1
        return self

    def get(self, _: float) -> None:
        return None


async def nothing() -> None:
    return None


@pytest.mark.parametrize("for_good", [False, True])
@pytest.mark.parametrize(
    "refusal", [KafkaTimeoutError("Timeout waiting for future"), UnknownError("Future not done")]
)
def test_a_producer_that_refuses_to_be_closed_in_an_outage_does_not_end_the_collector(
    monkeypatch: pytest.MonkeyPatch, refusal: KafkaError, *, for_good: bool
) -> None:
    stuck, working = StuckProducer(refusal, for_good=for_good), WorkingProducer()
    producers: list[Any] = [stuck, working]
    connect: Callable[..., Any] = lambda **_: producers.pop(0)  # noqa: E731
    monkeypatch.setattr(module, "KafkaProducer", connect)
    monkeypatch.setattr(module, "_PAUSE_S", 0.0)
    producer = TickProducer(KitSettings(), nothing)
    asyncio.run(producer.save("scripted", b"{}", None))
    assert working.sent == 1
    # Its sender would go on to send old records, out of order.
    assert not stuck.sends_on
