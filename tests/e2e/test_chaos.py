"""A running system survives some of the faults of `hirl chaos`; `make chaos` has all of them."""

from pathlib import Path
from typing import Final

import pytest

from services.devcluster.request import Request
from services.measure.chaos.faults import all_faults
from services.measure.chaos.report import Report
from services.measure.chaos.run import Callbacks, Options, run_faults
from tests.decision_helpers import SCENARIO

FAULTS: Final = (
    "target ambiguous",
    "records replayed",
    "records future",
    "fuzz mutated",
    "forged samples",
    "zero metrics all",
)


@pytest.fixture(scope="module")
def report(workplace: Path) -> Report:
    request = Request(scenario=SCENARIO, seed=5, apps=60, speed=20.0)
    faults = [fault for fault in all_faults(1) if fault.name in FAULTS]
    assert len(faults) == len(FAULTS)
    options = Options(minutes=0.0, seed=7, hostile_records=3000)
    silent = Callbacks(lambda _: None, lambda _: None)
    return run_faults(request, faults, options, workplace / "chaos", silent)


def test_no_change_is_lost_or_made_twice(report: Report) -> None:
    assert {row.fault for row in report.rows} == set(FAULTS)
    assert [row for row in report.rows if row.lost or row.doubled] == []
    assert report.changes > 0


def test_nothing_is_decreased_because_of_false_data(report: Report) -> None:
    assert [row for row in report.rows if row.wrong_decreases] == []


def test_every_domain_still_gets_budgets_and_every_service_comes_back(report: Report) -> None:
    assert [row for row in report.rows if row.silenced] == []
    assert (report.dead, report.died, report.skipped) == ([], [], [])
