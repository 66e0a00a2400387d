"""The consumer in docs/guides/subscribing.md does what the page says."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from schemas import generate

PAGE = Path(generate.FOLDER).parent / "docs" / "guides" / "subscribing.md"
EXAMPLE = json.loads((generate.FOLDER / "examples/hirl.budget-granted.v1.json").read_text())


class Delivered(NamedTuple):
    key: bytes
    value: bytes | None


def budget(epoch: int) -> Delivered:
    return Delivered(b"payments", json.dumps(EXAMPLE | {"epoch": epoch}).encode())


def test_the_consumer_keeps_the_newest_epoch_and_drops_removed_domains(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    removed = Delivered(b"payments", None)
    records = [budget(5), budget(5), budget(4), budget(6), removed, budget(7)]
    library = SimpleNamespace(KafkaConsumer=lambda *_, **__: records)
    monkeypatch.setitem(sys.modules, "kafka", library)
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {}
    exec(code[1], names)  # noqa: S102  (the page's own example)
    printed = [line.split()[1] for line in capsys.readouterr().out.splitlines()]
    assert printed == ["5", "6", "7"]
    assert names["newest"]["payments"]["epoch"] == 7


def test_every_field_that_the_page_names_is_in_the_schema() -> None:
    schema = (generate.FOLDER / "json/hirl.budget-granted.v1.json").read_text()
    promises = PAGE.read_text().partition("## What a budget promises")[2].partition("## ")[0]
    named = set(re.findall(r"`([a-z_]+)`", promises))
    assert named <= json.loads(schema)["properties"].keys()
