"""What every target of the actuator promises: one suite for the simulated cluster, the played API
server and the real one."""

from collections.abc import Awaitable
from typing import Any, Protocol

from services._kit.handler import Executor
from services.actuator.target import (
    Change,
    Numbers,
    Present,
    Read,
    Reading,
    TargetRequest,
    Withdrawal,
    Write,
    Written,
)


class World(Protocol):
    """A cluster with one app that may be changed."""

    @property
    def domain(self) -> str:
        """Of the app."""

    @property
    def app(self) -> str:
        """Its name."""

    def run(self, awaitable: Awaitable[Any]) -> Any:
        """The result of a call."""

    def target(self) -> Executor:
        """A target in a new process."""

    def made(self) -> int:
        """How often the app was changed, by the cluster's own account."""


def carry_out(world: World, target: Executor, request: TargetRequest) -> Any:
    return world.run(target.carry_out(request))


def present(world: World, target: Executor, tick: int = 0) -> Present:
    found = carry_out(world, target, Read(domain=world.domain, tick=tick))
    assert isinstance(found, Reading)
    assert found.apps is not None
    return found.apps[world.app]


def raising(world: World, now: Present, tick: int = 0, by: int = 1) -> Write:
    before = Numbers(now.replicas, now.cpu_request, now.memory_request)
    change = Change(
        app=world.app,
        replicas=now.replicas + by,
        cpu_request=now.cpu_request,
        memory_request=now.memory_request,
        before=before,
        decision_id=f"{world.domain}/{tick}/3/heuristic/2",
    )
    return Write(domain=world.domain, tick=tick, changes=[change])


def answer(world: World, target: Executor, request: TargetRequest) -> str:
    found = carry_out(world, target, request)
    assert isinstance(found, Written)
    assert found.answered
    return found.answers[world.app]


class TargetSuite:
    """Inherit, and define the fixture `world`."""

    def test_a_change_against_what_was_read_is_made_once(self, world: World) -> None:
        target = world.target()
        write = raising(world, present(world, target))
        assert answer(world, target, write) == "applied"
        assert world.made() == 1

    def test_a_decision_that_comes_again_changes_nothing(self, world: World) -> None:
        target = world.target()
        write = raising(world, present(world, target))
        assert answer(world, target, write) == "applied"
        assert answer(world, target, write) == "repeat"
        assert world.made() == 1

    def test_a_new_process_finds_what_the_last_one_made(self, world: World) -> None:
        first = world.target()
        write = raising(world, present(world, first))
        assert answer(world, first, write) == "applied"
        assert answer(world, world.target(), write) == "repeat"
        assert world.made() == 1

    def test_a_change_against_other_numbers_is_a_conflict(self, world: World) -> None:
        target = world.target()
        write = raising(world, present(world, target))
        change = write.changes[0]
        stale = Numbers(change.replicas + 5, change.cpu_request, change.memory_request)
        other = Change(
            app=change.app,
            replicas=change.replicas,
            cpu_request=change.cpu_request,
            memory_request=change.memory_request,
            before=stale,
            decision_id=change.decision_id,
        )
        request = Write(domain=write.domain, tick=write.tick, changes=[other])
        assert answer(world, target, request) == "conflict"
        assert world.made() == 0

    def test_an_empty_write_changes_nothing(self, world: World) -> None:
        request = Write(domain=world.domain, tick=0, changes=[])
        found = carry_out(world, world.target(), request)
        assert isinstance(found, Written)
        assert found.answers == {}
        assert world.made() == 0

    def test_a_withdrawal_says_that_nothing_was_made(self, world: World) -> None:
        target = world.target()
        write = raising(world, present(world, target))
        assert answer(world, target, Withdrawal(write=write, reason="paused")) == "withdrawn"
        assert world.made() == 0

    def test_a_withdrawal_says_what_an_earlier_process_made(self, world: World) -> None:
        first = world.target()
        write = raising(world, present(world, first))
        assert answer(world, first, write) == "applied"
        again = Withdrawal(write=write, reason="paused")
        assert answer(world, world.target(), again) == "repeat"
        assert world.made() == 1
