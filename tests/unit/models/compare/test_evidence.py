"""When a policy may replace the heuristic."""

import msgspec
import numpy as np
import pytest

from models.compare.evidence import at_cost, constants, evidence_of, rows_of
from models.compare.policies import folders_of
from models.compare.request import Options, Request, request_of
from models.inputs.errors import InputError
from models.registry.gate import Limits, judge_runs
from models.sim.results.summary import Result

OURS, THEIRS = "heuristic:none", "heuristic:calendar"


def request() -> Request:
    return request_of(
        Options(
            ",".join((THEIRS, OURS, *constants(THEIRS))),
            "calm,cascade",
            "0-3",
            40,
            against=THEIRS,
            frontier=False,
        )
    )


def result(controller: str, scenario: str, seed: int, p0: float, nodes: float) -> Result:
    fields = {f.name: 0 for f in msgspec.structs.fields(Result) if f.type is not str}
    minutes = {"P0": p0, "P1": 0.0, "P2": 0.0, "P3": 0.0}
    given = {
        "scenario": scenario, "controller": controller, "seed": seed, "violation_minutes": minutes,
        "pw": 10 * p0, "node_hours": nodes, "objective": 10 * p0 + nodes,
    }  # fmt: skip
    return Result(**(fields | given))  # type: ignore[arg-type]


def rows(
    p0_of_cascade: float, nodes: float, of_ours: tuple[float, float] | None = None
) -> list[Result]:
    """Ours beside the heuristic at four knobs; `of_ours` has a factor on P0, and node-hours."""
    found = []
    for seed in range(4):
        for scenario in ("calm", "cascade"):
            p0 = 2.0 + seed
            found.append(result(THEIRS, scenario, seed, p0, 100.0))
            more = p0_of_cascade if scenario == "cascade" else 0.0
            ours = (p0 + more, nodes) if of_ours is None else (of_ours[0] * p0, of_ours[1])
            found.append(result(OURS, scenario, seed, *ours))
            for name, share, hours in zip(
                constants(THEIRS), (0.25, 0.5, 2.0), (120.0, 110.0, 95.0), strict=True
            ):
                found.append(result(name, scenario, seed, share * p0, hours))
    return found


def names_of_failed(results: list[Result]) -> list[str]:
    found = evidence_of(results, request(), OURS, "v" * 64)
    return [one.name for one in judge_runs(found, Limits(), policy=True) if not one.passed]


def verdicts(results: list[Result]) -> list[str]:
    return [row.verdict for row in rows_of(results, request(), OURS, Limits())]


def test_a_policy_with_a_lower_j_and_no_more_p0_passes() -> None:
    found = rows(-0.5, 90.0)
    assert verdicts(found) == ["holds", "holds", "holds"]
    assert names_of_failed(found) == []
    assert rows_of(found, request(), OURS, Limits())[0].node_hours.value == pytest.approx(-0.1)


def test_a_policy_that_sells_p0_in_one_scenario_does_not_pass() -> None:
    found = rows(1.5, 60.0)
    assert verdicts(found) == ["holds", "sells P0", "sells P0"]
    assert names_of_failed(found) == ["p0"]


def test_p0_has_to_be_shown_not_to_be_worse() -> None:
    found = [
        msgspec.structs.replace(
            row,
            violation_minutes=row.violation_minutes | {"P0": row.violation_minutes["P0"] + more},
        )
        for row in rows(0.0, 60.0)
        for more in [(-3.0 if row.seed % 2 else 3.0) if row.controller == OURS else 0.0]
    ]
    assert verdicts(found) == ["open", "open", "open"]
    assert "p0" in names_of_failed(found)


def test_a_policy_that_only_adds_nodes_is_no_better_than_a_heuristic_that_costs_as_much() -> None:
    # Between the knobs .9 and .8, the violations of which are a half and a quarter.
    found = rows(0.0, 100.0, of_ours=(0.45, 112.0))
    assert names_of_failed(found) == ["equal cost"]
    assert "equal cost" not in names_of_failed(rows(0.0, 100.0, of_ours=(0.2, 112.0)))


def test_any_overrun_refuses() -> None:
    found = rows(-0.5, 90.0)
    found[1] = msgspec.structs.replace(found[1], budget_overruns=1)
    assert names_of_failed(found) == ["budget overruns"]
    found[1] = msgspec.structs.replace(found[1], budget_overruns=0, overspend=0.5)
    assert names_of_failed(found) == ["spend overruns"]


def test_at_the_cost_of_a_knob_the_line_is_that_knob_and_its_ends_stand_for_themselves() -> None:
    cheap = np.full((2, 3), 100.0), np.full((2, 3), 40.0)
    dear = np.full((2, 3), 120.0), np.full((2, 3), 10.0)
    assert np.allclose(at_cost([dear, cheap], 600.0), 140.0)
    assert np.allclose(at_cost([dear, cheap], 720.0), 130.0)
    assert np.allclose(at_cost([dear, cheap], 900.0), 130.0)
    between = at_cost([dear, cheap], 660.0)
    assert np.allclose(between, 110.0 + np.sqrt(41.0 * 11.0) - 1.0)


def test_parts_name_kinds_and_folders() -> None:
    found = folders_of("commander=a/b+soldier=c")
    assert {kind: str(folder) for kind, folder in found.items()} == {
        "commander": "a/b",
        "soldier": "c",
    }
    with pytest.raises(InputError, match="expected one of commander, soldier"):
        folders_of("general=a")
