"""The report says what happened, what could not be done, and whether anybody was harmed."""

from typing import Any

import pytest
from msgspec.structs import replace

from services.measure.chaos.audit import Evidence, Window
from services.measure.chaos.report import (
    Injected,
    NotInjected,
    Report,
    Round,
    Row,
    audited,
    report_of,
)
from services.simcluster.target import Entry, Numbers
from tests.unit.services.measure.chaos.chaos_helpers import EMPTY


def injected(fault: str, recovery_s: float = 1.0) -> Injected:
    return Injected(Window(fault, 0, 10), recovery_s)


def doubled() -> Evidence:
    """A journal in which one decision was made twice."""
    one = Entry(
        sequence=0, tick=5, arrived_tick=5, domain="payments", app="a", decision_id="d",
        outcome="applied", before=Numbers(5, 1, 1), after=Numbers(6, 1, 1), changed=True,
    )  # fmt: skip
    return EMPTY._replace(journal=[one, one])


def reported(*rounds: Round) -> Report:
    return report_of([audited(one) for one in rounds], 1.0)


def test_a_kind_has_one_row_with_the_median_and_the_longest_time() -> None:
    rounds = [
        Round(injected=[injected("kill a", 3.0), injected("kill b")], evidence=EMPTY),
        Round(injected=[injected("kill a", 1.0), injected("kill a", 9.0)], evidence=EMPTY),
    ]
    first, second = reported(*rounds).rows
    assert (first.fault, first.times, first.next_tick_s, first.next_tick_most_s) == (
        "kill a", 3, 3.0, 9.0,
    )  # fmt: skip
    assert (second.fault, second.times) == ("kill b", 1)


def test_harm_of_one_round_is_harm() -> None:
    clean = Round(injected=[injected("kill a")], evidence=EMPTY)
    harmed = clean._replace(evidence=doubled())
    assert not reported(clean).harmed
    report = reported(clean, harmed)
    assert (report.rows[0].doubled, report.harmed, report.changes) == (1, True, 2)


def test_a_skipped_kind_is_named_with_its_reason_unless_it_was_injected_otherwise() -> None:
    reasons = [NotInjected("disk full broker", "no limits here"), NotInjected("kill a", "away")]
    report = reported(Round(injected=[injected("kill a")], skipped=reasons, evidence=EMPTY))
    assert report.skipped == [reasons[0]]
    assert not report.harmed


def test_a_round_without_evidence_is_reported_and_not_taken_for_a_clean_one() -> None:
    report = reported(Round(injected=[injected("kill a")], died="kill a: stands still"))
    assert (report.rows, report.died, report.harmed) == ([], ["kill a: stands still"], True)
    unread = reported(Round(injected=[injected("kill a")]))
    assert unread.died == ["kill a: its journal and topics could not be read"]
    assert unread.harmed


ROW = Row(
    fault="kill a", times=1, lost=0, doubled=0, wrong_decreases=0, holds=9, silenced=0,
    next_tick_s=1.0, next_tick_most_s=99.0,
)  # fmt: skip
CLEAN = Report(
    rows=[ROW], minutes=1.0, ticks=1, changes=1, dead=[], dead_letters=9, hostile_records=9,
    skipped=[], died=[], interrupted=True,
)  # fmt: skip


@pytest.mark.parametrize("column", ["lost", "doubled", "wrong_decreases", "silenced"])
def test_each_kind_of_harm_counts_and_holds_do_not(column: str) -> None:
    changed: dict[str, Any] = {column: 1}
    assert replace(CLEAN, rows=[ROW, replace(ROW, **changed)]).harmed
    assert not CLEAN.harmed


def test_a_dead_service_and_a_dead_round_are_harm() -> None:
    assert replace(CLEAN, dead=["soldier"]).harmed
    assert replace(CLEAN, died=["kill a: stands still"]).harmed
