"""When a policy may replace the heuristic."""

import msgspec
import pytest

from models.compare.gate import gate, passes
from models.compare.policies import folders_of
from models.compare.request import Options, Request, request_of
from models.inputs.errors import InputError
from models.sim.results.summary import Result

OURS, THEIRS = "heuristic:none", "heuristic:calendar"


def request() -> Request:
    return request_of(
        Options(f"{THEIRS},{OURS}", "calm,cascade", "0-3", 40, against=THEIRS, frontier=False)
    )


def result(controller: str, scenario: str, seed: int, p0: float, nodes: float) -> Result:
    fields = {f.name: 0 for f in msgspec.structs.fields(Result) if f.type is not str}
    minutes = {"P0": p0, "P1": 0.0, "P2": 0.0, "P3": 0.0}
    given = {
        "scenario": scenario, "controller": controller, "seed": seed, "violation_minutes": minutes,
        "pw": 10 * p0, "node_hours": nodes, "objective": 10 * p0 + nodes,
    }  # fmt: skip
    return Result(**(fields | given))  # type: ignore[arg-type]


def rows(p0_of_cascade: float, nodes: float) -> list[Result]:
    found = []
    for seed in range(4):
        for scenario in ("calm", "cascade"):
            found.append(result(THEIRS, scenario, seed, 2.0 + seed, 100.0))
            more = p0_of_cascade if scenario == "cascade" else 0.0
            found.append(result(OURS, scenario, seed, 2.0 + seed + more, nodes))
    return found


def test_a_policy_with_a_lower_j_and_no_more_p0_passes() -> None:
    found = gate(rows(-0.5, 90.0), request(), OURS)
    assert [row.verdict for row in found] == ["holds", "holds", "holds"]
    assert passes(found)
    assert found[0].node_hours.value == pytest.approx(-0.1)


def test_a_policy_that_sells_p0_in_one_scenario_does_not_pass() -> None:
    found = gate(rows(0.5, 60.0), request(), OURS)
    assert found[-1].objective.high < 0.0
    assert [row.verdict for row in found] == ["holds", "sells P0", "sells P0"]
    assert not passes(found)


def test_a_policy_that_is_no_better_does_not_pass() -> None:
    assert not passes(gate(rows(0.0, 100.0), request(), OURS))


def test_parts_name_kinds_and_folders() -> None:
    found = folders_of("commander=a/b+soldier=c")
    assert {kind: str(folder) for kind, folder in found.items()} == {
        "commander": "a/b",
        "soldier": "c",
    }
    with pytest.raises(InputError, match="expected one of commander, soldier"):
        folders_of("general=a")
