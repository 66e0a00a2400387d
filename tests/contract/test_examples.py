"""The golden examples stay readable and valid."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schemas import generate
from schemas.codec import decode, encode
from schemas.topics import BY_NAME
from tests.contract.contract_data import EXAMPLES, schema_errors, structured, topic_of_example

every_example = pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)


def test_every_topic_has_an_example() -> None:
    assert {topic_of_example(file) for file in EXAMPLES} == BY_NAME.keys()


@every_example
def test_an_example_survives_a_round_trip_in_both_modes(file: Path) -> None:
    topic = topic_of_example(file)
    event = decode(topic, file.read_bytes())
    assert event is not None
    (record,) = encode(event, "example")
    assert decode(topic, record.value, record.headers) == event
    assert decode(topic, *structured(record)) == event


@every_example
def test_an_example_has_only_known_fields(file: Path) -> None:
    written = json.loads(file.read_bytes())
    read = msgspec.to_builtins(decode(topic_of_example(file), file.read_bytes()))
    assert _common(written, read) == written


def _common(written: Any, read: Any) -> Any:
    """The fields of `read` that were written; the others have defaults."""
    if isinstance(written, dict):
        return {name: _common(value, read[name]) for name, value in written.items()}
    return read


@every_example
def test_an_example_is_valid_by_its_schema(file: Path) -> None:
    schema = generate.json_schema(BY_NAME[topic_of_example(file)])
    assert schema_errors(json.loads(file.read_bytes()), schema) == []
