"""Services are started in stages, started again when they die, and given up when it is in vain."""

import os

import pytest

from services.devcluster import supervisor
from services.devcluster.record import Run, ServiceSpec
from services.devcluster.supervisor import LONGEST_PAUSE_S, MOST_QUICK_DEATHS, QUICK_S, Supervisor
from tests.unit.system_helpers import run_of, spec


class FakeChild:
    def __init__(self) -> None:
        self.pid = os.getpid()
        self.status: int | None = None

    def poll(self) -> int | None:
        return self.status


class Times:
    """The clock of a house; its date can be set."""

    def __init__(self, house: "House") -> None:
        self._house = house

    def now(self) -> float:
        return self._house.now

    def date(self) -> float:
        return self._house.date


class House:
    """A supervisor whose services, clock and probes are at the test's command."""

    def __init__(self, *specs: ServiceSpec) -> None:
        self.now = self.date = 1000.0
        self.children: dict[str, list[FakeChild]] = {one.name: [] for one in specs}
        self.ready: set[str] = set()
        self.told: list[Run] = []
        self.supervisor = Supervisor(
            run_of(*specs), self._start, self.ready.__contains__, Times(self), self.told.append
        )

    def _start(self, one: ServiceSpec) -> FakeChild:
        self.children[one.name].append(FakeChild())
        return self.children[one.name][-1]

    def look(self, seconds: float = 0.0) -> None:
        self.now += seconds
        self.date += seconds
        self.supervisor.check()

    def die(self, name: str, status: int = 1, after_s: float = 1.0) -> None:
        self.children[name][-1].status = status
        self.look(after_s)

    def state(self, name: str) -> str:
        return self.told[-1].statuses[name].state


def test_a_stage_waits_until_everybody_before_is_ready() -> None:
    house = House(spec("soldier"), spec("simcluster", stage=1))
    house.look()
    house.look()
    assert house.state("simcluster") == "waiting"
    house.ready.add("http://soldier")
    house.look()
    house.look()
    assert house.state("simcluster") == "running"


def test_a_service_that_dies_is_started_again_after_a_pause() -> None:
    house = House(spec("soldier"))
    house.look()
    house.die("soldier")
    assert house.state("soldier") == "resting"
    house.look(LONGEST_PAUSE_S)
    assert house.state("soldier") == "running"
    assert house.told[-1].statuses["soldier"].restarts == 1


def test_pauses_grow_and_are_bounded() -> None:
    house = House(spec("soldier"))
    house.look()
    pauses = []
    for _ in range(MOST_QUICK_DEATHS - 1):
        house.die("soldier")
        pauses.append(house.supervisor.services[0].start_at - house.now)
        house.look(LONGEST_PAUSE_S)
    assert pauses == sorted(pauses)
    assert pauses[0] < pauses[-1] <= LONGEST_PAUSE_S


def test_a_service_that_dies_at_once_again_and_again_is_given_up_with_its_log_named() -> None:
    house = House(spec("soldier"))
    house.look()
    for _ in range(MOST_QUICK_DEATHS):
        house.die("soldier")
        house.look(LONGEST_PAUSE_S)
    assert house.state("soldier") == "failed"
    (line,) = house.told[-1].failed
    assert "soldier.log" in line
    assert len(house.children["soldier"]) == MOST_QUICK_DEATHS


def test_deaths_after_long_lives_are_never_too_many() -> None:
    house = House(spec("soldier"))
    house.look()
    for _ in range(3 * MOST_QUICK_DEATHS):
        house.die("soldier", after_s=QUICK_S + 1)
        house.look(LONGEST_PAUSE_S)
    assert house.state("soldier") == "running"


def test_who_sets_the_date_back_keeps_nobody_from_being_started_again() -> None:
    house = House(spec("soldier"))
    house.look()
    assert house.told[-1].statuses["soldier"].since == house.date
    house.die("soldier")
    house.date -= 86400.0
    house.look(LONGEST_PAUSE_S)
    assert house.state("soldier") == "running"
    house.die("soldier")
    assert " after 1 s" in house.told[-1].statuses["soldier"].detail


def test_bad_settings_are_not_tried_twice() -> None:
    house = House(spec("soldier"))
    house.look()
    house.die("soldier", supervisor.BAD_SETTINGS)
    assert house.state("soldier") == "failed"


def test_a_service_that_ends_by_itself_is_done() -> None:
    house = House(spec("collector"))
    house.look()
    house.die("collector", status=0)
    house.look(LONGEST_PAUSE_S)
    assert house.state("collector") == "done"
    assert len(house.children["collector"]) == 1


def test_a_world_that_died_is_not_begun_again() -> None:
    house = House(spec("simcluster", restartable=False))
    house.look()
    house.die("simcluster")
    assert house.state("simcluster") == "failed"


def test_a_service_does_not_inherit_settings_of_ours(
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
