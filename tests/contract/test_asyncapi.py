"""The AsyncAPI document is consistent and lists every topic with its services.

These checks are by hand: AsyncAPI's own validator needs Node.js.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from schemas import asyncapi, generate
from schemas.topics import ANY, TOPICS, Topic


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


def test_the_document_has_the_sections_that_asyncapi_requires(document: dict[str, Any]) -> None:
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
        # An operation refers to messages of its channel, not of the components.
        assert all(one["$ref"].startswith(f"{channel}/messages/") for one in operation["messages"])


def test_every_reference_resolves(document: dict[str, Any]) -> None:
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
    expected = {f"{service}.send.{name}" for service in topic.producers}
    expected |= {f"{service}.receive.{name}" for service in topic.consumers}
    assert operations == {one.replace(ANY, "any") for one in expected}


def test_the_version_of_the_document_is_the_newest_release() -> None:
    versions = [folder.name for folder in (generate.FOLDER / "released").iterdir()]
    assert max(versions, key=lambda text: [*map(int, text.split("."))]) == asyncapi.VERSION
