"""The control loop survives killed services and bad records, and applies each decision once.

The tests compare the simulated cluster's journal with the plans on the bus. The simulated cluster
itself is not killed: a restarted world would begin at tick 0, which every service has closed.
"""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.request import urlopen

import pytest

from schemas.scale_planned import ScalePlanned
from schemas.topics import TOPICS
from services._kit.kafka_python import KafkaProducer
from services.admin.decisions import Decisions, record_decisions
from services.devcluster import record
from services.devcluster.connect import options_for_home
from services.devcluster.launch import system
from services.devcluster.lifecycle import has_ended, wait
from services.devcluster.probe import read_journal, read_metrics, read_progress
from services.devcluster.record import COLLECTOR, Run
from services.devcluster.request import Request
from services.devcluster.specs import DECIDING
from services.simcluster.target import Entry
from tests.decision_helpers import SCENARIO

APPS: Final = 60
SPEED: Final = 20.0
VICTIMS: Final = (COLLECTOR, *DECIDING)
NUMBERS: Final = ("replicas", "cpu_request", "memory_request")
TIMEOUT_S: Final = 300.0
POISON: Final = b"poison"
QUIET_TICKS: Final = 4
"""Ticks between two faults, so that each meets a working system."""
PREVIEW_TICKS: Final = 13
"""Two budgets have been granted by then, so that there is something to change."""


class Survived(NamedTuple):
    """A run in which each service was killed once and then every topic got a bad record."""

    run: Run
    decisions: Decisions
    journal: list[Entry]
    recovery_s: dict[str, float]
    """From the kill to the next tick that every domain closed, by service."""
    restarts_before_poison: dict[str, int]
    ready: dict[str, bool]
    """Whether each service is ready after the bad records."""


@pytest.fixture(scope="module")
def survived(workplace: Path) -> Iterator[Survived]:
    root = workplace / "faults"
    request = Request(scenario=SCENARIO, seed=3, apps=APPS, speed=SPEED)
    with system(request, root) as run:
        wait(root, ticks=QUIET_TICKS, timeout_s=TIMEOUT_S)
        recovery = {name: kill(root, name) for name in VICTIMS}
        before = restarts(root)
        options = options_for_home(Path(run.kafka_home))
        poison(options)
        pass_ticks(root, QUIET_TICKS)
        specs = record.running(root).specs
        ready = {spec.name: read_metrics(spec).ready for spec in specs}
        end_collecting(root)
        decisions = record_decisions(options, lambda: has_ended(record.running(root)))
        yield Survived(record.running(root), decisions, read_journal(run), recovery, before, ready)


def kill(root: Path, name: str) -> float:
    """Kill a service; return the seconds until a tick closes that began after the kill."""
    process = record.running(root).status(name).process
    assert process is not None
    begun = time.monotonic()
    os.kill(process.pid, signal.SIGKILL)
    pass_ticks(root, 1)
    recovered = time.monotonic() - begun
    # The loop runs for a while without some services; the next fault should meet all of them.
    wait_ready(root, name)
    pass_ticks(root, QUIET_TICKS)
    return recovered


def wait_ready(root: Path, name: str) -> None:
    """Wait until a service has been restarted and is ready."""
    deadline = time.monotonic() + TIMEOUT_S
    spec = next(spec for spec in record.running(root).specs if spec.name == name)
    while record.running(root).status(name).restarts == 0 or not read_metrics(spec).ready:
        assert time.monotonic() < deadline, f"{name} does not come back"
        time.sleep(0.1)


def pass_ticks(root: Path, count: int) -> None:
    """Wait until `count` more ticks than the current one are closed."""
    now = read_progress(record.running(root))
    assert now is not None
    wait(root, ticks=now.tick + count + 1, timeout_s=TIMEOUT_S)


def restarts(root: Path) -> dict[str, int]:
    return {name: one.restarts for name, one in record.running(root).statuses.items()}


