"""Saved states of services: read one, and order a service to drop one."""

import getpass
import uuid
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import numpy as np
from kafka.errors import KafkaError

from models.inputs.errors import InputError
from schemas.codec import encode
from schemas.state_reset import StateReset
from schemas.topics import state_topic, topic_of
from services._kit.clock import rfc3339
from services._kit.errors import Refused
from services._kit.kafka import state_record_of
from services._kit.kafka_python import KafkaProducer
from services._kit.state_codec import parts_of
from services._kit.state_records import FoundStates
from services.admin.desired import STATEFUL
from services.admin.reader import TopicReader

RESETTABLE: Final = topic_of(StateReset).consumers
"""Services that obey an order."""
_SHOWN: Final = 4
"""Elements of an array or a list that are shown."""
_TIMEOUT_S: Final = 15.0
_UNREADABLE: Final = (
    msgspec.DecodeError, LookupError, TypeError, ValueError, RecursionError, Refused,
)  # fmt: skip
"""What decoding raises on bytes that a service would refuse."""


def read_state(options: dict[str, Any], service: str, key: str) -> bytes:
    """The newest saved bytes of a key; raises InputError with what to do if there are none."""
    if service not in STATEFUL:
        raise InputError(f"{service}: expected one of {', '.join(STATEFUL)}")
    found = FoundStates()
    with TopicReader(options) as reader:
        for one in reader.read_to_end([state_topic(service)]):
            found.add(one.delivery.key.decode(errors="replace"), state_record_of(one.delivery))
    if key not in found:
        known = sorted(found)
        saved = f"it has {', '.join(known)}" if known else "it has none"
        raise InputError(f"{service} has no saved state of {key}: {saved}")
    try:
        return found.join(key)
    except Refused as error:
        raise InputError(f"{error.detail}: the service starts {key} over") from None


def decoded(data: bytes) -> Any:
    """A saved state as mappings and plain values."""
    try:
        return parts_of(data)
    except _UNREADABLE:
        pass
    try:
        return msgspec.json.decode(data)  # the collector's
    except _UNREADABLE as error:
        raise InputError(f"the saved state has a wrong form: {error!s:.200}") from None


def abbreviated(value: Any) -> Any:
    """The same, with arrays and long lists cut to their first elements."""
    if isinstance(value, np.ndarray):
        first = [abbreviated(one) for one in value.ravel()[:_SHOWN].tolist()]
        more = ["..."] * (value.size > _SHOWN)
        return {"array": f"{value.dtype} {value.shape}", "first": [*first, *more]}
    if isinstance(value, Mapping):
        return {str(name): abbreviated(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        first = [abbreviated(one) for one in value[:_SHOWN]]
        return [*first, f"... {len(value)} in all"] if len(value) > _SHOWN else first
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value


def issuer(options: dict[str, Any]) -> str:
    """Author of an order: the authenticated user, else the user of this machine."""
    user = options.get("sasl_plain_username")
    return str(user) if user else f"{getpass.getuser()} (not authenticated)"


def order_reset(
    options: dict[str, Any], service: str, key: str, reason: str, date: float
) -> StateReset:
    """Publish the order; returns when the brokers have it."""
    if service not in RESETTABLE:
        raise InputError(f"{service}: expected one of {', '.join(RESETTABLE)}")
    if not reason.strip():
        raise InputError("--reason: expected why the state is dropped, for the audit")
    order = StateReset(
        state=f"{service}/{key}",
        id=uuid.uuid4().hex,
        reason=reason,
        issued_by=issuer(options),
        issued_at=rfc3339(date),
    )
    try:
        producer = KafkaProducer(**options, acks="all")
        try:
            for record in encode(order, "operator"):
                sent = producer.send(
                    record.topic, record.value, key=record.key, headers=list(record.headers)
                )
                sent.get(timeout=_TIMEOUT_S)
        finally:
            producer.close()
    except KafkaError as error:
        topic = topic_of(order).name
        raise InputError(f"cannot write to {topic} ({error}): may this user?") from None
    return order
