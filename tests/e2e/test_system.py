"""The whole system as processes on a real Kafka, in lock-step, to the end of a short scenario."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from services.admin import credentials
from services.admin.decisions import Decisions, read_decisions, record_decisions
from services.devcluster import record
from services.devcluster.connect import options_for_home
from services.devcluster.launch import system
from services.devcluster.lifecycle import has_ended, wait
from services.devcluster.probe import read_journal, read_results
from services.devcluster.record import Run
from services.devcluster.request import Request
from services.simcluster.score import Results
from services.simcluster.target import Entry
from tests.e2e.scenarios import FIVE_MINUTES, TICKS, written

NUMBERS = ("replicas", "cpu_request", "memory_request")


class Finished(NamedTuple):
    run: Run
    decisions: Decisions
    kept: Decisions
    journal: list[Entry]
    results: Results


@pytest.fixture(scope="module")
def finished(workplace: Path) -> Iterator[Finished]:
    root = workplace / "run"
    with written(FIVE_MINUTES) as scenario, system(_request(scenario), root) as run:
        wait(root, ticks=1, timeout_s=300)
        options = options_for_home(Path(run.kafka_home))
        # Recorded during the run: compaction would remove older budgets.
        decisions = record_decisions(options, lambda: has_ended(record.running(root)))
        wait(root, timeout_s=60)
        results = read_results(run)
        assert results is not None
        kept = read_decisions(credentials.options(run.bootstrap))
        yield Finished(record.running(root), decisions, kept, read_journal(run), results)
    assert record.read(root) is None


def _request(scenario: Path) -> Request:
    return Request(scenario=str(scenario), seed=3, apps=60, lock_step=True)


def test_every_tick_of_every_domain_is_planned_and_closed(finished: Finished) -> None:
    expected = {
        (tick, domain) for tick in range(TICKS) for domain in finished.run.simulation.domains
    }
    assert finished.results.finished
    assert set(finished.decisions.plans) == expected
    assert set(finished.decisions.applied) == expected


def test_each_minute_has_forecasts_budgets_and_node_requests(finished: Finished) -> None:
    minutes = set(range(0, TICKS, 6))
    decisions = finished.decisions
    for decided in (decisions.forecasts, decisions.budgets, decisions.requests):
        assert {tick for tick, _ in decided} == minutes


def test_every_planned_change_ends_exactly_once(finished: Finished) -> None:
    changes = 0
    for key, plan in finished.decisions.plans.items():
        applied = finished.decisions.applied[key]
        wanted = [
            app
            for at, app in enumerate(plan.apps)
            if any(getattr(plan, n)[at] != getattr(plan, f"{n}_before")[at] for n in NUMBERS)
        ]
        assert applied.apps == wanted
        assert applied.decision_id == plan.decision_id
        changes += len(wanted)
    assert changes > 0


def test_the_journal_of_the_cluster_agrees_with_the_actuators_events(finished: Finished) -> None:
    reported = Counter(
        (tick, app, applied.decision_id, applied.replicas[at])
        for (tick, _), applied in finished.decisions.applied.items()
        for at, app in enumerate(applied.apps)
        if applied.outcomes[at] == "applied"
    )
    done = Counter(
        (entry.tick, entry.app, entry.decision_id, entry.after.replicas if entry.after else None)
        for entry in finished.journal
        if entry.outcome == "applied"
    )
    assert reported == done
    assert {entry.outcome for entry in finished.journal} <= {"applied", "repeat"}


def test_nothing_is_contradicted_overrun_or_rejected(finished: Finished) -> None:
    assert finished.decisions.contradictions == []
    assert finished.decisions.dead_letters == []
    assert max(plan.overruns for plan in finished.decisions.plans.values()) == 0


def test_no_service_was_restarted(finished: Finished) -> None:
    assert finished.run.failed == []
    assert {name: one.restarts for name, one in finished.run.statuses.items()} == dict.fromkeys(
        finished.run.statuses, 0
    )


def test_the_topics_hold_what_was_published(finished: Finished) -> None:
    assert finished.kept.plans == finished.decisions.plans
    assert finished.kept.applied == finished.decisions.applied
    # Compaction may have removed older budgets of a domain.
    assert finished.kept.budgets.items() <= finished.decisions.budgets.items()
