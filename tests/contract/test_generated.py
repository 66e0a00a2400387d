"""Generated files are what the events say, complete, and agree with what is decoded."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings

from schemas import asyncapi, generate
from schemas.codec import Malformed, decode
from schemas.fields import Event
from schemas.topics import ANY, TOPICS, Topic, topic_of
from tests.contract.contract_data import events
from tests.contract.json_schema import Schema, problems

SCHEMAS = {topic.name: generate.json_schema(topic) for topic in TOPICS}
BUDGET = "hirl.budget-granted.v1"


def fields_of(schema: Schema) -> Iterator[tuple[str, Schema]]:
    for name, definition in [("", schema), *schema.get("$defs", {}).items()]:
        yield from ((f"{name}.{key}", field) for key, field in definition["properties"].items())


def test_generated_files_are_what_the_events_say() -> None:
    assert generate.differing() == [], "run hirl schemas generate"


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_every_field_is_described_and_every_schema_titled(topic: Topic) -> None:
    schema = SCHEMAS[topic.name]
    assert schema["title"] == topic.event.__name__
    assert schema["description"]
    assert schema["x-key"] in {"", *schema["properties"]}
    bare = [name for name, field in fields_of(schema) if not {"description", "$ref"} & field.keys()]
    assert bare == []


@settings(max_examples=40, deadline=None)
@given(events())
def test_every_event_that_is_sent_fulfils_its_schema(event: Event) -> None:
    schema = SCHEMAS[topic_of(event).name]
    assert list(problems(json.loads(msgspec.json.encode(event)), schema, schema)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": -2},
        {"share": 1.1},
        {"domain": ""},
        {"domain": 5},
        {"memory_gib": -1},
        {"tick": None},
    ],
)
def test_schema_and_codec_refuse_the_same(change: dict[str, Any]) -> None:
    example = json.loads((generate.FOLDER / f"examples/{BUDGET}.json").read_text()) | change
    assert list(problems(example, SCHEMAS[BUDGET], SCHEMAS[BUDGET]))
    with pytest.raises(Malformed):
        decode(BUDGET, msgspec.json.encode(example))


def test_units_and_columns_stand_in_the_schema() -> None:
    assert SCHEMAS[BUDGET]["properties"]["cores"]["x-unit"] == "cores"
    planned = SCHEMAS["hirl.scale-planned.v1"]["properties"]
    assert planned["cpu_request"]["items"]["x-unit"] == "millicores"
    assert planned["cpu_request"]["x-aligned-with"] == "apps"


# The AsyncAPI document, by hand: no validator is among our dependencies.


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((generate.FOLDER / "asyncapi.yaml").read_text())
    return loaded


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield from (value for key, value in node.items() if key == "$ref")
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_the_document_has_the_parts_that_asyncapi_asks_for(document: dict[str, Any]) -> None:
    assert document["asyncapi"] == "3.0.0"
    assert {"title", "version"} <= document["info"].keys()
    assert set(document) == {
        "asyncapi",
        "info",
        "defaultContentType",
        "servers",
        "channels",
        "operations",
        "components",
    }
    assert all({"host", "protocol"} <= server.keys() for server in document["servers"].values())
    for operation in document["operations"].values():
        assert operation["action"] in {"send", "receive"}
        channel = operation["channel"]["$ref"]
        # An operation names messages of its channel, not of the components.
        assert all(one["$ref"].startswith(f"{channel}/messages/") for one in operation["messages"])


def test_every_reference_of_the_document_leads_somewhere(document: dict[str, Any]) -> None:
    for reference in references(document):
        file, _, pointer = reference.partition("#/")
        if file:
            assert (generate.FOLDER / file).is_file(), reference
            continue
        node = document
        for name in pointer.split("/"):
            node = node[name]
        assert node


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_each_topic_has_its_channel_key_and_services(
    document: dict[str, Any], topic: Topic
) -> None:
    name = topic.event.__name__
    channel = document["channels"][name]
    binding = channel["bindings"]["kafka"]
    assert channel["address"] == binding["topic"] == topic.name
    assert binding["partitions"] == topic.partitions
    configuration = binding["topicConfiguration"]
    assert configuration["cleanup.policy"] == [topic.cleanup]
    assert ("retention.ms" in configuration) == (topic.cleanup == "delete")
    key = document["components"]["messages"][name]["bindings"]["kafka"]["key"]
    assert topic.key in key["description"]
    operations = {one for one in document["operations"] if one.endswith(f".{name}")}
    expected = {f"{who}.send.{name}" for who in topic.producers}
    expected |= {f"{who}.receive.{name}" for who in topic.consumers}
    assert operations == {one.replace(ANY, "any") for one in expected}


def test_the_version_of_the_contract_is_its_newest_release() -> None:
    versions = [folder.name for folder in (generate.FOLDER / "released").iterdir()]
    assert max(versions, key=lambda text: [*map(int, text.split("."))]) == asyncapi.VERSION