def poison(options: dict[str, Any]) -> None:
    """Send an undecodable record to every topic."""
    producer = KafkaProducer(**options)
    for topic in TOPICS:
        producer.send(topic.name, b"{ this is no event", key=POISON)
    producer.flush()
    producer.close()


def end_collecting(root: Path) -> None:
    """Stop the collector, which finishes its tick first; the others finish what is on the bus."""
    collector = record.running(root).status(COLLECTOR).process
    assert collector is not None
    os.kill(collector.pid, signal.SIGTERM)


def planned_changes(plan: ScalePlanned) -> list[str]:
    return [
        app
        for at, app in enumerate(plan.apps)
        if any(getattr(plan, n)[at] != getattr(plan, f"{n}_before")[at] for n in NUMBERS)
    ]


def test_the_loop_continues_after_each_service_was_killed(
    survived: Survived, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        for name, seconds in survived.recovery_s.items():
            print(f"\n{name} killed: next closed tick after {seconds:.1f} s", end="")  # noqa: T201
        print()  # noqa: T201
    assert survived.run.failed == []
    assert {survived.restarts_before_poison[name] for name in VICTIMS} == {1}


def test_every_planned_change_ends_exactly_once(survived: Survived) -> None:
    decisions, changes = survived.decisions, 0
    for key, plan in decisions.plans.items():
        assert key in decisions.applied, f"the plan of {key} was never answered"
        applied = decisions.applied[key]
        assert (applied.decision_id, applied.apps) == (plan.decision_id, planned_changes(plan))
        changes += len(applied.apps)
    assert decisions.contradictions == []
    assert changes > 0


def test_nothing_is_applied_twice_or_lost(survived: Survived) -> None:
    reported = Counter(
        (applied.decision_id, app)
        for applied in survived.decisions.applied.values()
        for at, app in enumerate(applied.apps)
        if applied.outcomes[at] == "applied"
    )
    done = Counter(
        (one.decision_id, one.app) for one in survived.journal if one.outcome == "applied"
    )
    assert set(done.values()) <= {1}
    assert done == reported
    # Otherwise the comparison above would hold of a run in which nothing was applied.
    assert done.total() > 0


def test_a_bad_record_on_every_topic_is_dead_lettered_and_stops_no_service(
    survived: Survived,
) -> None:
    letters = survived.decisions.dead_letters
    assert {letter.key for letter in letters} == {POISON.decode()}
    assert Counter((letter.topic, letter.service) for letter in letters) == Counter(
        (topic.name, service)
        for topic in TOPICS
        for service in topic.consumers
        if service in DECIDING and (topic.name, service) not in _UNREAD
    )
    # The fixture stops the collector later; no other service may have ended.
    assert survived.ready == dict.fromkeys(survived.ready, True)
    after = {name: one.restarts for name, one in survived.run.statuses.items()}
    assert after == survived.restarts_before_poison


_UNREAD: Final = frozenset({("hirl.samples-signed.v1", "aggregator")})
"""Topics that a service may read and does not: the aggregator without keys of agents."""


def test_preview_decides_and_writes_nothing(workplace: Path) -> None:
    root = workplace / "preview"
    request = Request(scenario=SCENARIO, seed=3, apps=APPS, lock_step=True, mode="preview")
    with system(request, root) as run:
        wait(root, ticks=PREVIEW_TICKS, timeout_s=TIMEOUT_S)
        end_collecting(root)
        options = options_for_home(Path(run.kafka_home))
        decisions = record_decisions(options, lambda: has_ended(record.running(root)))
        # Not `read_journal`, which also returns nothing if the cluster doesn't answer.
        with urlopen(f"{run.cluster_url}/v1/journal", timeout=60) as answer:  # noqa: S310  (our own URL)
            assert answer.read() == b""
    reasons = Counter(reason for one in decisions.applied.values() for reason in one.reasons)
    assert set(reasons) == {"preview"}
    assert reasons.total() > 0
