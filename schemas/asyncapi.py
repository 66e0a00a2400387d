"""The AsyncAPI 3.0 document: who sends and receives what on which topic.

https://www.asyncapi.com/docs/reference/specification/v3.0.0, with the Kafka binding 0.5.0.
"""

from collections.abc import Sequence
from typing import Any, Final

from schemas.cloudevents import JSON_TYPE, SPECVERSION
from schemas.codec import LIMIT_BYTES
from schemas.topics import ANY, Topic

VERSION: Final = "0.1.0"
"""Of the contract: the newest folder in `released/`."""
_BINDING: Final = "0.5.0"
_DESCRIPTION: Final = (
    "Events of HiRL-Scale on Kafka: JSON with CloudEvents attributes in the headers (binary mode). "
    "Changes are FULL_TRANSITIVE compatible; readers ignore fields they do not know. "
    "An event too large for one record comes in numbered parts."
)

Document = dict[str, Any]


def document(topics: Sequence[Topic]) -> Document:
    """The whole document, in the order in which data flows."""
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
        "description": "The user's own cluster; a local one for trying things out has no TLS.",
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
        return {"cleanup.policy": ["compact"]}
    return {"cleanup.policy": ["delete"], "retention.ms": topic.retention_ms}


def _operations(topic: Topic) -> dict[str, Document]:
    sends = {f"{_named(who)}.send.{topic.event.__name__}": "send" for who in topic.producers}
    receives = {
        f"{_named(who)}.receive.{topic.event.__name__}": "receive" for who in topic.consumers
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
        "title": topic.about,
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
        "ce_type": "name of the topic",
        "ce_source": "`/hirl/` and the service",
        "ce_id": "the same when the same is sent again",
        "ce_time": "event time, RFC 3339",
        "ce_partitionkey": "the record's key",
    }
    return {
        "type": "object",
        "description": f"CloudEvents {SPECVERSION}; values have at most {LIMIT_BYTES} bytes",
        "properties": {
            "ce_specversion": {"type": "string", "const": SPECVERSION},
            **{name: {"type": "string", "description": text} for name, text in texts.items()},
            "content-type": {"type": "string", "const": JSON_TYPE},
        },
        "required": ["ce_specversion", "ce_type", "ce_source", "ce_id"],
    }


def _reference(*path: str) -> Document:
    return {"$ref": "#/" + "/".join(path)}
