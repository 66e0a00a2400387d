"""Services start in stages and restart when they end; none is given up that could be restarted."""

import os
import signal
import sys
from pathlib import Path

import pytest

from services.devcluster import supervisor
from services.devcluster.record import Run, ServiceSpec
from services.devcluster.supervisor import (
    LONGEST_PAUSE_S,
    MOST_FAILURES,
    PROBE_S,
    QUICK_S,
    Probes,
    Supervisor,
)
from tests.unit.services.system_helpers import run_of, spec


class FakeChild:
    def __init__(self) -> None:
        # A pid that exists: the supervisor looks up its start time.
        self.pid = os.getpid()
        self.status: int | None = None

    def poll(self) -> int | None:
        return self.status

    def kill(self) -> None:
        self.status = -signal.SIGKILL


class FakeClock:
    """The clock of a fixture; its date can be set."""

    def __init__(self, fixture: "SupervisorFixture") -> None:
        self._fixture = fixture

    def now(self) -> float:
        return self._fixture.now

    def date(self) -> float:
        return self._fixture.date


class SupervisorFixture:
    """A supervisor whose services, clock and probes the test controls."""

    def __init__(self, *specs: ServiceSpec) -> None:
        self.now = self.date = 1000.0
        self.children: dict[str, list[FakeChild]] = {one.name: [] for one in specs}
        self.ready: set[str] = set()
        self.stuck: set[str] = set()
        self.published: list[Run] = []
        self.supervisor = Supervisor(
            run_of(*specs),
            self._start,
            Probes(self.ready.__contains__, lambda url: url not in self.stuck),
            FakeClock(self),
            self.published.append,
        )

    def _start(self, one: ServiceSpec) -> FakeChild:
        self.children[one.name].append(FakeChild())
        return self.children[one.name][-1]

    def check(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.date += seconds
        self.supervisor.check()

    def die(self, name: str, status: int = 1, after_s: float = 1.0) -> None:
        self.children[name][-1].status = status
        self.check(after_s)

    def state(self, name: str) -> str:
        return self.published[-1].statuses[name].state


def test_a_stage_waits_until_the_stages_before_are_ready() -> None:
    fixture = SupervisorFixture(spec("soldier"), spec("simcluster", stage=1))
    fixture.check()
    fixture.check()
    assert fixture.state("simcluster") == "waiting"
    fixture.ready.add("http://soldier")
    fixture.check()
    fixture.check()
    assert fixture.state("simcluster") == "running"


def test_a_dead_service_restarts_after_a_pause() -> None:
    fixture = SupervisorFixture(spec("soldier"))
    fixture.check()
    fixture.die("soldier")
    assert fixture.state("soldier") == "resting"
    fixture.check(LONGEST_PAUSE_S)
    assert fixture.state("soldier") == "running"
    assert fixture.published[-1].statuses["soldier"].restarts == 1


def test_pauses_grow_and_are_bounded() -> None:
    fixture = SupervisorFixture(spec("soldier"))
    fixture.check()
    pauses = []
    for _ in range(2000):
        fixture.die("soldier")
        pauses.append(fixture.supervisor.services[0].start_at - fixture.now)
        fixture.check(LONGEST_PAUSE_S)
    assert pauses == sorted(pauses)
    assert pauses[0] < pauses[-1] == LONGEST_PAUSE_S


@pytest.mark.parametrize("after_s", [1.0, QUICK_S + 1])
def test_a_service_that_dies_is_never_given_up_and_its_log_is_named(after_s: float) -> None:
    fixture = SupervisorFixture(spec("soldier"))
    fixture.check()
    for _ in range(50):
        fixture.die("soldier", after_s=after_s)
        (line,) = fixture.published[-1].resting
        assert "soldier.log" in line
        fixture.check(LONGEST_PAUSE_S)
    assert fixture.state("soldier") == "running"
    assert fixture.published[-1].failed == []
    assert fixture.published[-1].statuses["soldier"].restarts == 50


def test_a_service_that_was_stopped_from_outside_is_restarted() -> None:
    fixture = SupervisorFixture(spec("soldier"))
    fixture.check()
    fixture.die("soldier", status=0)
    fixture.check(LONGEST_PAUSE_S)
    assert fixture.state("soldier") == "running"


def test_a_service_that_is_stuck_is_killed_and_restarted() -> None:
    fixture = SupervisorFixture(spec("soldier"))
    fixture.check()
    fixture.check(PROBE_S)
    fixture.stuck.add("http://soldier")
    for _ in range(MOST_FAILURES):
        assert len(fixture.children["soldier"]) == 1
        fixture.check(PROBE_S)
    assert fixture.children["soldier"][0].status == -signal.SIGKILL
    fixture.check(LONGEST_PAUSE_S)
    fixture.check(LONGEST_PAUSE_S)
    assert fixture.state("soldier") == "running"


def test_a_service_that_takes_minutes_to_start_is_not_stuck() -> None:
    # The simulated cluster compiles its kernels before it listens, and is not restarted.
    fixture = SupervisorFixture(spec("simcluster", restartable=False))
    fixture.stuck.add("http://simcluster")
    for _ in range(5 * MOST_FAILURES):
        fixture.check(PROBE_S)
    assert fixture.children["simcluster"][0].status is None


def test_a_service_that_answers_again_in_time_lives_on() -> None:
    fixture = SupervisorFixture(spec("soldier"))
    fixture.check()
    for _ in range(3):
        fixture.stuck.add("http://soldier")
        for _ in range(MOST_FAILURES - 1):
            fixture.check(PROBE_S)
        fixture.stuck.clear()
        fixture.check(PROBE_S)
    assert fixture.children["soldier"][0].status is None


def test_a_date_that_is_set_back_does_not_prevent_a_restart() -> None:
    fixture = SupervisorFixture(spec("soldier"))
    fixture.check()
    assert fixture.published[-1].statuses["soldier"].since == fixture.date
    fixture.die("soldier")
    fixture.date -= 86400.0
    fixture.check(LONGEST_PAUSE_S)
    assert fixture.state("soldier") == "running"
    fixture.die("soldier")
    assert " after 1 s" in fixture.published[-1].statuses["soldier"].detail


def test_a_killed_service_says_by_which_signal_and_when() -> None:
    fixture = SupervisorFixture(spec("soldier"))
    fixture.check()
    fixture.die("soldier", -9, after_s=161.0)
    assert fixture.published[-1].statuses["soldier"].detail == (
        "killed by SIGKILL at 1970-01-01T00:19:21Z after 161 s, see soldier.log"
    )
    fixture.check(LONGEST_PAUSE_S)
    fixture.die("soldier", 3)
    detail = fixture.published[-1].statuses["soldier"].detail
    assert detail.startswith("ended with status 3 at 1970-01-01T00:19:32Z after 1 s")


def test_a_service_with_invalid_settings_is_not_restarted() -> None:
    fixture = SupervisorFixture(spec("soldier"))
    fixture.check()
    fixture.die("soldier", supervisor.BAD_SETTINGS)
    assert fixture.state("soldier") == "failed"


def test_a_service_that_ends_by_itself_is_done() -> None:
    fixture = SupervisorFixture(spec("collector", ends_by_itself=True))
    fixture.check()
    fixture.die("collector", status=0)
    fixture.check(LONGEST_PAUSE_S)
    assert fixture.state("collector") == "done"
    assert len(fixture.children["collector"]) == 1


def test_a_dead_simulated_cluster_is_not_restarted() -> None:
    fixture = SupervisorFixture(spec("simcluster", restartable=False))
    fixture.check()
    fixture.die("simcluster")
    assert fixture.state("simcluster") == "failed"


def test_a_service_does_not_inherit_the_settings_of_the_shell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("HIRL_REQUIRE_REAL", "1")
    log = f"{tmp_path}/logs/one.log"
    one = spec("one", command=("env",), environment={"HIRL_INSTANCE": "1"}, log=log)
    child = supervisor.start_service(one)
    assert child.wait(timeout=10) == 0
    with open(log) as file:  # noqa: PTH123
        text = file.read()
    assert "HIRL_INSTANCE=1" in text
    assert "HIRL_REQUIRE_REAL" not in text


@pytest.mark.parametrize("forbidden", ["", "1"])
def test_a_service_keeps_its_bytecode_where_the_shell_forbids_it_beside_the_sources(
    forbidden: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "module.py").write_text("")
    for name, text in {
        "PYTHONDONTWRITEBYTECODE": forbidden,
        "PYTHONPATH": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, text)
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    command = (sys.executable, "-c", "import module")
    child = supervisor.start_service(spec("one", command=command, log=str(tmp_path / "log")))
    assert child.wait(timeout=10) == 0
    kept = tmp_path / "cache" if forbidden else tmp_path / "__pycache__"
    assert [found.name for found in kept.rglob("module.*.pyc")]
