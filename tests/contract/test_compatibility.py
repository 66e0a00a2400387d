"""Changes that break released readers or released data are found."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schemas import compatibility, generate
from schemas.compatibility import compare, compare_all
from schemas.topics import BY_NAME

Schema = dict[str, Any]
Edit = Callable[[Schema], object]

BUDGET = generate.json_schema(BY_NAME["hirl.budget-granted.v1"])
PLAN = generate.json_schema(BY_NAME["hirl.scale-planned.v1"])
DECLARED = generate.json_schema(BY_NAME["hirl.app-declared.v1"])


def changed(schema: Schema, edit: Edit) -> Schema:
    result = copy.deepcopy(schema)
    edit(result)
    return result


def field(schema: Schema, name: str) -> Schema:
    found: Schema = schema["properties"][name]
    return found


def rename(schema: Schema, old: str, new: str) -> None:
    schema["properties"][new] = schema["properties"].pop(old)
    schema["required"] = [new if name == old else name for name in schema["required"]]


def require_new(schema: Schema) -> None:
    schema["properties"]["region"] = {"type": "string"}
    schema["required"].append("region")


# Schema, change, path of the reported problem and words of it.
BREAKING: list[tuple[Schema, Edit, str, str]] = [
    (BUDGET, lambda s: s["properties"].pop("share"), "$.share", "the field was removed"),
    (BUDGET, lambda s: s["properties"].pop("urgency"), "$.urgency", "the field was removed"),
    (BUDGET, lambda s: rename(s, "share", "part"), "$.part", "the new field is required"),
    (BUDGET, require_new, "$.region", "the new field is required"),
    (
        BUDGET,
        lambda s: s["required"].append("floor_cores"),
        "$.floor_cores",
        "was optional, is required",
    ),
    (BUDGET, lambda s: s["required"].remove("share"), "$.share", "was required, is optional"),
    (
        BUDGET,
        lambda s: field(s, "epoch").update(type="string"),
        "$.epoch",
        '`type` was "integer", is "string"',
    ),
    (BUDGET, lambda s: field(s, "share").update(maximum=0.5), "$.share", "`maximum` was 1, is 0.5"),
    (BUDGET, lambda s: field(s, "share").update(maximum=2), "$.share", "`maximum` was 1, is 2"),
    (BUDGET, lambda s: field(s, "cores").pop("minimum"), "$.cores", "was 0, is absent"),
    (BUDGET, lambda s: field(s, "domain").update(pattern="^x$"), "$.domain", "`pattern` was"),
    (DECLARED, lambda s: field(s, "pause")["enum"].append("in"), "$.pause", "`enum` was"),
    (DECLARED, lambda s: field(s, "pause")["enum"].pop(), "$.pause", "`enum` was"),
    (
        BUDGET,
        lambda s: field(s, "cores").update({"x-unit": "millicores"}),
        "$.cores",
        '`x-unit` was "cores", is "millicores"',
    ),
    (BUDGET, lambda s: field(s, "growth").update(default=0.0), "$.growth", "`default` was 1.0"),
    (BUDGET, lambda s: s.update({"x-key": "epoch"}), "$", '`x-key` was "domain", is "epoch"'),
    (BUDGET, lambda s: s.update({"x-cleanup": "delete"}), "$", "`x-cleanup` was"),
    (
        BUDGET,
        lambda s: field(s, "pool_cores")["additionalProperties"].update({"x-unit": "GiB"}),
        "$.pool_cores.*",
        "`x-unit` was",
    ),
    (
        BUDGET,
        lambda s: field(s, "spend_left").update(anyOf=[{"type": "number"}]),
        "$.spend_left",
        "was one of ['null', 'number'], is one of ['number']",
    ),
    (
        PLAN,
        lambda s: field(s, "cpu_request")["items"].update({"x-unit": "cores"}),
        "$.cpu_request[]",
        "`x-unit` was",
    ),
    (
        PLAN,
        lambda s: field(s["$defs"]["Sums"], "held").update(minimum=1),
        "$.sums",
        "`minimum` was 0, is 1",
    ),
    (
        DECLARED,
        lambda s: field(s, "mode")["anyOf"][0]["enum"].append("manual"),
        "$.mode",
        "`enum` was",
    ),
]

COMPATIBLE: list[tuple[str, Edit]] = [
    ("nothing", lambda _: None),
    ("a description", lambda s: field(s, "share").update(description="in other words")),
    ("a title", lambda s: s.update(title="Budget")),
    ("an optional field", lambda s: s["properties"].update(note={"type": "string", "default": ""})),
    (
        "an optional field with a definition of its own",
        lambda s: (
            s["properties"].update(more={"$ref": "#/$defs/More", "default": {}}),
            s.update({"$defs": {"More": {"type": "object", "properties": {}, "required": []}}}),
        ),
    ),
]


@pytest.mark.parametrize(
    ("schema", "edit", "path", "words"), BREAKING, ids=[f"{row[2]} {row[3]}" for row in BREAKING]
)
def test_a_breaking_change_is_reported_with_its_path(
    schema: Schema, edit: Edit, path: str, words: str
) -> None:
    found = list(compare(schema, changed(schema, edit)))
    assert any(where.startswith(path) and words in problem for where, problem in found), found


@pytest.mark.parametrize(
    "edit", [edit for _, edit in COMPATIBLE], ids=[name for name, _ in COMPATIBLE]
)
def test_a_compatible_change_passes(edit: Edit) -> None:
    assert list(compare(BUDGET, changed(BUDGET, edit))) == []


def test_a_topic_may_be_added_but_not_removed() -> None:
    one, two = {"a.v1": BUDGET}, {"a.v1": BUDGET, "b.v1": PLAN}
    assert list(compare_all("0.1.0", one, two)) == []
    (change,) = compare_all("0.1.0", two, one)
    assert str(change) == "b.v1: $: the topic was removed (since 0.1.0)"


def test_every_release_is_compared_not_only_the_last(tmp_path: Path) -> None:
    for version, unit in (("0.1.0", "millicores"), ("0.2.0", "cores")):
        folder = tmp_path / "released" / version
        folder.mkdir(parents=True)
        old = copy.deepcopy(BUDGET)
        field(old, "cores")["x-unit"] = unit
        (folder / "hirl.budget-granted.v1.json").write_text(json.dumps(old))
    (change,) = compatibility.breaking_changes(tmp_path)
    assert (change.release, change.path) == ("0.1.0", "$.cores")


def test_the_events_are_compatible_with_every_release() -> None:
    assert compatibility.released()
    assert [str(change) for change in compatibility.breaking_changes()] == []
