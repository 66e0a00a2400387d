"""The page about topics and events, from the map of topics and the generated schemas."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from schemas import generate
from schemas.topics import ANY, TOPICS, Topic
from services.reference.markdown import NOTE, anchor, joined, table

_ABOUT_EVENTS: Final = (
    "From `schemas/topics.py` and the events beside it. The same as JSON Schema: `schemas/json`; "
    "as AsyncAPI 3: `schemas/asyncapi.yaml`; examples: `schemas/examples`.\n\n"
    "Producers and consumers are the principals that may write and read a topic; ACLs are made "
    "from them. Not all are services: `operator` and `registry` stand for people and their tools, "
    "`provisioner` for the simulated cluster (or your own provisioner). `agent` and `trainer` do "
    "not exist yet. Forecaster and Commander follow `hirl.model-promoted.v1`, the Soldiers do not "
    "yet."
)


def events_page() -> str:
    """Every topic in the order of the data flow, with the fields of its event."""
    lines = ["# Topics and events", "", NOTE, "", _ABOUT_EVENTS, ""]
    rows = [
        (
            f"[{topic.name}](#{anchor(topic.name)})",
            topic.key or "-",
            _names(topic.producers),
            _names(topic.consumers),
            str(topic.partitions),
            _kept(topic),
        )
        for topic in TOPICS
    ]
    lines += table(("topic", "key", "producers", "consumers", "partitions", "kept"), rows)
    for topic in TOPICS:
        schema = generate.json_schema(topic)
        about = " ".join(schema["description"].split())
        lines += ["", f"## {topic.name}", "", f"`{topic.event.__name__}`: {about}", ""]
        lines += _fields(schema)
        for name, definition in schema.get("$defs", {}).items():
            lines += ["", f"`{name}`:", "", *_fields(definition)]
    return joined(lines)


def _fields(schema: dict[str, Any]) -> list[str]:
    required = schema.get("required", ())
    rows = [
        (
            f"`{name}`",
            _json_type(field),
            _unit(field),
            "required" if name in required else f"`{field.get('default')!r}`",
            " ".join(field.get("description", "").split()),
        )
        for name, field in schema["properties"].items()
    ]
    return table(("field", "type", "unit", "default", "meaning"), rows)


def _json_type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "anyOf" in field:
        return " or ".join(_json_type(option) for option in field["anyOf"])
    if "enum" in field:
        return ", ".join(map(str, field["enum"]))
    match field.get("type"), field.get("items"), field.get("additionalProperties"):
        case "array", dict(items), _:
            return f"list of {_json_type(items)}"
        case "object", _, dict(values):
            return f"map of {_json_type(values)}"
        case kind, _, _:
            return str(kind or "any")


def _unit(field: dict[str, Any]) -> str:
    inner: Iterable[dict[str, Any]] = (
        field, *field.get("anyOf", ()), field.get("items", {}),
        *[values for values in [field.get("additionalProperties")] if isinstance(values, dict)],
    )  # fmt: skip
    return next((str(one["x-unit"]) for one in inner if "x-unit" in one), "")


def _kept(topic: Topic) -> str:
    return "compacted" if topic.cleanup == "compact" else f"{topic.retention_ms // 3_600_000} h"


def _names(services: Sequence[str]) -> str:
    return "every service" if ANY in services else ", ".join(services) or "-"
