"""Generate the contract for readers in other languages: a JSON Schema per topic, and AsyncAPI.

Both come from the events and from `topics.py`. They are committed, so that a review shows what a
change does to readers.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from schemas.asyncapi import document
from schemas.columns import RULES
from schemas.fields import Event
from schemas.topics import TOPICS, Topic

FOLDER: Final = Path(__file__).parent
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_NOTE: Final = "# Generated from schemas/topics.py by `hirl schemas generate`; do not edit.\n"

Document = dict[str, Any]


def json_schema(topic: Topic) -> Document:
    """JSON Schema of a topic's event, with the topic, its key and its cleanup policy."""
    generated = msgspec.json.schema(topic.event)
    definitions = generated["$defs"]
    event = definitions.pop(topic.event.__name__)
    for column, leader in _leaders(topic.event):
        event["properties"][column]["x-aligned-with"] = leader
    for definition in (event, *definitions.values()):
        definition["description"] = _unwrapped(definition["description"])
    schema = {
        "$schema": DIALECT,
        "$id": f"urn:hirl:{topic.name}",
        "x-topic": topic.name,
        "x-key": topic.key,
        "x-cleanup": topic.cleanup,
        **event,
    }
    return schema | ({"$defs": definitions} if definitions else {})


@cache
def files() -> dict[str, str]:
    """Content of every generated file, by its path below `schemas/`."""
    generated = {f"json/{topic.name}.json": _pretty(json_schema(topic)) for topic in TOPICS}
    text = yaml.safe_dump(document(TOPICS), sort_keys=False, width=100, allow_unicode=True)
    return generated | {"asyncapi.yaml": _NOTE + text}


def write(folder: Path = FOLDER) -> list[str]:
    """Write files that differ and remove schemas of removed topics; return the paths of both."""
    changed = differing(folder)
    content = files()
    for path in changed:
        target = folder / path
        if path in content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content[path])
        else:
            target.unlink()
    return changed


def differing(folder: Path = FOLDER) -> list[str]:
    """Paths of generated files that are out of date."""
    content = files()
    present = {f"json/{file.name}" for file in (folder / "json").glob("*.json")}
    stale = sorted(present - content.keys())
    return [path for path, text in content.items() if _text(folder / path) != text] + stale


def release(version: str, folder: Path = FOLDER) -> Path:
    """Store the current schemas as those of a release, to compare later ones with."""
    target = folder / "released" / version
    target.mkdir(parents=True)
    for topic in TOPICS:
        (target / f"{topic.name}.json").write_text(_pretty(json_schema(topic)))
    return target


def _leaders(event: type[Event]) -> Iterator[tuple[str, str]]:
    """Columns and their leaders: JSON Schema cannot express that lists are equally long."""
    for rule in RULES.get(event, ()):
        yield from ((name, rule.leader) for name in (*rule.required, *rule.optional))


def _unwrapped(docstring: str) -> str:
    """Join the lines of each paragraph of a docstring."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in docstring.split("\n\n"))
    return "\n\n".join(paragraphs)


def _pretty(value: Document) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def _text(file: Path) -> str | None:
    try:
        return file.read_text()
    except FileNotFoundError:
        return None
