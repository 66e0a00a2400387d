"""The generated JSON Schemas are up to date, complete, and agree with the codec."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from schemas import generate
from schemas.codec import Malformed, decode
from schemas.fields import Event
from schemas.topics import TOPICS, Topic, topic_of
from tests.contract.contract_data import Schema, events, schema_errors

SCHEMAS = {topic.name: generate.json_schema(topic) for topic in TOPICS}
BUDGET = "hirl.budget-granted.v1"


def fields_of(schema: Schema) -> Iterator[tuple[str, Schema]]:
    for name, definition in [("", schema), *schema.get("$defs", {}).items()]:
        yield from ((f"{name}.{key}", field) for key, field in definition["properties"].items())


def test_generated_files_are_up_to_date() -> None:
    assert generate.differing() == [], "run hirl schemas generate"


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_every_schema_is_valid_and_every_field_has_a_description(topic: Topic) -> None:
    schema = SCHEMAS[topic.name]
    Draft202012Validator.check_schema(schema)
    assert schema["title"] == topic.event.__name__
    assert schema["description"]
    assert {*schema["x-key"].split("/")} <= {"", *schema["properties"]}
    bare = [name for name, field in fields_of(schema) if not {"description", "$ref"} & field.keys()]
    assert bare == []


@settings(max_examples=40, deadline=None)
@given(events())
def test_every_encoded_event_is_valid_by_its_schema(event: Event) -> None:
    schema = SCHEMAS[topic_of(event).name]
    assert schema_errors(json.loads(msgspec.json.encode(event)), schema) == []


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
def test_schema_and_codec_refuse_the_same_values(change: dict[str, Any]) -> None:
    example = json.loads((generate.FOLDER / f"examples/{BUDGET}.json").read_text()) | change
    assert schema_errors(example, SCHEMAS[BUDGET])
    with pytest.raises(Malformed):
        decode(BUDGET, msgspec.json.encode(example))


def test_descriptions_have_no_line_breaks_inside_a_paragraph() -> None:
    description = SCHEMAS["hirl.metrics-sampled.v1"]["description"]
    assert "\n\n" in description
    assert "\n" not in description.replace("\n\n", "")


def test_the_schema_names_units_and_aligned_columns() -> None:
    assert SCHEMAS[BUDGET]["properties"]["cores"]["x-unit"] == "cores"
    planned = SCHEMAS["hirl.scale-planned.v1"]["properties"]
    assert planned["cpu_request"]["items"]["x-unit"] == "millicores"
    assert planned["cpu_request"]["x-aligned-with"] == "apps"
