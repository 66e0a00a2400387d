"""The AsyncAPI 3.0 document: topics, their messages, and which services send and receive them.

https://www.asyncapi.com/docs/reference/specification/v3.0.0, with the Kafka binding 0.5.0.
"""

from collections.abc import Sequence
from typing import Any, Final

from schemas.cloudevents import JSON_TYPE, SPECVERSION
from schemas.codec import LIMIT_BYTES
from schemas.topics import ANY, Topic

VERSION: Final = "0.1.0"
"""Version of the contract: the newest folder in `released/`."""
_BINDING: Final = "0.5.0"
_DESCRIPTION: Final = (
    "Events of HiRL-Scale on Kafka: JSON with CloudEvents attributes in the headers (binary mode). "
    "Changes are FULL_TRANSITIVE compatible; readers ignore unknown fields. "
    "An event that is too large for one record is split into numbered parts."
)

Document = dict[str, Any]


def document(topics: Sequence[Topic]) -> Document:
    """Build the document, in the order in which data flows."""
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "HiRL-Scale", "version": VERSION, "description": _DESCRIPTION},
        "defaultContentType": JSON_TYPE,
        "servers": {"kafka": _server()},
        "channels": {topic.event.__name__: _channel(topic) for topic in topics},
        "operations": {name: op for topic in topics for name, op in _operations(topic).items()},
        "components": {
            "messages": {topic.event.__name__: _message(topic) for topic in topics},
            "schemas": {"Headers": _headers()},
        },
    }


def _server() -> Document:
    return {
        "host": "{bootstrap}",
        "protocol": "kafka-secure",
        "description": "Your own cluster. The local development cluster has no TLS.",
        "variables": {"bootstrap": {"default": "localhost:9092"}},
    }


def _channel(topic: Topic) -> Document:
    name = topic.event.__name__
    return {
        "address": topic.name,
        "description": topic.about,
        "messages": {name: _reference("components", "messages", name)},
        "bindings": {
            "kafka": {
                "topic": topic.name,
                "partitions": topic.partitions,
                "topicConfiguration": _configuration(topic),
                "bindingVersion": _BINDING,
            }
        },
    }


def _configuration(topic: Topic) -> Document:
    if topic.cleanup == "compact":
        # Retention has no effect on a compacted topic, so don't document any.
        return {"cleanup.policy": ["compact"]}
    return {"cleanup.policy": ["delete"], "retention.ms": topic.retention_ms}


def _operations(topic: Topic) -> dict[str, Document]:
    # AsyncAPI describes one application; this document has all, so names begin with the service.
    sends = {
        f"{_named(service)}.send.{topic.event.__name__}": "send" for service in topic.producers
    }
    receives = {
        f"{_named(service)}.receive.{topic.event.__name__}": "receive"
        for service in topic.consumers
    }
    return {name: _operation(topic, name, action) for name, action in (sends | receives).items()}


def _operation(topic: Topic, name: str, action: str) -> Document:
    event = topic.event.__name__
    return {
        "action": action,
        "channel": _reference("channels", event),
        "tags": [{"name": name.partition(".")[0]}],
        "messages": [_reference("channels", event, "messages", event)],
    }


def _named(service: str) -> str:
    return "any" if service == ANY else service


def _message(topic: Topic) -> Document:
    key = f"`{topic.key}` of the event" if topic.key else "none"
    return {
        "name": topic.event.__name__,
        "title": topic.about.rstrip("."),
        "contentType": JSON_TYPE,
        "headers": _reference("components", "schemas", "Headers"),
        "payload": {"$ref": f"./json/{topic.name}.json"},
        "correlationId": {"location": "$message.payload#/trace_id"},
        "bindings": {
            "kafka": {
                "key": {"type": "string", "description": key},
                "bindingVersion": _BINDING,
            }
        },
    }


def _headers() -> Document:
    texts = {
        "ce_type": "Name of the topic.",
        "ce_source": "`/hirl/` and the name of the service.",
        "ce_id": "Id of the event; the same if the event is sent again.",
        "ce_time": "Event time, RFC 3339.",
        "ce_partitionkey": "Key of the record.",
    }
    return {
        "type": "object",
        "description": f"CloudEvents {SPECVERSION}. A value has at most {LIMIT_BYTES} bytes.",
        "properties": {
            "ce_specversion": {"type": "string", "const": SPECVERSION},
            **{name: {"type": "string", "description": text} for name, text in texts.items()},
            "content-type": {"type": "string", "const": JSON_TYPE},
        },
        "required": ["ce_specversion", "ce_type", "ce_source", "ce_id"],
    }


def _reference(*path: str) -> Document:
    return {"$ref": "#/" + "/".join(path)}
