"""The order of forecasters holds, is open or fails by paired differences in J."""

from collections.abc import Sequence
from typing import Any

import pytest

from models.compare.foresight import ForesightRow, foresight
from models.compare.request import Options, Request, request_of
from models.compare.standings import ALL
from models.sim.results.summary import Result

NAMES = ("heuristic:oracle", "heuristic:calendar", "heuristic:none")


def request(scenarios: str = "calm") -> Request:
    return request_of(
        Options(",".join(NAMES), scenarios, "10-13", 30, against=NAMES[-1], frontier=False)
    )


def rows(scenario: str, objectives: Sequence[Sequence[float]]) -> list[Result]:
    """J by controller, then by seed."""
    names = set(Result.__struct_fields__) - {"scenario", "controller", "seed", "objective"}
    others: dict[str, Any] = dict.fromkeys(names, 0.0)
    return [
        Result(scenario=scenario, controller=name, seed=seed, objective=value, **others)
        for name, values in zip(NAMES, objectives, strict=True)
        for seed, value in zip((10, 11, 12, 13), values, strict=True)
    ]


def only(found: list[ForesightRow]) -> ForesightRow:
    (row,) = found
    return row


def test_the_order_holds_if_each_is_at_most_the_next() -> None:
    found = only(foresight(rows("calm", [[1, 2, 3, 4], [2, 3, 4, 5], [2, 3, 4, 5]]), request()))
    assert [step.verdict for step in found.steps] == ["holds", "holds"]
    assert found.verdict == "holds"
    assert found.steps[0].difference.value == pytest.approx(10 / 14 - 1)
    assert [(step.better, step.worse) for step in found.steps] == [NAMES[:2], NAMES[1:]]


def test_a_reversal_within_its_interval_is_open() -> None:
    found = only(foresight(rows("calm", [[1, 1, 1, 1], [9, 5, 5, 6], [8, 6, 5, 4]]), request()))
    assert [step.verdict for step in found.steps] == ["holds", "open"]
    assert found.verdict == "open"


def test_a_reversal_in_every_seed_fails_however_far_seeds_are_apart() -> None:
    found = only(
        foresight(rows("calm", [[2, 20, 200, 2000], [1, 10, 100, 1000], [9e3] * 4]), request())
    )
    assert [step.verdict for step in found.steps] == ["fails", "holds"]
    assert found.verdict == "fails"


def test_all_scenarios_together_are_the_last_row() -> None:
    both = request("calm,cascade")
    results = [
        *rows("calm", [[2] * 4, [1] * 4, [3] * 4]),
        *rows("cascade", [[10] * 4, [90] * 4, [95] * 4]),
    ]
    calm, cascade, total = foresight(results, both)
    assert (calm.verdict, cascade.verdict) == ("fails", "holds")
    assert total.scenario == ALL
    assert total.steps[0].difference.value == pytest.approx(12 / 91 - 1)
    # Drawn with scenarios, of which one is the other way round.
    assert total.steps[0].difference.high > 0
    assert total.verdict == "holds"
