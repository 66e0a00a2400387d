"""The page for subscribers and its example agree with the contract."""

import json
import re
from pathlib import Path
from typing import NamedTuple

from schemas import generate
from tests.example_files import example

PAGE = Path(generate.FOLDER).parent / "docs" / "guides" / "subscribing.md"
EXAMPLE = json.loads((generate.FOLDER / "examples/hirl.budget-granted.v1.json").read_text())


class Delivered(NamedTuple):
    key: bytes
    value: bytes | None


def budget(epoch: int) -> Delivered:
    return Delivered(b"payments", json.dumps(EXAMPLE | {"epoch": epoch}).encode())


def test_the_subscriber_keeps_the_newest_epoch_and_drops_domains_that_are_gone() -> None:
    subscriber = example("budget_subscriber")
    gone = Delivered(b"payments", None)
    records = [budget(5), budget(5), budget(4), budget(6), gone, budget(7)]
    found = [change.budget and change.budget["epoch"] for change in subscriber.changes(records)]
    assert found == [5, 6, None, 7]


def test_every_field_that_the_page_names_is_in_the_schema() -> None:
    schema = (generate.FOLDER / "json/hirl.budget-granted.v1.json").read_text()
    promises = PAGE.read_text().partition("## What a budget promises")[2].partition("## ")[0]
    # `tick_seconds` is a field of the cluster file.
    named = set(re.findall(r"`([a-z_]+)`", promises)) - {"tick_seconds"}
    assert named <= json.loads(schema)["properties"].keys()
