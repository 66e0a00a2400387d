"""What the bus says about domains and apps, for the statuses of custom resources."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from aiokafka.errors import KafkaError

from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.codec import Malformed, decode
from schemas.fields import Event
from schemas.scale_applied import ScaleApplied
from schemas.topics import topic_of
from services._kit.kafka import Reader, TopicMissing
from services._kit.records import Delivery
from services._kit.settings import KitSettings

log = logging.getLogger(__name__)

_TOPICS: Final = tuple(topic_of(kind).name for kind in (BudgetGranted, BreakerChanged))
_AUDITS: Final = topic_of(ScaleApplied).name
"""From now on: a month of them is kept."""
_PAUSE_S: Final = 30.0


async def follow(kit: KitSettings, learn: Callable[[Event], None]) -> None:
    """Follow budgets, breakers and audits until cancelled; in an outage statuses stay."""
    while True:
        try:
            async with Reader(kit) as reader:
                async for delivery in reader.to_end(_TOPICS, following=[_AUDITS]):
                    _learn(delivery, learn)
                while True:
                    async for delivery in reader.next():
                        _learn(delivery, learn)
        except (KafkaError, TopicMissing, TimeoutError) as error:
            log.warning("statuses have no news from the bus for %.0f s: %r", _PAUSE_S, error)
            await asyncio.sleep(_PAUSE_S)


def _learn(delivery: Delivery, learn: Callable[[Event], None]) -> None:
    # Whoever decides by such a record dead-letters it.
    with suppress(Malformed):
        event = decode(delivery.topic, delivery.value, delivery.headers)
        if event is not None:
            learn(event)
