"""A plan resizes pods within bounds around their first size, whoever made it."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from schemas.domain_observed import DomainObserved
from schemas.fields import Event
from schemas.scale_planned import ScalePlanned
from services.actuator.target import Change, Read, Reading
from tests.service_helpers import APPS, DOMAIN, granted, heartbeat, time_of
from tests.unit.services.actuator.actuator_helpers import Alone, present

FEW, MANY = 2, 45
"""Pods of the first app and of the others: it stays below a tenth of the domain."""
CPU, MEMORY = 1000, 2048
LARGEST = 2**31 - 1
WINDOW = 6
"""Ticks of the blast radius."""


class Resized(Alone):
    """An actuator whose target makes each resize of the first app at once."""

    def __init__(self) -> None:
        super().__init__()
        self.cpu, self.memory = CPU, MEMORY
        self.take(granted(0))

    def read(self, request: Read) -> Reading:
        apps = {app: present(replicas=MANY, ready=MANY) for app in APPS}
        apps[APPS[0]] = present(
            replicas=FEW, ready=FEW, cpu_request=self.cpu, memory_request=self.memory
        )
        return Reading(domain=request.domain, tick=request.tick, apps=apps)

    def learn(self, event: Event) -> None:
        self.handler.learn_recorded(event, self.clock.date(), self.clock)

    def resize(self, tick: int, cpu: int, memory: int) -> list[Change]:
        """What a plan of the tick changes."""
        (write,) = self.take(self._frame(tick), self._plan(tick, cpu, memory))
        for change in write.changes:
            self.cpu, self.memory = change.cpu_request, change.memory_request
        return write.changes

    def leave_out(self, tick: int) -> None:
        """Take frame and plan of a tick that lack the first app."""
        plan = self._plan(tick, CPU, MEMORY)
        self.take(_without_first(self._frame(tick)), _without_first(plan))

    def _frame(self, tick: int) -> DomainObserved:
        frame = self.frames[1]
        pods = msgspec.structs.replace(
            frame.pods,
            replicas=_column(FEW, MANY),
            ready=_column(FEW, MANY),
            cpu_request=_column(self.cpu, CPU),
            memory_request=_column(self.memory, MEMORY),
        )
        return msgspec.structs.replace(frame, tick=tick, time=time_of(tick), pods=pods)

    def _plan(self, tick: int, cpu: int, memory: int) -> ScalePlanned:
        return msgspec.structs.replace(
            self.plans[1],
            tick=tick,
            time=time_of(tick),
            decision_id=f"{DOMAIN}/{tick}/forged",
            replicas=_column(FEW, MANY),
            cpu_request=_column(cpu, CPU),
            memory_request=_column(memory, MEMORY),
            reasons=["resize"] * len(APPS),
        )

    def hold_reason(self, tick: int, cpu: int, memory: int) -> str:
        """Why a plan's resize of the first app is held."""
        self.take(self._frame(tick))
        applied = self.decide(self._plan(tick, cpu, memory))
        assert applied.outcomes == ["held"]
        return applied.reasons[0]


def _without_first(event: DomainObserved | ScalePlanned) -> Any:
    """The same event, which leaves the first app out."""
    if isinstance(event, ScalePlanned):
        return _rest_of(event)
    features = {name: values[1:] for name, values in event.features.items()}
    return msgspec.structs.replace(
        _rest_of(event), pods=_rest_of(event.pods), features=features, measured={}
    )


def _rest_of(columns: Any) -> Any:
    """Every column without the first app."""
    found = {name: getattr(columns, name) for name in columns.__struct_fields__}
    rest = {
        name: column[1:]
        for name, column in found.items()
        if isinstance(column, list) and len(column) == len(APPS)
    }
    return msgspec.structs.replace(columns, **rest)


def _column(first: int, others: int) -> list[int]:
    return [first, *[others] * (len(APPS) - 1)]


@pytest.mark.parametrize(
    ("cpu", "memory"),
    [
        *[(cpu, MEMORY) for cpu in (0, 1, CPU - 1, 2 * CPU + 1, LARGEST)],
        *[(CPU, memory) for memory in (0, 1, MEMORY - 1, 4 * MEMORY + 1, LARGEST)],
        (1, 1),
        (LARGEST, LARGEST),
    ],
)
def test_sizes_that_no_soldier_would_plan_are_held(cpu: int, memory: int) -> None:
    assert Resized().resize(1, cpu, memory) == []


def test_a_held_resize_names_the_rule_that_holds_it() -> None:
    # A breaker takes "resize" for a change that was tried and failed; enough of them open it.
    assert Resized().hold_reason(1, CPU // 2, MEMORY) == "hold-size"


@pytest.mark.parametrize(("cpu", "memory"), [(2 * CPU, MEMORY), (CPU, 4 * MEMORY)])
def test_pods_grow_as_far_as_a_soldier_may_plan(cpu: int, memory: int) -> None:
    (change,) = Resized().resize(1, cpu, memory)
    assert (change.cpu_request, change.memory_request) == (cpu, memory)


@pytest.mark.parametrize(
    ("steps", "cpu"), [((1.5, 2.25, 3.0), 1.5), ((2.0, 2.5, 4.0), 2.0), ((2.0, 1.0, 0.5), 1.0)]
)
def test_many_small_steps_lead_no_further_than_one(steps: Sequence[float], cpu: float) -> None:
    resized = Resized()
    for tick in range(1, WINDOW * len(steps) + 1):
        resized.learn(heartbeat(tick))
        resized.take(granted(tick - 1))
        # One step per window, so that the blast radius is no limit.
        minute, rest = divmod(tick - 1, WINDOW)
        wanted = resized.cpu if rest else int(steps[minute] * CPU)
        resized.resize(tick, wanted, MEMORY)
        resized.restart()
    assert resized.cpu == cpu * CPU


def test_an_app_that_is_left_out_for_a_tick_keeps_its_first_size() -> None:
    resized = Resized()
    for tick in range(1, 3 * WINDOW):
        resized.learn(heartbeat(tick))
        resized.take(granted(tick - 1))
        # Right after each resize: the target has not shown it yet.
        if tick % WINDOW == 2:
            resized.leave_out(tick)
            assert APPS[0] not in resized.state.names
        else:
            wanted = 2 * resized.cpu if tick % WINDOW == 1 else resized.cpu
            resized.resize(tick, wanted, MEMORY)
        resized.restart()
    assert resized.cpu == 2 * CPU
    # What is remembered of it meanwhile is forgotten when it is back.
    assert resized.state.left == {}
