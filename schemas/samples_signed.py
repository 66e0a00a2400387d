"""Samples of an agent, signed with the key of its domain.

Kafka does not tell a reader who wrote a record, and its ACLs know topics, not keys of records. So
an agent proves with a signature that it belongs to the domain whose samples it sends.
"""

from hashlib import sha256
from hmac import HMAC
from typing import Annotated

import msgspec

from schemas.fields import Event, Name, about
from schemas.metrics_sampled import MetricsSampled


class SamplesSigned(Event, frozen=True, kw_only=True):
    """A batch of samples of single pods, as text, with its signature.

    The batch has neither `final` nor columns from the API server: those are the collector's.
    """

    domain: Annotated[Name, about("Domain of the sampled pods, the same as in the batch.")]
    agent: Annotated[str, about("Name of the agent, for people.")] = ""
    batch: Annotated[str, about("A `MetricsSampled` event as JSON, exactly as it was signed.")]
    signature: Annotated[
        str, about("HMAC-SHA-256 of the batch in UTF-8, with the key of the domain, in hex.")
    ]


def signed(batch: MetricsSampled, agent: str, key: bytes) -> SamplesSigned:
    """A batch as its agent sends it."""
    text = msgspec.json.encode(batch).decode()
    return SamplesSigned(
        domain=batch.domain, agent=agent, batch=text, signature=signature_of(text, key)
    )


def signature_of(batch: str, key: bytes) -> str:
    """The signature of a batch."""
    return HMAC(key, batch.encode(), sha256).hexdigest()
