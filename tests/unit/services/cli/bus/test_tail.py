"""`hirl tail` prints every event in one line and accepts short topic names."""

import json
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from models.inputs.errors import InputError
from schemas.breaker_changed import BreakerChanged
from schemas.codec import decode
from schemas.topics import BY_NAME
from services._kit.records import Delivery
from services.admin.reader import ReadRecord
from services.cli.bus.tail import line, raw, topic_named
from services.cli.output import table
from tests.unit.services.system_helpers import EXAMPLES

FILES = sorted(EXAMPLES.glob("*.json"))


def found_of(file: Path) -> ReadRecord:
    topic = ".".join(file.name.split(".")[:3])
    return ReadRecord(decode(topic, file.read_bytes()), delivery(topic))


def delivery(topic: str) -> Delivery:
    return Delivery(topic, 0, 0, b"payments", b"{}", (), 0.0)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_event_is_one_readable_line_with_its_key(file: Path) -> None:
    text = line(found_of(file))
    assert "\n" not in text
    assert "payments" in text
    # The text of an event without a summary of its own.
    assert "Struct" not in text
    assert "(tick=" not in text


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_json_is_the_whole_event(file: Path) -> None:
    found = found_of(file)
    assert json.loads(raw(found)) == json.loads(msgspec.json.encode(found.event))


def test_an_unreadable_record_is_printed_with_the_error() -> None:
    found = ReadRecord(None, delivery("hirl.budget-granted.v1"), "schema: expected a share")
    assert "unreadable: schema: expected a share" in line(found)
    assert "schema: expected a share" in raw(found)


HOSTILE = "a\x1b]0;title\x07b\x9b2J\r\nforged line"


def test_no_text_of_a_record_controls_the_terminal() -> None:
    topic = "hirl.breaker-changed.v1"
    event = BreakerChanged(
        tick=1, time="2026-11-27T08:00:00Z", scope="data", state="open", since_tick=1,
        reason=HOSTILE,
    )  # fmt: skip
    odd = delivery(topic)._replace(key=HOSTILE.encode())
    for found in (ReadRecord(event, odd), ReadRecord(None, odd, HOSTILE)):
        assert line(found).isprintable()
        assert "forged line" in line(found)


def test_no_text_in_a_table_controls_the_terminal() -> None:
    console = Console(file=StringIO(), force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(table("orders", ("why",), [[HOSTILE]]))
    assert "\x1b]" not in captured.get()
    assert "\x9b" not in captured.get()


def test_a_tombstone_is_printed_as_removed() -> None:
    assert line(ReadRecord(None, delivery("hirl.app-declared.v1"))) == "00:00:00  payments  removed"


@pytest.mark.parametrize("name", BY_NAME)
def test_a_topic_is_found_by_its_name_and_by_its_stem(name: str) -> None:
    assert topic_named(name) == name
    assert topic_named(name.removeprefix("hirl.").removesuffix(".v1")) == name


@pytest.mark.parametrize(
    ("short", "name"),
    [
        ("budgets", "hirl.budget-granted.v1"),
        ("dead-letters", "hirl.rejected.v1"),
        ("plans", "hirl.scale-planned.v1"),
        ("breaker", "hirl.breaker-changed.v1"),
    ],
)
def test_a_topic_is_found_by_nickname_and_by_a_unique_prefix(short: str, name: str) -> None:
    assert topic_named(short) == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("frmes", "topic: no topic frmes: did you mean frames? hirl tail --help lists all"),
        ("budget-grnted", "did you mean budget-granted?"),
        ("scale", "topic: scale is ambiguous: scale-planned, scale-applied"),
        ("b", "topic: b is ambiguous: budget-granted, breaker-changed"),
        ("zzz", "topic: no topic zzz: hirl tail --help lists all"),
    ],
)
def test_an_unknown_topic_gets_a_suggestion_and_an_ambiguous_one_its_choices(
    text: str, message: str
) -> None:
    with pytest.raises(InputError) as error:
        topic_named(text)
    assert message in str(error.value)
    assert len(str(error.value)) <= 100
