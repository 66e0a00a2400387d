"""Rounds go on whatever a fault does: skipped, dead or interrupted, everything is reported."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from models.inputs.errors import InputError
from services.devcluster.request import Request
from services.measure.chaos import run
from services.measure.chaos.audit import Evidence
from services.measure.chaos.report import Report
from services.measure.chaos.run import Callbacks, Options, Schedule, run_faults
from services.measure.chaos.subject import NO_CLAIMS, Claims, Fault, Skipped, Subject
from tests.unit.services.measure.chaos.chaos_helpers import EMPTY

LAST_TICK = 500


class FakeSystem:
    """A system that starts, ticks with each look at it, and may stand still."""

    def __init__(self) -> None:
        self.tick = 0
        self.stands_still_after = ""
        self.readable = True
        self.injected: list[str] = []

    def fault(self, name: str, inject: Callable[[Subject], Claims] | None = None) -> Fault:
        def injection(subject: Subject) -> Claims:
            self.injected.append(name)
            return NO_CLAIMS if inject is None else inject(subject)

        return Fault(name, injection)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeSystem:
    fake = FakeSystem()

    class Running:
        cluster_url = "http://127.0.0.1:1"

        class simulation:  # noqa: N801  an attribute of a run
            total_ticks = LAST_TICK

    @contextmanager
    def system(*_: Any, **__: Any) -> Iterator[Running]:
        fake.tick = 0
        yield Running()

    def pass_ticks(_: Path, count: int) -> None:
        if fake.injected[-1:] == [fake.stands_still_after]:
            raise InputError("after 240 s the last closed tick is 7")
        fake.tick += count

    def evidence(_: Subject) -> Evidence | None:
        return EMPTY if fake.readable else None

    monkeypatch.setattr(run, "system", system)
    monkeypatch.setattr(run, "wait", lambda *_, **__: None)
    monkeypatch.setattr(run, "has_ended", lambda _: False)
    monkeypatch.setattr(run, "_pass_ticks", pass_ticks)
    monkeypatch.setattr(run, "_not_ready", lambda _: [])
    monkeypatch.setattr(run, "_evidence", evidence)
    monkeypatch.setattr(Subject, "run", Running())
    monkeypatch.setattr(Subject, "tick", lambda _: fake.tick)
    monkeypatch.setattr(Subject, "is_calm", lambda _: True)
    return fake


def play(folder: Path, faults: list[Fault], reports: list[Report] | None = None) -> Report:
    options = Options(minutes=0, seed=0, hostile_records=6)
    kept = [] if reports is None else reports
    return run_faults(Request(), faults, options, folder, Callbacks(lambda _: None, kept.append))


def interrupt(_: Subject) -> Claims:
    raise KeyboardInterrupt


def refuse(_: Subject) -> Claims:
    raise Skipped("no limits on this machine")


def fail(_: Subject) -> Claims:
    raise ConnectionRefusedError("no broker")


def test_a_fault_that_cannot_be_injected_is_skipped_with_its_reason(
    tmp_path: Path, fake: FakeSystem
) -> None:
    faults = [fake.fault("a", refuse), fake.fault("b", fail), fake.fault("c")]
    report = play(tmp_path, faults)
    assert [row.fault for row in report.rows] == ["c"]
    assert [(one.fault, one.reason) for one in report.skipped] == [
        ("a", "no limits on this machine"),
        ("b", "ConnectionRefusedError('no broker')"),
    ]
    assert not report.harmed


def test_a_system_that_stands_still_is_reported_and_the_others_come_in_a_new_one(
    tmp_path: Path, fake: FakeSystem
) -> None:
    fake.stands_still_after = "a"
    faults = [fake.fault(name) for name in "abcd"]
    report = play(tmp_path, faults)
    assert sorted(fake.injected) == ["a", "b", "c", "d"]
    assert report.died == ["a: after 240 s the last closed tick is 7"]
    assert report.harmed
    assert [row.fault for row in report.rows] == ["a", "b", "c", "d"]


def test_ctrl_c_reports_what_happened_until_then(tmp_path: Path, fake: FakeSystem) -> None:
    schedule = Schedule([fake.fault(name) for name in "abc"], 0, random.Random(0))
    first = schedule.next()
    assert first is not None
    second = next(name for name in ("a", "b", "c") if name == schedule.queue[1].name)
    faults = [fake.fault(name, interrupt if name == second else None) for name in "abc"]
    report = play(tmp_path, faults)
    assert report.interrupted
    assert [row.fault for row in report.rows] == [first.name]


def test_systems_that_never_start_end_the_run(
    tmp_path: Path, fake: FakeSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise InputError("no Java")

    monkeypatch.setattr(run, "system", broken)
    report = play(tmp_path, [fake.fault("a")])
    assert report.died == ["InputError: no Java"] * 3
    assert report.harmed


def test_a_scenario_that_ends_is_followed_by_another_one(tmp_path: Path, fake: FakeSystem) -> None:
    reports: list[Report] = []
    faults = [fake.fault(str(number)) for number in range(60)]
    report = play(tmp_path, faults, reports)
    assert len(report.rows) == 60, "a round has room for about thirty"
    assert report.died == []
    # What is known so far, after each of the rounds.
    assert 0 < len(reports[0].rows) < 60
    assert reports[-1].rows == report.rows


def test_a_release_that_dies_of_hostile_records_gets_a_system_without_them(
    tmp_path: Path, fake: FakeSystem
) -> None:
    sent_before: list[int] = []

    def flood(subject: Subject) -> Claims:
        subject.sent += 100
        return NO_CLAIMS

    def downgrade(subject: Subject) -> Claims:
        sent_before.append(subject.sent)
        return NO_CLAIMS

    release = fake.fault("release", downgrade)._replace(clean_topics=True)
    faults = [fake.fault("flood", flood), release, fake.fault("kill")]
    assert len(play(tmp_path, faults).rows) == 3
    assert fake.injected[0] == "release"
    # In the second pass, too, which begins in a system that was flooded.
    now = iter(range(10_000))
    schedule = Schedule(faults, 0.5, random.Random(3), lambda: float(next(now)))
    options = Options(minutes=0, seed=0, hostile_records=6)
    while schedule.next() is not None:
        run._round(Request(), schedule, options, tmp_path / "again", lambda _: None)
    assert len(sent_before) > 2
    assert set(sent_before) == {0}


def test_an_ended_scenario_is_not_waited_for_although_a_breaker_is_open(
    tmp_path: Path, fake: FakeSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Subject, "is_calm", lambda _: False)
    monkeypatch.setattr(run, "has_ended", lambda _: fake.tick >= LAST_TICK)

    def end(_: Subject) -> Claims:
        fake.tick = LAST_TICK
        monkeypatch.setattr(run, "_pass_ticks", lambda *_: None)
        return NO_CLAIMS

    assert [row.fault for row in play(tmp_path, [fake.fault("a", end)]).rows] == ["a"]


def test_a_collector_that_is_done_with_its_scenario_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Named(NamedTuple):
        name: str
        url: str
        state: str

    class Ended:
        specs = (Named("collector", "down", "done"), Named("soldier", "up", "running"))

        def status(self, name: str) -> Named:
            return next(spec for spec in self.specs if spec.name == name)

    monkeypatch.setattr(run.record, "running", lambda _: Ended())  # type: ignore[attr-defined]
    monkeypatch.setattr(run, "is_ready", lambda url: url == "up")
    monkeypatch.setattr(run, "_TIMEOUT_S", 0.5)
    assert run._not_ready(tmp_path) == []
    monkeypatch.setattr(run, "is_ready", lambda _: False)
    assert run._not_ready(tmp_path) == ["soldier"]


def test_only_rounds_that_did_harm_keep_their_logs(tmp_path: Path, fake: FakeSystem) -> None:
    fake.stands_still_after = "a"
    report = play(tmp_path, [fake.fault(name) for name in "ab"])
    assert len(report.died) == 1
    assert len(list(tmp_path.iterdir())) == 1


def test_an_unexpected_error_costs_one_fault_or_one_round_and_not_the_table(
    tmp_path: Path, fake: FakeSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forget(_: Subject) -> Claims:
        raise KeyError("no such thing")

    report = play(tmp_path / "1", [fake.fault("a", forget), fake.fault("b")])
    assert [row.fault for row in report.rows] == ["b"]
    assert [one.fault for one in report.skipped] == ["a"]

    def stumble(_: Path) -> list[str]:
        raise KeyError("soldier")

    monkeypatch.setattr(run, "_not_ready", stumble)
    report = play(tmp_path / "2", [fake.fault("a")])
    assert report.died == ["KeyError: 'soldier'"]
    assert (tmp_path / "2/round-0/traceback.txt").is_file()


def test_what_was_played_counts_although_the_system_cannot_be_stopped(
    tmp_path: Path, fake: FakeSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def stubborn(*_: Any, **__: Any) -> Iterator[Any]:
        fake.tick = 0
        yield Subject.run
        raise InputError("a broker does not end")

    monkeypatch.setattr(run, "system", stubborn)
    report = play(tmp_path, [fake.fault("a")])
    assert [row.fault for row in report.rows] == ["a"]
    assert report.died == ["InputError: a broker does not end"]


def test_each_kind_comes_once_before_any_comes_again() -> None:
    schedule = Schedule([Fault(name, refuse) for name in "abc"], 0.0, random.Random(1))
    names = []
    while (fault := schedule.next()) is not None:
        names.append(fault.name)
        schedule.done()
    assert sorted(names) == ["a", "b", "c"]


def test_the_time_that_is_left_covers_the_minutes_and_the_kinds() -> None:
    now = 0.0
    schedule = Schedule(
        [Fault(name, refuse) for name in "abcd"], 1.0, random.Random(1), lambda: now
    )
    assert schedule.left_s == 60.0
    now = 50.0
    schedule.next()
    schedule.done()
    assert schedule.left_s == 150.0, "three kinds of fifty seconds"
    for _ in range(3):
        schedule.next()
        schedule.done()
    assert schedule.left_s == 10.0
    assert schedule.next() is not None, "the minutes are not over"
    now = 61.0
    assert schedule.next() is None
